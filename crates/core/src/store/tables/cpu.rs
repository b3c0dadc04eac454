//! CPU shares in an import: `cpu/000001.parquet`, written once at the end of the import.

use std::path::Path;

use super::rates::{GROUP, each_batch};
use crate::model::CpuShares;
use crate::private::Access;
use crate::store::StoreError;
use crate::store::whole_file::write_table;

table! {
    whole "cpu" of CpuShares, by to_ns;

    /// start of the interval
    from_ns: i64 = |r| r.from_ns;

    /// end of the interval; the table's time
    to_ns: i64 = |r| r.to_ns;

    /// percent of CPU time in user programs; this and the next ones are null if the source does not have them
    user: Option<f64> = |r| r.user;

    /// percent of CPU time in niced programs
    nice: Option<f64> = |r| r.nice;

    /// percent of CPU time in the kernel
    system: Option<f64> = |r| r.system;

    /// percent of CPU time idle while an I/O was outstanding
    iowait: Option<f64> = |r| r.iowait;

    /// percent of CPU time in which the hypervisor ran others
    steal: Option<f64> = |r| r.steal;

    /// percent of CPU time idle
    idle: Option<f64> = |r| r.idle;
}

pub(super) fn write_cpu(
    recording: &Path,
    cpu: &[CpuShares],
    access: Access,
) -> Result<(), StoreError> {
    if cpu.is_empty() {
        return Ok(());
    }
    write_table(recording, &TABLE, access, cpu.chunks(GROUP).map(collect))
}

/// Reads the CPU shares of an import.
///
/// # Errors
/// A file is damaged.
pub fn read_cpu(recording: &Path) -> Result<Vec<CpuShares>, StoreError> {
    let mut all = Vec::new();
    each_batch(recording, &TABLE, |columns, rows| {
        let c = Columns(columns);
        all.extend((0..rows).map(|i| CpuShares {
            from_ns: c.from_ns(i),
            to_ns: c.to_ns(i),
            user: c.user(i),
            nice: c.nice(i),
            system: c.system(i),
            iowait: c.iowait(i),
            steal: c.steal(i),
            idle: c.idle(i),
        }));
        all.len()
    })?;
    Ok(all)
}
