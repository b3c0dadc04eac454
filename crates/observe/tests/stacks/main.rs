//! Paths to disks through every kind of stack.
#![allow(clippy::unwrap_used, missing_docs)]

mod fixtures;
mod live;
mod tree;
