//! iolens' types, recordings and analyses.
//!
//! Data flows one way: something *observes* (the `iolens-observe` crate, an importer, or a recording), an
//! [`model::Observation`] comes out, the [`store`] keeps it, the [`analysis`] evaluates it.
//! This crate needs no root, no kernel, no terminal and no threads, and reads recordings on any system.
//!
//! All crates may use it. `model` and `private` import no other module; `store`, `rollup` and `analysis` import `model` and never
//! each other. Start at [`model::Io`], then [`store::Recording`] to read a recording, [`store::RecordingWriter`] to write
//! one, [`analysis::ReportBuilder`] for all analyses at once; `docs/analyses.md` defines each.

pub mod analysis;
pub mod model;
pub mod private;
pub mod rollup;
pub mod store;
