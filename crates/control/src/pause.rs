//! Cooperative throttling: sleeps for a loop of small operations.

use std::time::Duration;

use super::Mode;

/// How long to sleep, and after how many operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Operations between two looks at the signal.
    pub every_ops: u32,
    /// Sleep there; zero: none.
    pub sleep: Duration,
}

/// The batches and sleeps of the AIStore object store, whose background loops look at the disks' utilisation every 512
/// operations while these are idle, and sleep 1 ms every 32 and 10 ms every 16 as it rises.
pub fn pause(mode: Mode) -> Pause {
    let (every_ops, ms) = match mode {
        Mode::Off => (512, 0),
        Mode::Hold | Mode::Throttle => (32, 1),
        Mode::Emergency | Mode::Blind => (16, 10),
    };
    Pause {
        every_ops,
        sleep: Duration::from_millis(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_frequency_follows_load() {
        let [off, hold, emergency] = [Mode::Off, Mode::Hold, Mode::Emergency].map(pause);
        assert_eq!(
            (off.every_ops, hold.every_ops, emergency.every_ops),
            (512, 32, 16)
        );
        assert!(off.sleep.is_zero() && hold.sleep < emergency.sleep);
        assert_eq!(
            pause(Mode::Blind),
            emergency,
            "a silent sensor is the worst case"
        );
    }
}
