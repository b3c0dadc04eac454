//! The machine's name, kernel and clock tick.

use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Description of the recorded machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Host name.
    pub name: Option<String>,
    /// Kernel release (`uname -r`).
    pub kernel: Option<String>,
    /// `CONFIG_HZ`: frequency of the kernel's tick, in which `io_ticks` advances.
    pub hz: Option<u32>,
}

impl Host {
    /// Reads the description under `root`; a field that cannot be read is `None`.
    pub fn read(root: &Path) -> Host {
        let kernel = trimmed(&root.join("proc/sys/kernel/osrelease"));
        let hz = kernel
            .as_deref()
            .and_then(|release| {
                fs::read_to_string(root.join(format!("boot/config-{release}"))).ok()
            })
            .or_else(|| gunzip(&root.join("proc/config.gz")))
            .and_then(|config| config_hz(&config));
        Host {
            name: trimmed(&root.join("proc/sys/kernel/hostname")),
            kernel,
            hz,
        }
    }
}

fn trimmed(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned())
}

fn config_hz(config: &str) -> Option<u32> {
    config
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_HZ="))?
        .trim()
        .parse()
        .ok()
}

fn gunzip(path: &Path) -> Option<String> {
    let mut out = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).ok()?)
        .read_to_string(&mut out)
        .ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hz_is_read_from_the_kernels_configuration() {
        assert_eq!(
            config_hz("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
            Some(250)
        );
        assert_eq!(config_hz("CONFIG_HZ_PERIODIC=y\n"), None);
    }

    #[test]
    fn an_empty_root_is_no_error() {
        let root = tempfile::tempdir().expect("temporary directory");
        assert_eq!(Host::read(root.path()), Host::default());
    }
}
