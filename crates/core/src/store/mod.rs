//! Recordings on disk.
