//! argv -> typed plans; nothing else.

pub mod iostat;
