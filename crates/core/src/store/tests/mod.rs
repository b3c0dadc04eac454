//! Tests of the store as a whole: what was written is read back, whatever happens to the bytes in between.

mod crash;
mod damage;
mod documentation;
mod requests;
mod retention;
mod round_trip;
mod support;
mod verify;
