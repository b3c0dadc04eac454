//! Pure renderers: results in, text out.
