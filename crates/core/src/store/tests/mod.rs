//! The room as a whole: what goes in comes out, whatever happens to the bytes in between.

mod crash;
mod damage;
mod documentation;
mod requests;
mod retention;
mod round_trip;
mod support;
mod verify;
