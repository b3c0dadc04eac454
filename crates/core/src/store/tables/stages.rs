//! Stages of single bios in an import: `stages/000001.parquet`, written once at the end of the import.

use std::path::Path;

use crate::model::{BioStages, DevId};
use crate::private::Access;
use crate::store::StoreError;
use crate::store::whole_file::{each_group, path_of, read_group, rows_of, write_table};

table! {
    whole "stages" of BioStages, by done_ns;

    /// completion of the bio's request, since the recording's start
    done_ns: i64 = |r| r.done_ns;

    /// device number
    dev: i32 = |r| r.dev.0;

    /// queued to request allocated, in nanoseconds; this and the next four are null if the stage was not seen or did
    /// not occur
    q2g_ns: Option<i64> = |r| r.q2g_ns;

    /// request allocated to inserted into the scheduler
    g2i_ns: Option<i64> = |r| r.g2i_ns;

    /// queued to merged into a request
    q2m_ns: Option<i64> = |r| r.q2m_ns;

    /// inserted to issued to the driver
    i2d_ns: Option<i64> = |r| r.i2d_ns;

    /// merged to issued to the driver
    m2d_ns: Option<i64> = |r| r.m2d_ns;

    /// issue to completion
    d2c_ns: i64 = |r| r.d2c_ns;

    /// queued to completion
    q2c_ns: Option<i64> = |r| r.q2c_ns;
}

/// Rows per row group, which is the unit held in memory.
const GROUP: usize = 1 << 16;

/// Writes the stage times of bios into a recording; writes no file if there are none.
///
/// # Errors
/// The file system refuses or is full.
pub fn write_stages(
    recording: &Path,
    bios: &[BioStages],
    access: Access,
) -> Result<(), StoreError> {
    if bios.is_empty() {
        return Ok(());
    }
    write_table(recording, &TABLE, access, bios.chunks(GROUP).map(collect))
}

/// Passes the stage times of bios to `take`, with one row group in memory at a time; does nothing if the recording has
/// none.
///
/// # Errors
/// The file is damaged, or columns are missing.
pub fn read_stages(recording: &Path, mut take: impl FnMut(&BioStages)) -> Result<(), StoreError> {
    each_group(&path_of(recording, &TABLE), |group| {
        let columns = read_group(group, &TABLE)?;
        let c = Columns(&columns);
        for i in 0..rows_of(group) {
            take(&BioStages {
                done_ns: c.done_ns(i),
                dev: DevId(c.dev(i)),
                q2g_ns: c.q2g_ns(i),
                g2i_ns: c.g2i_ns(i),
                q2m_ns: c.q2m_ns(i),
                i2d_ns: c.i2d_ns(i),
                m2d_ns: c.m2d_ns(i),
                d2c_ns: c.d2c_ns(i),
                q2c_ns: c.q2c_ns(i),
            });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bio(i: i64) -> BioStages {
        let of = |every: i64| (i % every == 0).then_some(i);
        let q2g_ns = of(2);
        let g2i_ns = of(3);
        let q2m_ns = of(5);
        let i2d_ns = of(7);
        let m2d_ns = None;
        let q2c_ns = of(1);
        BioStages {
            done_ns: i,
            dev: DevId(7 << 20),
            q2g_ns,
            g2i_ns,
            q2m_ns,
            i2d_ns,
            m2d_ns,
            d2c_ns: i + 1,
            q2c_ns,
        }
    }

    fn read(dir: &Path) -> Result<Vec<BioStages>, StoreError> {
        let mut rows = Vec::new();
        read_stages(dir, |b| rows.push(*b)).map(|()| rows)
    }

    #[test]
    fn rows_come_back_with_their_gaps_over_several_groups() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rows: Vec<BioStages> = (0..GROUP as i64 + 3).map(bio).collect();
        write_stages(dir.path(), &rows, Access::OWNER).expect("writes");
        assert!(read(dir.path()).expect("reads") == rows);
    }

    #[test]
    fn none_and_damage() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert!(read(dir.path()).expect("nothing there").is_empty());
        write_stages(dir.path(), &[bio(1)], Access::OWNER).expect("writes");
        let path = path_of(dir.path(), &TABLE);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).expect("writes");
        assert!(matches!(read(dir.path()), Err(StoreError::Damaged { .. })));
    }
}
