//! `rxlab top`: the receive path live, on a screen, as lines in a pipe, or as JSON.

pub(super) mod replay;
pub(super) mod sampler;
mod screen;

use std::time::{Duration, Instant};

use self::sampler::Sampler;
use super::machine::{From, Source};
use super::typed::sample_time;
use super::{Global, look, output, place, status};
use crate::error::Result;
use rxlab_advise::doctor::Alerts;
use rxlab_base::units::{NicName, parse_duration};
use rxlab_faces::report::live::{Applied, LiveFrame};
use rxlab_faces::report::text::clean;
use rxlab_record::snapshot::Snapshot;
use rxlab_sys::LiveHost;

/// Watch receive work live: CPUs over time, queues, programs that lose time to it, findings as they appear and clear
///
/// Draws a screen on a terminal; `?` lists its keys. In a pipe, prints a line for each interval and for each finding that changes.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    from: From,
    /// Only this interface at first
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// The interface, as with --nic
    #[arg(value_name = "NIC", conflicts_with = "nic")]
    interface: Option<NicName>,
    /// Length of an interval; a snapshot has its own
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = sample_time)]
    every: Duration,
    /// Show what `rxlab record` has recorded, second by second: the time before --at, by default up to the last
    /// sample
    #[arg(long, conflicts_with_all = ["snapshot", "every"])]
    replay: bool,
    /// End after this time; with --replay, how much to show, 10m by default
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "snapshot")]
    length: Option<Duration>,
    #[command(flatten)]
    cost: look::Cost,
}

impl Args {
    fn nic(&self) -> Option<&NicName> {
        self.nic.as_ref().or(self.interface.as_ref())
    }
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    if args.replay {
        return replay::run(global, args);
    }
    let source = Source::open(global, &args.from, args.every)?;
    source.check_nic(args.nic())?;
    if !global.json && output::is_interactive() {
        return screen::run(global, args, &source, None);
    }
    match &source {
        Source::Snapshot(snapshot) => print(global, &of_snapshot(global, snapshot)?).map(|_| ()),
        Source::Live(host) => stream(global, args, host),
    }
}

/// Prints intervals until interrupted, or for `--for`.
fn stream(global: &Global, args: &Args, host: &LiveHost) -> Result {
    let stop = place::stop_flag()?;
    let mut sampler = Sampler::begin(global, host, args.cost.budget);
    let start = Instant::now();
    loop {
        let frame = sampler.next(|| place::sleep(args.every, &stop));
        // An interrupted interval is shorter than the others.
        if stop.load(std::sync::atomic::Ordering::SeqCst) {
            // Without --for, Ctrl-C is the usual end.
            return args.length.map_or(Ok(()), |_| look::ended(&stop, Ok(())));
        }
        let is_closed = print(global, &frame?)?;
        if is_closed || args.length.is_some_and(|length| start.elapsed() >= length) {
            return Ok(());
        }
    }
}

/// Prints one interval. True once the pipe is closed.
fn print(global: &Global, frame: &LiveFrame) -> Result<bool> {
    output::line(global, frame, || frame.lines().iter().map(|line| clean(line) + "\n").collect())
}

/// The one interval of a snapshot.
fn of_snapshot(global: &Global, snapshot: &Snapshot) -> Result<LiveFrame> {
    let (model, rates) = look::of_snapshot(snapshot)?;
    let applied = applied(status::of_snapshot(snapshot));
    let (alerts, time) = (&mut Alerts::default(), snapshot.manifest.taken.clone());
    Ok(LiveFrame::new(&model, &rates, &global.program(), alerts, time, applied.into()))
}

/// Applied values, as far as they can be read.
pub(super) fn applied(standing: Result<status::Standing>) -> Applied {
    match standing {
        Ok((transactions, unreadable)) => {
            let unknown = unreadable.iter().map(|one| format!("transaction {}: {}", one.id, one.why));
            Applied { transactions, unknown: unknown.collect() }
        }
        Err(error) => Applied { unknown: vec![format!("unknown: {}", error.message)], ..Applied::default() },
    }
}
