//! `rxlab report`: writes records as one HTML page or as Markdown.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::trial::list::Record;
use super::{Global, files, output, trial};
use crate::error::{CommandError, Kind, Result};
use rxlab_faces::report::document::{Document, Part, Trial};
use rxlab_faces::report::fleet::Fleet;
use rxlab_faces::report::text::command_lines;
use rxlab_faces::report::{html, markdown};
use rxlab_trial::store::TrialDir;

/// Write trials, findings and measurements as one HTML page, or as Markdown for a ticket
///
/// The page is one file that needs no network. It holds its records: `rxlab report PAGE.html` reads them back, and with
/// --json prints them. Several trials are also shown side by side. With --fleet, exit code 1 says that a change is proven to do
/// harm, that a guard tripped, or that an applied value does not hold.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ids or directories of trials; files written by --json of trial, doctor, status, interference or trace; pages of
    /// rxlab; or a directory of such files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Pool the trials of one change on several hosts, and list findings and what is applied by host
    #[arg(long)]
    fleet: bool,
    /// File to write [default: rxlab-report.html; with --markdown, --json or --fleet standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write Markdown instead: the verdicts with their figures and commands
    #[arg(long)]
    markdown: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// File of a page without a name.
const PAGE: &str = "rxlab-report.html";
/// Ends of the names of files that a directory is searched for.
const ENDS: [&str; 2] = ["json", "html"];

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let mut document = Document::default();
    for path in &args.paths {
        add(global, path, &mut document)?;
    }
    if let Some(trial) = document.missing_trial() {
        return Err(CommandError::usage(format!(
            "a checkpoint belongs to trial {trial}, which was not given"
        ))
        .hint("give the trial too: its id, its directory or its record.json"));
    }
    if args.fleet {
        return fleet(global, args, &document);
    }
    let program = global.program();
    let text = || {
        if args.markdown {
            markdown::render(&document, &program)
        } else {
            html::render(&document, Some(&program))
        }
    };
    // Standard output has room for one of them.
    let file = match (&args.output, global.json || args.markdown) {
        (Some(file), _) => Some(file.as_path()),
        (None, true) => None,
        (None, false) => Some(Path::new(PAGE)),
    };
    if let Some(file) = file {
        save(args, file, &text())?;
    }
    if global.json {
        return output::print(global, &document, String::new);
    }
    match file {
        Some(file) => say_saved(global, args, file),
        None => print_all(&text()),
    }
}

/// One answer from the records of several hosts.
fn fleet(global: &Global, args: &Args, document: &Document) -> Result {
    let fleet = Fleet::new(document);
    if fleet.is_empty() {
        return Err(CommandError::usage("none of the records is a trial in pairs, or from doctor or status")
            .hint("`rxlab trial show ID --json > FILE.json` writes one on a host"));
    }
    let ended = if fleet.has_trouble() { Err(CommandError::silent(Kind::Findings)) } else { Ok(()) };
    let markdown = || markdown::fleet(&fleet);
    if let Some(file) = &args.output {
        let text = if args.markdown { markdown() } else { html::fleet_page(&fleet, document) };
        save(args, file, &text)?;
    }
    let printed = match &args.output {
        _ if global.json => output::print(global, &fleet, String::new),
        Some(file) => say_saved(global, args, file),
        None if args.markdown => print_all(&markdown()),
        None => print_all(&fleet.text()),
    };
    CommandError::after_output(ended, printed)
}

fn save(args: &Args, file: &Path, text: &str) -> Result {
    if !args.force {
        files::check_new(file)?;
    }
    files::write(file, text.as_bytes())
}

fn print_all(text: &str) -> Result {
    let mut out = output::text_stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Names the file, and on a terminal what to do with a page.
fn say_saved(global: &Global, args: &Args, file: &Path) -> Result {
    let mut out = output::text_stdout();
    trial::say_written(&mut out, file)?;
    if output::is_interactive() && !args.markdown {
        let name = rxlab_base::grammar::sh::word(&file.to_string_lossy());
        let fleet = if args.fleet { " --fleet" } else { "" };
        let next = format!("{} report {name}{fleet} --markdown", global.program());
        write!(out, "{}", command_lines("next: ", &next))?;
    }
    Ok(out.flush()?)
}

/// Adds what an argument names: the trial with that id, or what a file or a directory holds.
fn add(global: &Global, name: &str, document: &mut Document) -> Result {
    if !name.contains('/') && TrialDir::open(&global.state_dir, name).is_ok() {
        return add_trial(&global.state_dir, name, document);
    }
    let path = Path::new(name);
    if !path.is_dir() {
        if !files::is_there(path) && !name.contains(['/', '.']) {
            let trials = global.state_dir.join("trials");
            return Err(CommandError::usage(format!(
                "no trial {name} in {}, and no file of that name",
                trials.display()
            ))
            .hint("`rxlab trial list` lists the trials"));
        }
        return add_file(path, document);
    }
    if is_trial(path) {
        return add_trial(&global.state_dir, &with_slash(path), document);
    }
    let before = document.parts.len();
    let entries = files::list(path)?;
    for entry in &entries {
        if entry.is_dir() {
            if is_trial(entry) {
                add_trial(&global.state_dir, &with_slash(entry), document)?;
            }
        } else if ENDS.iter().any(|end| entry.extension().is_some_and(|found| found == *end)) {
            add_file(entry, document)?;
        }
    }
    if document.parts.len() == before && document.missing_trial().is_none() {
        return Err(CommandError::usage(format!(
            "{} holds no trial, and no .json or .html file",
            path.display()
        ))
        .hint("`rxlab doctor --json > FILE.json` writes one"));
    }
    Ok(())
}

/// True for the directory of a trial.
fn is_trial(path: &Path) -> bool {
    TrialDir::open(path, &with_slash(path)).is_ok()
}

/// The path as [`TrialDir::open`] knows paths from ids.
fn with_slash(path: &Path) -> String {
    format!("{}/", path.display())
}

fn add_trial(state: &Path, id: &str, document: &mut Document) -> Result {
    let dir = TrialDir::open(state, id)?;
    document.join(Document::new(vec![stored(&dir)?]));
    Ok(())
}

/// The record of a trial with its checkpoints.
pub(super) fn stored(dir: &TrialDir) -> Result<Part> {
    Ok(match Record::load(dir)? {
        Record::Blocks(record) => Part::Blocks(record),
        Record::Pairs(record) => {
            let checkpoints = dir.checkpoints()?;
            Part::Trial(Box::new(Trial { record: *record, checkpoints }))
        }
    })
}

fn add_file(path: &Path, document: &mut Document) -> Result {
    let text = files::read("record", path)?;
    let read = Document::read(&text).map_err(|error| {
        CommandError::usage(format!("cannot read the record {}: {error}", path.display()))
    })?;
    document.join(read);
    Ok(())
}
