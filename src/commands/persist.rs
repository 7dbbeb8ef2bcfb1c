//! `rxlab persist`: keeps values over a reboot.

pub(super) mod boot;
pub(super) mod system;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use super::machine::Machine;
use super::{Global, apply as apply_command, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply;
use rxlab_change::persist::{Folder, OFF, PersistError, Restore, Written, files, lasting, permanent_mac};
use rxlab_setting::{Plan, Setting, Target};
use rxlab_sys::Namespace;

/// Set values again at each boot and when a NIC appears: a systemd unit, a udev rule, and the plan
///
/// `rxlab unpersist` removes what this installs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Persist this plan (TOML) instead of what is applied and confirmed
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// How to find a NIC again: by its bus address, or by its hardware address
    #[arg(long = "match", value_name = "HOW", value_enum, default_value = "path")]
    by: By,
    /// Print what would be installed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    etc: Etc,
}

/// Lasting property of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Its bus address.
    Path,
    /// Its hardware address.
    Mac,
}

/// Directory of configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Etc {
    /// Configuration directory [default: `etc` below the root]
    #[arg(long, value_name = "DIR")]
    etc: Option<PathBuf>,
}

impl Etc {
    /// Absolute path of the directory: units run in `/`.
    pub(crate) fn path(&self, global: &Global) -> Result<PathBuf> {
        let etc = self.etc.clone().unwrap_or_else(|| global.root.join("etc"));
        Ok(std::path::absolute(etc)?)
    }
}

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    if global.netns.is_some() {
        return Err(CommandError::usage("a network namespace does not survive a reboot"));
    }
    if args.plan.is_none() && global.root == Path::new("/") && is_apart() {
        let message = "what is applied here is of this network namespace, and units would set it in that of the first process";
        return Err(CommandError::usage(message).hint("a network namespace does not survive a reboot"));
    }
    let machine = machine::open(global)?;
    let plan = match &args.plan {
        Some(path) => apply_command::read_plan(global, path)?,
        None => kept(global, &machine)?,
    };
    let checked = apply::check(&machine.host, &machine.model, &plan)?;
    if let Some(setting) = checked.iter().find(|setting| !survives_a_reboot(setting)) {
        return Err(CommandError::usage(format!("{setting}: a process does not survive a reboot")));
    }
    let plan = lasting(&Plan { name: plan.name, ..Plan::new("", &checked) }, &machine.model, |nic| {
        permanent_mac(&machine.host, nic).filter(|_| args.by == By::Mac)
    });
    let etc = args.etc.path(global)?;
    let restore = boot::restore(global, &etc)?;
    boot::ready(global, &etc, &restore, "at each boot")?;
    let (folder, files) = (Folder::new(&etc), files(&plan, &restore));
    if args.dry_run {
        return rehearsed(global, &plan, &folder.preview(&files)?);
    }
    report(global, &plan, &restore, &folder.install(&files)?)
}

/// The size of RFS's table, a file of the initial network namespace only.
const INITIAL_ONLY: &str = "/proc/sys/net/core/rps_sock_flow_entries";

/// True if this process is in another network namespace than the first process of the machine, or of its container; where that one's
/// is hidden, if it is not in the initial one.
fn is_apart() -> bool {
    let [own, first] = ["self", "1"].map(|pid| Namespace::open(Path::new(&format!("/proc/{pid}/ns/net"))));
    match (own, first) {
        (Ok(own), Ok(first)) => !own.is_same(&first),
        // Security modules may hide it.
        _ => !Path::new(INITIAL_ONLY).exists(),
    }
}

fn survives_a_reboot(setting: &Setting) -> bool {
    !matches!(setting.target, Target::Process(_))
}

/// Returns the plan that the open transactions of this machine hold, or an error if it is empty.
pub(super) fn kept(global: &Global, machine: &Machine) -> Result<Plan> {
    let root = place::root(global)?;
    let open = place::store(global).open(&root.to_string_lossy(), &machine.model.identity.boot_id)?;
    // It may have set the same values since.
    if let Some(file) = open.unreadable.first() {
        return Err(file.into());
    }
    let (plan, left_out) = apply::kept(&open.transactions, &machine.host, &machine.model);
    for (what, why) in left_out {
        // The plan is the same whether or not standard error accepts this.
        let _ = writeln!(output::stderr(), "rxlab: {what} is left out: {why}");
    }
    if plan.settings.is_empty() {
        return Err(CommandError::new(Kind::Changed, "nothing is applied and confirmed")
            .hint("apply a plan first, or name one"));
    }
    Ok(plan)
}

impl From<PersistError> for CommandError {
    fn from(error: PersistError) -> Self {
        let kind = error.kind();
        match error {
            PersistError::Foreign { ref path, .. } => {
                let hint = format!("move {} away, or remove it yourself, and try again", path.display());
                CommandError::new(kind, &error).hint(hint)
            }
            error => CommandError::new(kind, error),
        }
    }
}

/// Prints a line for each file.
pub(super) fn say_installed(out: &mut impl Write, written: &[Written]) -> Result {
    for one in written {
        let done = if one.changed { "wrote" } else { "unchanged:" };
        writeln!(out, "{done} {}", one.path.display())?;
    }
    Ok(())
}

fn rehearsed(global: &Global, plan: &Plan, files: &[Written]) -> Result {
    if global.json {
        return json_of(plan, files, true);
    }
    let mut out = output::plain_stdout();
    for planned in &plan.settings {
        writeln!(out, "{}", planned.set)?;
    }
    for file in files {
        let would = if file.changed { "would write" } else { "unchanged:" };
        writeln!(out, "{would} {}", file.path.display())?;
    }
    Ok(writeln!(out, "nothing was changed")?)
}

fn json_of(plan: &Plan, files: &[Written], dry_run: bool) -> Result {
    let settings: Vec<_> = plan.settings.iter().map(|planned| &planned.set).collect();
    output::json(
        &json!({ "schema": "rxlab.persist/1", "settings": settings, "files": files, "dry_run": dry_run }),
    )
}

fn report(global: &Global, plan: &Plan, restore: &Restore, written: &[Written]) -> Result {
    if global.json {
        return json_of(plan, written, false);
    }
    let mut out = output::plain_stdout();
    for planned in &plan.settings {
        writeln!(out, "{}", planned.set)?;
    }
    say_installed(&mut out, written)?;
    writeln!(out, "set again at each boot by {}; `rxlab unpersist` stops that", restore.program.display())?;
    writeln!(out, "a boot with `{OFF}` on the kernel command line skips it")?;
    if written.iter().any(|one| one.changed) {
        writeln!(out, "`systemctl daemon-reload` makes a running systemd read it")?;
    }
    Ok(())
}
