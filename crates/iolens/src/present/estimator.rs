//! What to know about the kernel's estimate of busy time, in words.

use iolens_core::analysis::counters::io_ticks::Regime;

/// What `%util` is worth on kernels with this estimator: a clause without its full stop.
pub fn about(regime: Regime) -> &'static str {
    match regime {
        Regime::RoundStats => "kernels up to 4.16 count busy time exactly to a jiffy",
        Regime::AllocatedToo => {
            "kernels 4.17 to 4.19 also count requests that only wait for a tag: %util is too high"
        }
        Regime::TouchedJiffy => {
            "kernels 5.0 to 5.6 count every jiffy that an I/O touches by starting or ending: \
             %util is far too high for short I/O and too low for long I/O"
        }
        Regime::StartTouches => {
            "kernels 5.7 to 6.9 count every jiffy in which an I/O starts: \
             %util is far too high for short I/O, too low for long overlapping I/O"
        }
        Regime::Sampled => {
            "on kernels from 6.10 on %util is unbiased, but noisy for I/Os shorter than one tick"
        }
    }
}
