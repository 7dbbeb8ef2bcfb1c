//! `rxlab man`: manual pages, made from the command tree.

use std::path::PathBuf;

use clap::Command;

use super::{Global, files, output, tree};
use crate::error::Result;

/// Write manual pages into a directory: rxlab.1, and a page for each command
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An existing directory, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let pages = pages()?;
    for (name, text) in &pages {
        files::write(&args.dir.join(name), text)?;
    }
    let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
    output::print(global, &serde_json::json!({ "schema": "rxlab.man/1", "pages": names }), || {
        format!("wrote {} pages into {}\n", pages.len(), args.dir.display())
    })
}

/// Manual pages by file name.
type Pages = Vec<(String, Vec<u8>)>;

fn pages() -> Result<Pages> {
    let mut command = tree::command();
    command.build();
    let mut pages = Vec::new();
    collect(&command, "rxlab", &mut pages)?;
    Ok(pages)
}

/// Adds the page of `command` and of the commands below it; `name` is its path, joined by hyphens.
fn collect(command: &Command, name: &str, pages: &mut Pages) -> Result {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned())).render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.into_iter().try_for_each(|below| collect(below, &format!("{name}-{}", below.get_name()), pages))
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn each_command_has_a_page_with_its_options_and_examples() {
        let pages = pages().expect("pages");
        let page = |name: &str| {
            let page = pages.iter().find(|(page, _)| page == name).expect("a page");
            String::from_utf8(page.1.clone()).expect("text")
        };
        assert!(page("rxlab.1").contains("rxlab\\-doctor"));
        let doctor = page("rxlab-doctor.1");
        assert!(doctor.contains("\\-\\-watch") && doctor.contains("rxlab doctor"), "{doctor}");
        assert!(page("rxlab-trial-run.1").contains("\\-\\-plan\\-only"));
        assert!(!pages.iter().any(|(name, _)| name == "rxlab-guard.1"), "hidden");
    }
}
