//! iolens' words, recordings and analyses.
//!
//! Data flows one way: something *observes* (the `iolens-observe` crate, or a recording), an
//! [`model::Observation`] comes out, the [`store`] keeps it, the [`analysis`] answers questions about it.
//! This crate needs no root, no kernel, no terminal and no threads, and reads recordings on any system.
//!
//! Who may know whom: `model` knows nobody; `store` and `analysis` know `model` and never each other.

pub mod analysis;
pub mod model;
pub mod store;
