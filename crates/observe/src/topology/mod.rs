//! Names for numbers: devices, stacks, mounts.
