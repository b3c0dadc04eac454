//! Manual pages and shell completions, made from the grammar of the command line, so that they say what `--help` says.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;

/// Write manual pages and shell completions into a directory
#[derive(Debug, Args)]
pub struct ManualPlan {
    /// Directory, made if it is not there
    pub dir: PathBuf,
}

/// Where each shell looks for completions, below a prefix such as `/usr`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/vendor-completions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

/// Writes the pages of all commands (`share/man/man1`) and the completions of bash, zsh and fish.
///
/// # Errors
/// A file cannot be written.
pub fn write_manual(plan: &ManualPlan) -> Result<()> {
    let pages = made(&plan.dir, "share/man/man1")?;
    clap_mangen::generate_to(Cli::command(), &pages)
        .with_context(|| pages.display().to_string())?;
    for (shell, under) in COMPLETIONS {
        let dir = made(&plan.dir, under)?;
        let file = clap_complete::generate_to(shell, &mut Cli::command(), "iolens", &dir);
        let file = file.with_context(|| dir.display().to_string())?;
        // bash-completion loads the file that is called as the command.
        if shell == Shell::Bash {
            std::fs::rename(&file, dir.join("iolens"))
                .with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

fn made(prefix: &Path, under: &str) -> Result<PathBuf> {
    let dir = prefix.join(under);
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_help_lists_has_a_page_and_a_completion() {
        let dir = tempfile::tempdir().expect("temporary directory");
        write_manual(&ManualPlan {
            dir: dir.path().join("new"),
        })
        .expect("written");
        let read = |path: &str| {
            std::fs::read_to_string(dir.path().join("new/share").join(path)).expect(path)
        };
        let bash = read("bash-completion/completions/iolens");
        for command in Cli::command().get_subcommands() {
            let (name, hidden) = (command.get_name(), command.is_hide_set());
            let page = dir
                .path()
                .join(format!("new/share/man/man1/iolens-{name}.1"));
            assert_eq!(page.exists(), !hidden, "{name}");
            assert!(
                hidden || bash.contains(&format!("iolens__subcmd__{name}")),
                "{name}"
            );
        }
        let record = read("man/man1/iolens-record.1");
        assert!(
            record.contains("\\-\\-keep") && record.contains("flight recorder"),
            "{record}"
        );
        assert!(read("zsh/vendor-completions/_iolens").contains("#compdef iolens"));
        assert!(read("fish/vendor_completions.d/iolens.fish").contains("complete -c iolens"));
    }
}
