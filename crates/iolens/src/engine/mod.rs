//! Recordings read for the analyses: the window, decoding beside analysing, names, layers, imported tables.
//!
//! A command opens what it was given with [`choose`], resolves a [`window`], then calls [`report::analyse`], [`rows::each_row`], [`files::analyse`] or
//! [`overview::overviews`]; [`decode`] gives every part of an analysis a thread.

pub mod choose;
pub mod decode;
pub mod files;
pub mod layers;
pub mod names;
pub mod overview;
pub mod report;
pub mod report_tables;
pub mod rollups;
pub mod rows;
pub mod source;
pub mod tables;
pub mod view;
pub mod window;
