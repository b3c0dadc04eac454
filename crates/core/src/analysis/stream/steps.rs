//! The lengths of slots that charts and tables choose from.

use crate::model::{MS_NS, SECOND_NS};

/// Steps in nanoseconds that people read easily and that divide each other well, the shortest first.
pub const READABLE_STEPS_NS: [i64; 22] = [
    MS_NS,
    2 * MS_NS,
    5 * MS_NS,
    10 * MS_NS,
    20 * MS_NS,
    50 * MS_NS,
    100 * MS_NS,
    200 * MS_NS,
    500 * MS_NS,
    SECOND_NS,
    2 * SECOND_NS,
    5 * SECOND_NS,
    10 * SECOND_NS,
    20 * SECOND_NS,
    60 * SECOND_NS,
    120 * SECOND_NS,
    300 * SECOND_NS,
    600 * SECOND_NS,
    1200 * SECOND_NS,
    3600 * SECOND_NS,
    4 * 3600 * SECOND_NS,
    24 * 3600 * SECOND_NS,
];
