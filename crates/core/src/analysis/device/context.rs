//! The inputs of a device's detailed analysis besides its own I/Os.

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::cells::Cells;
use crate::analysis::counters::io_ticks::Regime;
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::window::Window;
use crate::model::DevId;

/// Finest slot for the burst search: 10 ms.
pub(in crate::analysis) const BURST_SLOT_NS: i64 = 10_000_000;

/// Inputs of a device's detail besides its own I/Os.
pub(in crate::analysis) struct DeviceContext<'a> {
    pub dev: DevId,
    pub window: Window,
    /// How much of the window was not recorded.
    pub unrecorded_ns: i64,
    pub cells: &'a Cells,
    pub losses: &'a Losses,
    pub limit: Option<Limit>,
    /// (busy time by `io_ticks`, time covered by counter samples), in nanoseconds.
    pub counted: Option<(i64, i64)>,
    pub busy_percent: Option<f64>,
    pub complete: bool,
    pub kernel: Option<(Regime, u32)>,
    pub max_request_bytes: Option<u64>,
    /// Number of streams tested in this report, over all devices: a finding must be unlikely by chance among all of them.
    pub family: usize,
}
