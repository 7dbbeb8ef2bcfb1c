//! `rxlab export`: writes a plan for the program that manages the machine's configuration.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Global, apply, files, machine, output, persist};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::atomic;
use rxlab_change::journal::make_directory;
use rxlab_setting::export::{ExportFile, Format, export};

/// Write a plan for another program: a script, sysctl, systemd, TuneD, Ansible or irqbalance
///
/// Settings that the format cannot express are listed in its first lines and on standard error. Names of interrupts
/// and addresses of devices are those of this machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A plan file (TOML) [default: what is applied and confirmed]
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// sh, sysctl, systemd-link, tuned, ansible or irqbalance-policy
    #[arg(long, value_name = "FORM")]
    to: Format,
    /// Write to this file, or to this directory if there are several files
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    let machine = machine::open(global)?;
    let plan = match &args.plan {
        Some(path) => apply::read_plan(global, path)?,
        None => persist::kept(global, &machine)?,
    };
    let export = export(args.to, &plan, &machine.model);
    for left in &export.left_out {
        // The files list it too.
        let _ = writeln!(output::stderr(), "rxlab: left out of {}: {left}", args.to);
    }
    if export.files.is_empty() {
        let message = format!("{} cannot express any setting of the plan", args.to);
        return Err(CommandError::new(Kind::Findings, message));
    }
    match &args.output {
        Some(path) => put(args.to, path, &export.files),
        None => print(global, &export.files),
    }
}

fn put(format: Format, path: &Path, files: &[ExportFile]) -> Result {
    let directory = format.is_directory() || files.len() > 1 || path.is_dir();
    let mut out = output::text_stdout();
    for file in files {
        let path = if directory { path.join(&file.name) } else { path.to_owned() };
        let mode = if file.executable { 0o755 } else { 0o644 };
        make_directory(atomic::directory(&path))
            .and_then(|()| atomic::replace(&path, file.text.as_bytes(), Some(mode)))
            .map_err(|error| files::cannot_write(&path, &error))?;
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

fn print(global: &Global, files: &[ExportFile]) -> Result {
    if global.json {
        let file = |file: &ExportFile| serde_json::json!({ "name": file.name, "text": file.text, "executable": file.executable });
        let files: Vec<_> = files.iter().map(file).collect();
        return output::json(&serde_json::json!({ "schema": "rxlab.export/1", "files": files }));
    }
    let mut out = output::text_stdout();
    files.iter().try_for_each(|file| output::check_passes(&file.name, &file.text))?;
    for file in files {
        if files.len() > 1 {
            writeln!(out, "# ==> {} <==", file.name)?;
        }
        write!(out, "{}", file.text)?;
    }
    Ok(())
}
