//! See what your disks really did.

fn main() -> std::process::ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if iolens::commands::iostat::is_meant(&args) {
        return std::process::ExitCode::from(iolens::commands::iostat::run(&args));
    }
    std::process::ExitCode::SUCCESS
}
