//! `rxlab record`: records what other commands read, so that they answer for a time that is gone.

mod export;
mod install;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::event::{Timespec, poll};
use serde_json::json;

use super::persist::Etc;
use super::{Global, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{format_duration, parse_duration, parse_size};
use rxlab_faces::report::recording::{self, RecordingReport};
use rxlab_record::recorder::{Disk, Limits, Locked, Recorder, Ring, Span, WindowError};
use rxlab_record::snapshot::Snapshot;

/// Record the receive path continuously, for `--at` and `top --replay` after an incident
///
/// Samples every second into a ring of files below the state directory, until interrupted. The oldest are removed when
/// the ring is full; 64M holds some days of a machine with 8 CPUs. Recording changes nothing on the machine.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    ring: RingArgs,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
}

/// Rate and size of a recording.
#[derive(Debug, clap::Args)]
struct RingArgs {
    /// Time between two samples of the counters; settings and programs are read every 10 s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// Maximum disk space
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    size: u64,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Install(install::Args),
    /// Stop recording at boot: remove the unit; what was recorded stays
    Remove {
        #[command(flatten)]
        etc: Etc,
    },
    /// Show what time span is recorded, its size and its gaps
    #[command(alias = "list")]
    Status,
    Export(export::Args),
}

impl RingArgs {
    fn limits(&self) -> Result<Limits> {
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(10));
        if !(shortest..=longest).contains(&self.every) {
            return Err(CommandError::usage("--every must be between 100ms and 10s"));
        }
        if self.size < Limits::SMALLEST {
            return Err(CommandError::usage("--size is too small for a recording: give at least 2M"));
        }
        Ok(Limits { every: self.every, size: self.size })
    }
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    match &args.command {
        None => record(global, args),
        Some(Command::Install(args)) => install::run(global, args),
        Some(Command::Remove { etc }) => install::remove(global, etc),
        Some(Command::Status) => status(global),
        Some(Command::Export(args)) => export::run(global, args),
    }
}

/// Records until a signal, or for `--for`.
fn record(global: &Global, args: &Args) -> Result {
    let limits = args.ring.limits()?;
    let host = machine::readable(global)?;
    let stop = place::stop_flag()?;
    let disk = Disk::for_writing(&global.state_dir).map_err(locked)?;
    let mut recorder = Recorder::begin(disk, limits).map_err(|error| cannot_record(global, &error))?;
    let (every, size) = (format_duration(limits.every), limits.size);
    let directory = directory(global);
    let value = json!({ "schema": "rxlab.record/1", "directory": directory, "every_seconds": limits.every.as_secs_f64(),
        "size": size });
    output::print(global, &value, || {
        format!("recording to {directory} every {every}, at most {}; Ctrl-C ends it\n", recording::size(size))
    })?;
    let start = Instant::now();
    let mut failing: Option<String> = None;
    let mut due = Duration::ZERO;
    while !stop.load(Ordering::SeqCst) && args.length.is_none_or(|length| start.elapsed() < length) {
        let message =
            recorder.tick(&host, Timestamp::now().as_millisecond()).err().map(|error| error.to_string());
        // Once for each reason: the next sample may fit again.
        if let Some(message) = message.as_ref().filter(|message| failing.as_ref() != Some(message)) {
            let _ = writeln!(output::stderr(), "rxlab: a sample was not recorded: {message}");
        }
        failing = message;
        for (name, error) in recorder.take_unreadable() {
            // The recording is the same whether or not standard error accepts this.
            let _ = writeln!(output::stderr(), "rxlab: left {name} as it is: {error}");
        }
        // Late samples are skipped, not made up for.
        due = (due + limits.every).max(start.elapsed());
        sleep_until(start + due, &stop);
    }
    // At a signal the machine may be shutting down: the next recorder packs what is left.
    if stop.load(Ordering::SeqCst) {
        return Ok(());
    }
    recorder.finish().map_err(|error| cannot_record(global, &error))
}

/// Prints which time is recorded.
fn status(global: &Global) -> Result {
    let report = RecordingReport::new(span(global)?.as_ref());
    output::print(global, &report, || report.text(&global.program()))
}

/// Sleeps without waking up in between. A signal ends it; one that arrives just before is noticed a second later.
fn sleep_until(end: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        if left.is_zero() {
            return;
        }
        let time = Timespec::try_from(left).ok();
        // Interrupted by a signal, or over.
        let _ = poll(&mut [], time.as_ref());
    }
}

/// Directory of the recording, for messages.
fn directory(global: &Global) -> String {
    global.state_dir.join("record").display().to_string()
}

fn cannot_record(global: &Global, error: &std::io::Error) -> CommandError {
    let message = format!("cannot write the recording in {}: {error}", directory(global));
    CommandError::new(Kind::of_own_file(error), message)
        .hint("--state-dir DIR or RXLAB_STATE_DIR puts it elsewhere")
}

fn locked(error: Locked) -> CommandError {
    match &error {
        Locked::Held { .. } => CommandError::failed(&error)
            .hint("`rxlab record status` shows what it has recorded; `rxlab record --state-dir DIR` records elsewhere"),
        Locked::Io { error: why, .. } => CommandError::new(Kind::of_own_file(why), &error)
            .hint("--state-dir DIR or RXLAB_STATE_DIR puts it elsewhere"),
    }
}

/// Opens the ring for reading.
pub(super) fn ring(global: &Global) -> Result<Ring<Disk>> {
    Ring::open(Disk::for_reading(&global.state_dir)).map_err(|error| unreadable(global, error.into()))
}

/// Returns the recorded time; `None` if nothing is recorded.
pub(super) fn span(global: &Global) -> Result<Option<Span>> {
    ring(global)?.span().map_err(|error| unreadable(global, error))
}

/// Returns the recorded machine in the time of `length` that ends at `at`.
pub(super) fn recorded(global: &Global, at: Timestamp, length: Duration) -> Result<Snapshot> {
    let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    ring(global)?.window(at.as_millisecond(), length_ms).map_err(|error| unreadable(global, error))
}

pub(super) fn unreadable(global: &Global, error: WindowError) -> CommandError {
    let program = global.program();
    match &error {
        WindowError::Empty => CommandError::usage(&error).hint(format!(
            "`{program} record` records from now on, `{program} record install` from each boot"
        )),
        WindowError::Outside { .. } => {
            CommandError::usage(&error).hint(format!("`{program} record status` lists what is recorded"))
        }
        WindowError::Rebooted { .. } => {
            CommandError::usage(&error).hint("choose a time in one boot, or a shorter --for")
        }
        WindowError::Segment { .. } => CommandError::failed(&error),
        WindowError::Io(why) => {
            let denied = why.kind() == std::io::ErrorKind::PermissionDenied;
            let message = format!("cannot read the recording in {}: {why}", directory(global));
            let hint = "a recording holds what root sees: only its owner may read it";
            CommandError::new(Kind::of_own_file(why), message).hint_all(denied.then_some(hint))
        }
    }
}
