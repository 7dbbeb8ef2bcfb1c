//! A timeline in Chrome's trace event format, which Perfetto reads: a JSON array with one event per line, written item
//! by item. Times are microseconds since the start of the trace.
//!
//! One track per CPU: interrupts nest inside softirqs, softirqs and polls inside threads. One track per receiving
//! thread: the times it waited for a CPU and ran on one.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use rxlab_base::parse::NET_RX;
use rxlab_base::units::{CpuId, QueueId};
use rxlab_path::model::Identity;
use rxlab_probe::trace::{Cause, Item, Poll, Slice, Work, softirq_name};
use rxlab_probe::{Class, Names};

/// PID of the track group that Perfetto shows as a process, with CPUs as its threads.
const CPUS: u32 = 1;
/// The same for receiving threads.
const THREADS: u32 = 2;
/// Track of CPU 0: thread IDs are below (`PID_MAX_LIMIT` is 2^22).
const FIRST_CPU: u32 = 10_000_000;

#[derive(Debug)]
pub struct Timeline<'a> {
    names: &'a Names,
    machine: &'a Identity,
    began: u64,
    tracks: BTreeSet<(u32, u32)>,
    lines: bool,
    out: String,
}

impl<'a> Timeline<'a> {
    /// Starts a timeline of `machine` at `began`.
    pub fn new(names: &'a Names, machine: &'a Identity, began: u64) -> Self {
        Self { names, machine, began, tracks: BTreeSet::new(), lines: false, out: String::new() }
    }

    /// Start of the file.
    pub fn open(&mut self) -> &str {
        self.out.clear();
        self.out.push('[');
        self.named(CPUS, 0, "process_name", "CPUs");
        self.sorted(CPUS, 0, "process_sort_index", 0);
        self.named(THREADS, 0, "process_name", "threads that receive");
        self.sorted(THREADS, 0, "process_sort_index", 1);
        let Identity { hostname, kernel, .. } = self.machine;
        let labels = format!("{hostname}, Linux {kernel}, rxlab {}", env!("CARGO_PKG_VERSION"));
        let args = &[("labels", Arg::text(&labels))];
        self.line(&Line { ph: "M", args, ..Line::named(CPUS, "process_labels") });
        &self.out
    }

    /// End of the file.
    pub fn close(&self) -> &'static str {
        "\n]\n"
    }

    pub fn item(&mut self, item: &Item) -> &str {
        self.out.clear();
        match item {
            Item::Began { cpu, at, work } => self.began(*cpu, *at, work),
            Item::Ended(slice) => self.ended(slice),
            Item::Polled(poll) => self.polled(poll),
            Item::Raised { cpu, at, vector, cause } => {
                let cause = cause_name(*cause);
                let args = &[("cause", Arg::text(&cause))];
                self.instant(*cpu, *at, "raise", &format!("raise {}", softirq_name(*vector)), args);
            }
            Item::Woken { cpu, at, name, .. } => {
                self.instant(*cpu, *at, "wakeup", &format!("wake {name}"), &[]);
            }
            Item::Waited { cpu, woken, at, pid, name } => {
                let args = &[("cpu", Arg::count(cpu.0))];
                self.on_thread(*pid, name, "wakeup", "waits for a CPU", (*woken, *at), args);
            }
            Item::Stray { .. } => {}
            Item::Lost { cpu, at, count, .. } => {
                let args = &[("lost", Arg::count(*count))];
                self.instant(*cpu, *at, "lost", &format!("lost {count} events"), args);
            }
        }
        &self.out
    }

    fn began(&mut self, cpu: CpuId, at: u64, work: &Work) {
        let (name, cat) = work_name(self.names, work);
        let tid = self.track(cpu);
        let line = Line { ph: "B", tid, cat: Some(cat), ts: self.ts(at), ..Line::named(CPUS, &name) };
        match work {
            Work::Irq(number) => {
                let queue = self.names.queue_of_irq(*number).map(Arg::Text);
                let args = &[("irq", Arg::count(*number)), ("queue", queue)];
                self.line(&Line { args, ..line });
            }
            _ => self.line(&line),
        }
    }

    fn ended(&mut self, slice: &Slice) {
        let (name, cat) = work_name(self.names, &slice.work);
        let cut = (!slice.whole).then_some(Arg::Flag(true));
        let run = slice.run.as_ref();
        let network = run.filter(|_| slice.work == Work::Softirq(NET_RX));
        let cause = network.map(|run| cause_name(run.cause));
        let interrupts = run.map(|run| run.interrupts_ns).filter(|ns| *ns > 0);
        let args = &[
            ("cause", cause.as_deref().map(Arg::Text)),
            ("task", run.and_then(|run| Arg::text(&run.task))),
            ("polls", network.and_then(|run| Arg::count(run.polls))),
            ("full_polls", network.and_then(|run| Arg::count(run.full))),
            ("packets", network.and_then(|run| Arg::count(run.packets))),
            ("backlog_packets", network.and_then(|run| Arg::count(run.backlog))),
            ("interrupts_us", interrupts.map(|ns| Arg::Micros(micros(ns)))),
            ("cut", cut),
        ];
        let (tid, ts) = (self.track(slice.cpu), self.ts(slice.ended));
        self.line(&Line { ph: "E", tid, cat: Some(cat), ts, args, ..Line::named(CPUS, &name) });
        if let Work::Thread { pid, name } = &slice.work {
            let args = &[("cpu", Arg::count(slice.cpu.0)), ("cut", cut)];
            let on = format!("on CPU {}", slice.cpu);
            self.on_thread(*pid, name, "thread", &on, (slice.began, slice.ended), args);
        }
    }

    fn polled(&mut self, poll: &Poll) {
        let name = format!("poll {}", self.names.napi(poll.napi, &poll.device));
        let queues: Vec<String> = self.names.queues(poll.napi).iter().map(QueueId::to_string).collect();
        let queue = queues.join(",");
        let args = &[
            ("device", Arg::text(&poll.device).filter(|_| !poll.device.is_empty())),
            ("queue", Arg::text(&queue).filter(|_| !queue.is_empty())),
            ("napi", Arg::count(poll.napi).filter(|_| poll.napi > 0)),
            ("work", Arg::count(poll.work)),
            ("budget", Arg::count(poll.budget)),
        ];
        match poll.began {
            None => self.instant(poll.cpu, poll.ended, "napi", &name, args),
            Some(began) => {
                let (tid, ts) = (self.track(poll.cpu), self.ts(began));
                let dur = Some(micros(poll.ended.saturating_sub(began)));
                let cat = Some("napi");
                self.line(&Line { ph: "X", tid, cat, ts, dur, args, ..Line::named(CPUS, &name) });
            }
        }
    }

    fn instant(&mut self, cpu: CpuId, at: u64, cat: &str, name: &str, args: Args<'_>) {
        let (tid, ts) = (self.track(cpu), self.ts(at));
        self.line(&Line { ph: "i", tid, cat: Some(cat), ts, s: Some("t"), args, ..Line::named(CPUS, name) });
    }

    fn on_thread(
        &mut self,
        pid: u32,
        thread: &str,
        cat: &str,
        name: &str,
        (from, to): (u64, u64),
        args: Args<'_>,
    ) {
        if self.tracks.insert((THREADS, pid)) {
            self.named(THREADS, pid, "thread_name", thread);
            self.sorted(THREADS, pid, "thread_sort_index", pid);
        }
        let (ts, dur) = (self.ts(from), Some(micros(to.saturating_sub(from))));
        let cat = Some(cat);
        self.line(&Line { ph: "X", tid: pid, cat, ts, dur, args, ..Line::named(THREADS, name) });
    }

    /// Track of a CPU, named on first use.
    fn track(&mut self, cpu: CpuId) -> u32 {
        let tid = FIRST_CPU.saturating_add(cpu.0);
        if self.tracks.insert((CPUS, tid)) {
            self.named(CPUS, tid, "thread_name", &format!("CPU {cpu}"));
            self.sorted(CPUS, tid, "thread_sort_index", cpu.0);
        }
        tid
    }

    fn named(&mut self, pid: u32, tid: u32, what: &str, name: &str) {
        let args = &[("name", Arg::text(name))];
        self.line(&Line { ph: "M", tid, args, ..Line::named(pid, what) });
    }

    fn sorted(&mut self, pid: u32, tid: u32, what: &str, sort_index: u32) {
        let args = &[("sort_index", Arg::count(sort_index))];
        self.line(&Line { ph: "M", tid, args, ..Line::named(pid, what) });
    }

    fn ts(&self, at: u64) -> Option<f64> {
        Some(micros(at.saturating_sub(self.began)))
    }

    fn line(&mut self, line: &Line<'_>) {
        if std::mem::replace(&mut self.lines, true) {
            self.out.push(',');
        }
        self.out.push('\n');
        self.out += &serde_json::to_string(line).expect("text and numbers are JSON");
    }
}

/// Name and category of a piece of work.
pub(super) fn work_name(names: &Names, work: &Work) -> (String, &'static str) {
    match work {
        Work::Irq(number) => {
            let actions = names.actions(*number).join(", ");
            (format!("IRQ {number} {actions}").trim_end().to_owned(), "irq")
        }
        Work::Ipi => ("IPI".to_owned(), "irq"),
        Work::Timer => ("timer interrupt".to_owned(), "irq"),
        Work::Softirq(vector) => (softirq_name(*vector).to_owned(), "softirq"),
        Work::Thread { name, .. } => (name.clone(), "thread"),
    }
}

/// Microseconds, with nanoseconds as decimals.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Cause of a softirq, in a few words.
pub(super) fn cause_name(cause: Cause) -> String {
    match (cause.class, cause.irq) {
        (Class::NicIrq, Some(irq)) => format!("IRQ {irq}"),
        (class, _) => class.name().to_owned(),
    }
}

/// One event: the fields of Chrome's format that are used here; absent ones are left out.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    ph: &'a str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    // Scope of an instant: drawn on its track only.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    #[serde(serialize_with = "present")]
    args: Args<'a>,
}

/// Details shown for a selected event, by name; those without a value are left out.
type Args<'a> = &'a [(&'static str, Option<Arg<'a>>)];

#[derive(Serialize, Clone, Copy)]
#[serde(untagged)]
enum Arg<'a> {
    Text(&'a str),
    Count(u64),
    Micros(f64),
    Flag(bool),
}

impl<'a> Arg<'a> {
    fn text(text: &'a str) -> Option<Self> {
        Some(Self::Text(text))
    }

    fn count(count: impl Into<u64>) -> Option<Self> {
        Some(Self::Count(count.into()))
    }
}

fn present<S: Serializer>(args: &Args<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(args.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))))
}

impl<'a> Line<'a> {
    /// An event with only a name.
    fn named(pid: u32, name: &'a str) -> Self {
        Self { name, ph: "", pid, tid: 0, cat: None, ts: None, dur: None, s: None, args: &[] }
    }
}

#[cfg(test)]
mod tests;
