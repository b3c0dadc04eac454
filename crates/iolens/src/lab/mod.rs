//! Acts on the machine so that the recorder has something to see: loads and experiments.

pub mod load;
