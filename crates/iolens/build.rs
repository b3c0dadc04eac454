//! Embeds the pages of reports, report files, of experiments, of fleets and the application, if they have been built (`make web`). Building the program needs
//! nothing but Rust: without the page, `iolens report -o` says what is missing. Passes the section
//! layout to the linker (`layout.ld`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let here =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let code: String = [
        ("REPORT_PAGE", "report.html"),
        ("FILE_PAGE", "file.html"),
        ("LAB_PAGE", "lab.html"),
        ("FLEET_PAGE", "fleet.html"),
        ("APP_PAGE", "app.html"),
    ]
    .map(|(name, file)| {
        embedded(
            name,
            &here.join("../../web/dist").join(file),
            &out.join(file),
        )
    })
    .concat();
    fs::write(out.join("pages.rs"), code).expect("OUT_DIR can be written");
    lay_out(&here);
}

/// A constant with the built page, of which `copy` is embedded.
fn embedded(name: &str, page: &Path, copy: &Path) -> String {
    watch(page);
    let value = match fs::read(page) {
        Ok(html) => {
            fs::write(copy, html).expect("OUT_DIR can be written");
            format!("Some(include_str!({copy:?}))")
        }
        Err(_) => "None".to_owned(),
    };
    format!("/// The built page, or nothing.\npub(super) const {name}: Option<&str> = {value};\n")
}

/// Only for the program as it is shipped, on the one system where it runs.
fn lay_out(here: &Path) {
    let script = here.join("layout.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|v| v == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
        let is_static = env::var("CARGO_CFG_TARGET_FEATURE")
            .is_ok_and(|f| f.split(',').any(|f| f == "crt-static"));
        // A static program is linked with start files for any address, and crashes at one that is fixed.
        if is("CARGO_CFG_TARGET_ENV", "gnu")
            && !is_static
            && env::var("HOST") == env::var("TARGET")
            && compiler_has("libgcc_eh.a")
        {
            // The unwinder within the program: its shared library asks the processor for its features when it is loaded,
            // which on a virtual machine takes a tenth of the time that a whole `iostat` takes.
            println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
            // At a fixed address the 40 pages of tables of addresses need not be written, and made the process's own, at
            // every start.
            println!("cargo::rustc-link-arg-bins=-no-pie");
        }
    }
}

/// Whether the C compiler that links the program has a library of its own.
fn compiler_has(library: &str) -> bool {
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={library}"))
        .output();
    asked.is_ok_and(|out| Path::new(String::from_utf8_lossy(&out.stdout).trim()).is_absolute())
}

/// Runs this script again when the page appears or changes. Cargo takes a path that is missing for one that has changed
/// and would build the crate anew each time; so it watches the nearest directory that is there.
fn watch(page: &Path) {
    let nearest = page.ancestors().find(|p| p.exists()).unwrap_or(page);
    println!("cargo::rerun-if-changed={}", nearest.display());
    println!("cargo::rerun-if-changed=build.rs");
}
