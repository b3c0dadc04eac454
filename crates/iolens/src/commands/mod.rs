//! A file per subcommand: connects a source, a path through the rooms, a surface; wiring only.

pub mod iostat;
