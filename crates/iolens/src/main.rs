//! See what your disks really did.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(iolens::run(std::env::args_os().collect()))
}
