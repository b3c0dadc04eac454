//! See what your disks really did.

fn main() {}
