//! Recordings read for the analyses: the window, decoding beside analysing, names, layers, imported tables.
//!
//! A command opens what it was given with [`choose`], resolves a [`window`], then calls [`report::analyse`], [`rows::each_row`], [`files::analyse`] or
//! [`overview::overviews`]; [`decode`] gives every part of an analysis a thread.

pub mod actors;
pub mod choose;
mod civil;
pub mod decode;
pub mod files;
pub mod filter;
pub mod findings;
pub mod fleet;
pub mod heat;
pub mod layers;
pub mod names;
pub mod overview;
pub mod page;
mod parallel;
pub mod patience;
pub mod privacy;
pub mod report;
pub mod report_tables;
pub mod rollups;
pub mod rows;
pub mod series;
pub mod single;
pub mod source;
pub mod subjects;
pub mod tables;
pub mod view;
pub mod window;

// What a question is made of is defined where it is parsed; who asks in another way takes it from here.
pub use crate::cli::{
    By, CivilInstant, Day, Format, Instant, RowArgs, WindowArgs, parse_duration_ns, parse_instant,
};
