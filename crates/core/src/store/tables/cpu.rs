//! The processors' shares in an import: `cpu/000001.parquet`, written once when it is complete.

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

    /// its end; the table's time
    to_ns: i64 = |r| r.to_ns;

    /// percent in programs; null, as are the next ones, where the source did not say
    user: Option<f64> = |r| r.user;

    /// percent in programs of lowered priority
    nice: Option<f64> = |r| r.nice;

    /// percent in the kernel
    system: Option<f64> = |r| r.system;

    /// percent idle while I/O was waited for
    iowait: Option<f64> = |r| r.iowait;

    /// percent that the hypervisor gave to others
    steal: Option<f64> = |r| r.steal;

    /// percent idle
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

/// Reads the processors' shares of an import.
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
