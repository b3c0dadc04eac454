//! Manual pages and shell completions, made from the grammar of the command line, so that they say what `--help` says.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;

use super::command;

/// Manual pages and shell completions
///
/// Examples:
///   iolens generate man | man -l -                    shows the manual page
///   iolens generate man record                        that of a command
///   iolens generate man -o /usr/local/share/man/man1  all of them, as files
///   iolens generate completions bash > /etc/bash_completion.d/iolens
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct GeneratePlan {
    /// Which of them.
    #[command(subcommand)]
    pub what: Generated,
}

/// What is generated.
#[derive(Debug, Subcommand)]
#[allow(
    missing_docs,
    reason = "clap shows a variant's docstring instead of its plan's, which says more"
)]
pub enum Generated {
    Man(ManPlan),
    Completions(CompletionsPlan),
}

/// A manual page on standard output, or all of them in a directory
#[derive(Debug, Args)]
pub struct ManPlan {
    /// The page of this command [default: that of iolens]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub command: Vec<String>,
    /// Write all pages into this directory, which is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Completions of a shell on standard output
#[derive(Debug, Args)]
pub struct CompletionsPlan {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Makes what was asked for: the bytes for standard output, none if they went into files.
///
/// # Errors
/// There is no such command, or a file cannot be written.
pub fn generate(plan: &GeneratePlan) -> Result<Vec<u8>> {
    match &plan.what {
        Generated::Man(ManPlan {
            output: Some(dir), ..
        }) => write_pages(dir).map(|()| Vec::new()),
        Generated::Man(page) => page_of(&page.command),
        Generated::Completions(c) => {
            let mut text = Vec::new();
            clap_complete::generate(c.shell, &mut command(), "iolens", &mut text);
            Ok(text)
        }
    }
}

fn write_pages(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command(), dir))
        .with_context(|| dir.display().to_string())
}

/// The page of a command, whose words may be several: `lab fio`.
fn page_of(words: &[String]) -> Result<Vec<u8>> {
    let mut command = command();
    command.build();
    let mut found: &Command = &command;
    for word in words {
        let below = found.find_subcommand(word).filter(|c| !c.is_hide_set());
        let Some(below) = below else {
            bail!(
                "there is no command {:?}; iolens --help lists them",
                words.join(" ")
            );
        };
        found = below;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(words: &[&str]) -> Result<Vec<u8>> {
        let argv = ["iolens", "generate"].iter().chain(words);
        let plan = super::super::parse(argv.map(Into::into)).expect("parses");
        let super::super::Plan::Generate(plan) = plan else {
            panic!("another command")
        };
        generate(&plan)
    }

    fn text(words: &[&str]) -> String {
        String::from_utf8(generated(words).expect("is made")).expect("UTF-8")
    }

    #[test]
    fn every_command_that_help_lists_has_a_page_and_a_completion() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let pages = dir.path().join("new/man1");
        let printed = text(&["man", "-o", &pages.display().to_string()]);
        assert_eq!(printed, "", "all is in files");
        let bash = text(&["completions", "bash"]);
        for command in command().get_subcommands() {
            let name = command.get_name();
            let is_shown = !command.is_hide_set();
            let page = pages.join(format!("iolens-{name}.1"));
            assert_eq!(page.exists(), is_shown, "{name}");
            let completed = bash.contains(&format!("iolens__subcmd__{name}"));
            assert!(completed || !is_shown, "{name}");
        }
        let record = std::fs::read_to_string(pages.join("iolens-record.1")).expect("reads");
        assert!(
            record.contains("\\-\\-keep") && record.contains("flight recorder"),
            "{record}"
        );
        assert!(text(&["completions", "zsh"]).contains("#compdef iolens"));
        assert!(text(&["completions", "fish"]).contains("complete -c iolens"));
    }

    #[test]
    fn a_page_goes_to_standard_output_and_unknown_commands_are_named() {
        assert!(text(&["man"]).contains(".TH iolens 1"));
        assert!(text(&["man", "lab", "fio"]).contains("\\-\\-iodepth"));
        for hidden in ["guard", "reprot"] {
            let refused = generated(&["man", hidden]).expect_err("is none");
            assert!(refused.to_string().contains(hidden), "{refused}");
        }
    }
}
