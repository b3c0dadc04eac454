//! The program `iolens`: argv becomes a plan (`cli`), a command connects a source, a path through the rooms and a
//! surface (`commands`), pure functions turn results into text (`present`).

pub mod cli;
pub mod commands;
pub mod lab;
pub mod present;
