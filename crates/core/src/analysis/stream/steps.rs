//! The lengths of slots that charts and tables choose from.

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

/// Steps in nanoseconds that people read easily and that divide each other well, the shortest first.
pub const READABLE_STEPS_NS: [i64; 22] = [
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    20 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
    600 * SECOND,
    1200 * SECOND,
    3600 * SECOND,
    4 * 3600 * SECOND,
    24 * 3600 * SECOND,
];
