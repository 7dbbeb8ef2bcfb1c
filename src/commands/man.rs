//! `rxlab man`: manual pages, made from the command tree.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::tree::EXIT_CODES;
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
    pages.push((format!("{name}.1"), page(command, name)?));
    // The help of help, and clap's own below `trial`, are no pages.
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.into_iter().try_for_each(|below| collect(below, &format!("{name}-{}", below.get_name()), pages))
}

/// The page of one command. clap_mangen puts what follows the help below `EXTRA`, and leaves values out of the synopsis.
fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim_start_matches(&name.replace('-', " ")).trim_start();
    let man = Man::new(command.clone().name(name.to_owned()).override_usage(usage.to_owned()));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let examples = command.get_after_help().map(ToString::to_string);
    let examples = examples.iter().flat_map(|help| help.lines().skip(1)).map(str::trim_start);
    let codes = EXIT_CODES.map(|(code, meaning)| format!("{code:<4} {meaning}"));
    verbatim("EXAMPLES", examples).to_writer(&mut page)?;
    verbatim("EXIT STATUS", codes.iter().map(String::as_str)).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// A section of lines that are not filled; empty without lines.
fn verbatim<'a>(heading: &str, lines: impl Iterator<Item = &'a str>) -> Roff {
    let mut roff = Roff::new();
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        roff.control("SH", [heading]);
        roff.control("nf", []);
        lines.for_each(|line| {
            roff.text([roman(line)]);
        });
        roff.control("fi", []);
    }
    roff
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
        assert!(doctor.contains(".SH EXAMPLES") && !doctor.contains("EXTRA"), "{doctor}");
        assert!(
            doctor.contains(".SH \"EXIT STATUS\"") && doctor.contains("interrupted, after restoring"),
            "{doctor}"
        );
        assert!(doctor.contains("[OPTIONS] [NIC]"), "{doctor}");
        assert!(page("rxlab-trial-run.1").contains("\\-\\-plan\\-only"));
        assert!(!pages.iter().any(|(name, _)| name == "rxlab-guard.1"), "hidden");
    }
}
