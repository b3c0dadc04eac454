//! Documents that answer the application's questions: `serve` sends each by itself, and a report file holds them.

pub mod actors;
pub mod devices;
pub mod series;
pub mod stories;
pub mod waits;
