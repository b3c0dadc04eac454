//! argv -> typed plans; nothing else.
