//! The CPU shares that tables of `iostat` and `sar` have as columns.

use iolens_core::model::CpuShares;

/// A CPU share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CpuShare {
    User,
    Nice,
    System,
    Iowait,
    Steal,
    Idle,
}

impl CpuShare {
    /// The field of `cpu` with this share, in percent.
    pub fn place_in(self, cpu: &mut CpuShares) -> &mut Option<f64> {
        match self {
            CpuShare::User => &mut cpu.user,
            CpuShare::Nice => &mut cpu.nice,
            CpuShare::System => &mut cpu.system,
            CpuShare::Iowait => &mut cpu.iowait,
            CpuShare::Steal => &mut cpu.steal,
            CpuShare::Idle => &mut cpu.idle,
        }
    }
}
