//! The timeline of receive work: each CPU's work over time, from events that programs in the kernel send.
//!
//! [`record`] attaches the programs and reads their events; [`Order`] sorts these by time, [`Pairing`] makes
//! pieces of work of them, [`Tally`] adds those up. Only the first touches the kernel.

mod event;
mod item;
mod lane;
mod pairing;
#[cfg(test)]
mod pairing_tests;
mod recorder;
mod summary;
mod tally;
#[cfg(test)]
mod tally_tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::counted::squeezed;
use super::loaded::Missing;
use super::names::Names;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::sample::{Counters, Inventory};
use rxlab_sys::Host;

pub use event::{Event, Kind};
pub use item::{Cause, Item, Poll, Run, Slice, Work, softirq_name};
pub use pairing::Pairing;
pub use recorder::Order;
pub use summary::{Burst, CpuTrace, IrqTrace, LongRun, Spread, ThreadTrace, Trace};
pub use tally::Tally;

use recorder::Recorder;

/// Interval between readings of the ring buffer.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone)]
pub struct TraceOptions {
    pub length: Duration,
    /// CPUs to trace; `None` = all.
    pub cpus: Option<CpuMask>,
    /// Size of the ring buffer in bytes: a power of two, and whole pages.
    pub buffer: u32,
}

/// The trace failed or is incomplete.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The programs cannot run here.
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("cannot read events of the eBPF programs: {0}")]
    Read(#[from] libbpf_rs::Error),
    #[error("the eBPF programs sent an event of {0} bytes of unknown form")]
    Record(usize),
    /// The sink returned an error.
    #[error("{0}")]
    Output(io::Error),
}

/// Receiver of a timeline.
pub trait Sink {
    /// Starts the timeline at this time.
    fn begin(&mut self, at: u64) -> io::Result<()>;
    /// Takes the next item; an error ends the timeline.
    fn take(&mut self, item: &Item) -> io::Result<()>;
    /// Time that has passed.
    fn elapsed(&mut self, elapsed: Duration);
}

/// Traces until the time is over or `stop` is set. Each item goes to `sink` soon after it happened.
pub fn record(
    host: &dyn Host,
    inventory: &Inventory,
    options: &TraceOptions,
    sink: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Trace, TraceError> {
    let before = Counters::take(host, inventory);
    let mut recorder = Recorder::start(host, options)?;
    let mut timeline = Timeline::new(recorder.began);
    sink.begin(recorder.began).map_err(TraceError::Output)?;
    let begun = Instant::now();
    while begun.elapsed() < options.length && !stop.load(Ordering::SeqCst) {
        let more = recorder.read(|event| timeline.push(event, sink))?;
        sink.elapsed(begun.elapsed());
        if !more {
            std::thread::sleep(PAUSE.min(options.length.saturating_sub(begun.elapsed())));
        }
    }
    let (ended, lost) = recorder.stop()?;
    while recorder.read(|event| if event.at <= ended { timeline.push(event, sink) } else { Ok(()) })? {}
    let after = Counters::take(host, inventory);
    let names = Names::new(inventory);
    let mut trace = timeline.finish(ended, &lost, &names, sink).map_err(TraceError::Output)?;
    for cpu in &mut trace.cpus {
        cpu.squeezed = squeezed(cpu.cpu, &before, &after);
    }
    trace.cost = recorder.cost();
    trace.notes = recorder.limits();
    Ok(trace)
}

/// From events to items to sums.
struct Timeline {
    order: Order,
    pairing: Pairing,
    tally: Tally,
    events: u64,
}

impl Timeline {
    fn new(began: u64) -> Self {
        Self { order: Order::default(), pairing: Pairing::new(began), tally: Tally::new(began), events: 0 }
    }

    fn push(&mut self, event: Event, sink: &mut dyn Sink) -> io::Result<()> {
        self.events += 1;
        self.order.push(event);
        while let Some(event) = self.order.pop() {
            self.pair(event, sink)?;
        }
        Ok(())
    }

    fn pair(&mut self, event: Event, sink: &mut dyn Sink) -> io::Result<()> {
        let mut done = Ok(());
        let tally = &mut self.tally;
        self.pairing.push(event, &mut |item| give(&item, tally, sink, &mut done));
        done
    }

    fn finish(
        mut self,
        ended: u64,
        lost: &BTreeMap<CpuId, u32>,
        names: &Names,
        sink: &mut dyn Sink,
    ) -> io::Result<Trace> {
        while let Some(event) = self.order.rest() {
            self.pair(event, sink)?;
        }
        let mut done = Ok(());
        let tally = &mut self.tally;
        self.pairing.finish(ended, lost, &mut |item| give(&item, tally, sink, &mut done));
        done?;
        let events = self.events;
        Ok(Trace { events, ..self.tally.finish(ended, names) })
    }
}

/// Passes an item on, unless that has failed before.
fn give(item: &Item, tally: &mut Tally, sink: &mut dyn Sink, done: &mut io::Result<()>) {
    tally.add(item);
    if done.is_ok() {
        *done = sink.take(item);
    }
}
