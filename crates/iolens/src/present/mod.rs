//! Pure renderers: results in, text out.

pub mod escape;
pub mod fields;
pub mod html;
pub mod report_json;
pub mod report_text;
pub mod zoom;
