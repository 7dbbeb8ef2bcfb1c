//! `rxlab restore`: sets the values of the persisted plan. The units run this.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use super::apply::report::{self, Done};
use super::machine::Machine;
use super::persist::{Etc, boot};
use super::{Global, apply as apply_command, files, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::parse::has_kernel_argument;
use rxlab_base::units::{NicName, parse_duration};
use rxlab_change::persist::{Made, OFF, PLAN, Refusal, Restorer};
use rxlab_sys::Host;

/// Time between two checks for what is missing.
const LOOK: Duration = Duration::from_millis(250);

/// Set the persisted values again, for each NIC as soon as it exists with its queues and interrupts
///
/// The units of `rxlab persist` run this. It journals its changes like apply. After a boot with
/// `rxlab=off` on the kernel command line it sets nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the values of this interface
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// Wait this long for targets that do not exist yet
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    wait: Duration,
    #[command(flatten)]
    etc: Etc,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    if is_off(&machine::host(global)?) {
        writeln!(output::stdout(global), "nothing is restored: the kernel was booted with `{OFF}`")?;
        return Ok(());
    }
    let etc = args.etc.path(global)?;
    if geteuid().is_root() {
        boot::check_files(global, &boot::restore(global, &etc)?)?;
    }
    let path: PathBuf = etc.join(PLAN);
    if !files::is_there(&path) {
        return Err(CommandError::usage(format!("nothing is persisted: no {}", path.display()))
            .hint("`rxlab persist` keeps what is applied and confirmed"));
    }
    // A FIFO may have no writer.
    if !path.is_file() {
        return Err(CommandError::usage(format!("{} is not a regular file", path.display()))
            .hint("move it away, and write the plan with `rxlab persist`"));
    }
    let mut plan = apply_command::read_plan(global, &path)?;
    let stop = place::stop_flag()?;
    let (root, store) = (place::root(global)?, place::store(global));
    let end = Instant::now().checked_add(args.wait);
    let mut said = false;
    let mut refused = Vec::new();
    loop {
        let Machine { host, model, netns, .. } = machine::open(global)?;
        let own = machine::host(&Global { netns: None, ..global.clone() })?;
        let restorer = Restorer {
            host: &host,
            own: &own,
            model: &model,
            root: &root,
            netns,
            store: &store,
            again: &|transaction, part| {
                let (transaction, machine, settings) = apply_command::look_again(global, transaction, part)?;
                Ok((transaction, Box::new(machine.host), machine.model, settings))
            },
            stop: &stop,
        };
        let round = restorer.round(&plan, args.nic.as_ref());
        for made in &round.made {
            said = true;
            refused.extend(print_made(global, made).err());
        }
        refused.extend(round.refused.into_iter().map(refusal));
        plan.settings.retain(|planned| !round.done.contains(planned));
        if round.waiting.is_empty() {
            return ended(said, refused);
        }
        if stop.load(Ordering::Relaxed) || end.is_none_or(|end| Instant::now() >= end) {
            let error = CommandError::new(Kind::Changed, "not all persisted values could be set");
            refused.push(error.hint_all(round.waiting));
            return ended(said, refused);
        }
        std::thread::sleep(LOOK);
    }
}

/// True after a boot with the argument that disables persisted values. The units have the same condition; this check
/// covers other init systems. False if the kernel arguments are unreadable.
fn is_off(host: &dyn Host) -> bool {
    host.read_text("proc/cmdline").is_ok_and(|text| has_kernel_argument(&text, OFF))
}

fn print_made(global: &Global, made: &Made) -> Result {
    let archived = place::archived_lines(&made.archived);
    report::kept(
        global,
        &Done { id: &made.id, kept: &made.kept, archived: &archived, owners: &[], confirm: None },
        false,
    )
}

fn refusal(refusal: Refusal<CommandError>) -> CommandError {
    match refusal {
        Refusal::Again(error) => error,
        Refusal::Apply(error) => error.into(),
        Refusal::RolledBack(failure) => report::rolled_back(*failure),
    }
}

/// Returns the first reason why a value is not set, with the others as its hints.
fn ended(said: bool, refused: Vec<CommandError>) -> Result {
    let mut refused = refused.into_iter();
    let Some(mut first) = refused.next() else {
        if !said {
            writeln!(output::text_stdout(), "all values are already set")?;
        }
        return Ok(());
    };
    for other in refused {
        first = first.hint(other.message).hint_all(other.hints);
    }
    Err(first)
}
