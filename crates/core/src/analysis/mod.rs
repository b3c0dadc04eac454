//! All arithmetic on more than one observation: a file per question, named by it.

pub mod rates;
