//! Readers of `/proc` and `/sys` and the sampler, under a given root.
