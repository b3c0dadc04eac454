//! The tracer: loading, probe choice, ring reading, ordering across CPUs, loss.
