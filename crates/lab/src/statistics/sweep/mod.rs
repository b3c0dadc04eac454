//! A17: models of the device and of the page cache, fitted to a sweep over block sizes.

mod page_cache;
mod page_cache_fit;
mod plateau;
mod seek_transfer;
mod summary;

pub use page_cache::{PageCacheModel, Prediction, Regime, error_percent};
pub use page_cache_fit::{CachePoint, ColdRun, PageCacheFit, fit_page_cache};
pub use plateau::{Plateau, plateau};
pub use seek_transfer::{
    FitPoint, Interval, SeekTransfer, SweepPoint, Weighting, fit_seek_transfer,
};
pub use summary::{IdentityRow, RunPoint, SweepRow, SweepSeries, summarise};
