//! The room as a whole: what goes in comes out, whatever happens to the bytes in between.

mod round_trip;
mod support;
