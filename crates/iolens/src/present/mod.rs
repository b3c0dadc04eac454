//! Pure renderers: results in, text out.

pub mod demo_text;
pub mod record_text;
