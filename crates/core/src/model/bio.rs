//! Stages of single bios in the block layer, from traces that hold bios as well as requests.

use super::DevId;

/// Stage times of one bio that became a request or was merged into one, in nanoseconds. The letters are those of `btt`:
/// Q queued, G request allocated, M merged into a request, I inserted into the scheduler, D issued to the driver, C
/// completed. `None` means that the stage was not seen or did not occur; it never means zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BioStages {
    /// Completion of its request, since the recording's start.
    pub done_ns: i64,
    /// Device number of the bio.
    pub dev: DevId,
    /// Queued to request allocated: of the bio that became the request.
    pub q2g_ns: Option<i64>,
    /// Request allocated to inserted into the scheduler; `None` without a scheduler.
    pub g2i_ns: Option<i64>,
    /// Queued to merged into an existing request.
    pub q2m_ns: Option<i64>,
    /// Inserted to issued.
    pub i2d_ns: Option<i64>,
    /// Merged to issued.
    pub m2d_ns: Option<i64>,
    /// Issued to completed.
    pub d2c_ns: i64,
    /// Queued to completed.
    pub q2c_ns: Option<i64>,
}
