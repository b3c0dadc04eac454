//! Pure renderers: results in, text out.

pub mod iostat;
