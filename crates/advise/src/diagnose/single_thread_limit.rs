//! One thread of a program has no time left while CPUs idle.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::figures::{Evidence, Subject, Unit};
use super::workload::{ROOM, carries_traffic, common, named, programs};
use super::{Check, Finding, Rule, Severity, one_core_hotspot};
use rxlab_base::number::{count, percent, plural, precise_percent};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{FULL, LOST, busy, lost, receiving, room};
use rxlab_path::model::{CpuRates, Fact, HeldRates, Model, ProcessRates, Rates, ThreadRates};
use rxlab_path::sample::Transport;

/// Running fraction of a thread from which it has no time left.
const RAN: f64 = 0.95;

/// Fraction of time waiting for a CPU from which the thread lacks a CPU.
const WAITED: f64 = 0.05;

/// Part of its CPU taken by interrupts, softirqs and the hypervisor from which they are what limits it.
const TAKEN: f64 = 0.10;

/// Connections with unread data from which a program is behind. With one, it may be working on that one.
const UNREAD: u32 = 2;

pub(super) const RULE: Rule = Rule {
    id: "single-thread-limit",
    asks: "Is one thread of a server out of time while other CPUs idle?",
    fires: || {
        format!(
            "an interface carries traffic, a thread runs {} of the time and waits less than {} of it for a \
             CPU, interrupts, softirqs and the hypervisor take less than {} of its CPU, the other CPUs are \
             {} idle on average, and less than one packet/s is lost on the way to it. A warning if its \
             program is behind: the queue of a public socket is not empty in both samples or overflows, or \
             {UNREAD} connections have unread data; a note if the sockets are not visible",
            percent(RAN),
            percent(WAITED),
            percent(TAKEN),
            percent(ROOM)
        )
    },
    silent: "its queues are empty (it polls), several threads share the time (each could use more), the \
             program has only Unix sockets, it lacks a CPU (it waits), receive work takes its CPU, a CPU is \
             a hotspot of receive work, or every CPU has such a thread",
    evidence: "the thread, the time it ran and waited, other work on its CPU, the queues of its sockets, the \
               other CPUs, the headroom of the thread",
    cause: "A thread can use one CPU at a time. If one thread does the work, other CPUs cannot help it, and \
            the time receive work takes from its CPU bounds the gain from steering: a part f gives at most f \
            / (1 - f).",
    remedy: "More workers or threads (SO_REUSEPORT, io-threads), or a faster core; keep interrupts and RPS \
             off its CPU and the other thread of its core, and leave RFS off, which would bring the packets \
             there.",
    source: "Documentation/scheduler/sched-stats.rst (/proc/PID/schedstat); socket(7) (SO_REUSEPORT); \
             Documentation/networking/scaling.rst (RFS)",
    check: Check::Machine(check),
};

/// A program whose threads limit the load.
pub(super) struct Limit<'a> {
    process: &'a ProcessRates,
    thread: &'a ThreadRates,
    /// Threads without time left, of all programs with its name.
    full: usize,
    /// The CPU it stays on, if it does.
    cpu: Option<CpuId>,
    /// Upper bound on the part of its CPU that interrupts and softirqs take.
    receive: f64,
    /// Mean idle time of the other CPUs.
    idle: f64,
    behind: Behind,
}

/// Evidence that the program is behind.
enum Behind {
    /// The program is behind; the evidence.
    Seen(Vec<Evidence>),
    /// The process cannot be determined, for this reason.
    Unknown(String),
}

impl Limit<'_> {
    /// True if there is evidence that the load waits for it.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self.behind, Behind::Seen(_))
    }

    /// Upper bound on its gain if all receive work leaves its CPU.
    pub(super) fn ceiling(&self) -> f64 {
        self.receive / (1.0 - self.receive)
    }

    /// The reason steering does not matter.
    pub(super) fn reason(&self) -> String {
        format!(
            "the load waits for one thread of {}: receive work takes {} of that thread's CPU, so steering gains at \
             most {}",
            self.process.command,
            precise_percent(self.receive),
            precise_percent(self.ceiling())
        )
    }
}

/// Headroom of a program whose one thread has no time left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRoom {
    /// The program's name, truncated by the kernel to 15 bytes.
    pub program: String,
    /// Its process id.
    pub pid: u32,
    /// The thread's id.
    pub tid: u32,
    /// Multiples of the current traffic it can handle: 1 / the running fraction of the thread.
    pub headroom: f64,
}

/// The headroom of the program that provably limits the load.
pub fn thread_room(model: &Model, rates: &Rates) -> Option<ThreadRoom> {
    limit(model, rates).filter(Limit::is_seen).map(|limit| ThreadRoom {
        program: limit.process.command.clone(),
        pid: limit.process.pid,
        tid: limit.thread.tid,
        headroom: room(limit.thread.ran),
    })
}

/// The thread that limits the load; first one with evidence for it.
pub(super) fn limit<'a>(model: &Model, rates: &'a Rates) -> Option<Limit<'a>> {
    if rates.cpus.len() < 2 || !carries_traffic(model, rates) || lost(rates) >= LOST {
        return None;
    }
    let mut found: Vec<Limit<'a>> =
        programs(rates).iter().filter_map(|process| of_process(model, rates, process)).collect();
    found.sort_by_key(|limit| !limit.is_seen());
    let hotspot = || !one_core_hotspot::RULE.findings(model, rates).is_empty();
    found.into_iter().next().filter(|_| !hotspot())
}

fn full(process: &ProcessRates) -> impl Iterator<Item = &ThreadRates> {
    process.each.iter().filter(|thread| thread.ran >= RAN && thread.waited < WAITED)
}

fn of_process<'a>(model: &Model, rates: &'a Rates, process: &'a ProcessRates) -> Option<Limit<'a>> {
    let common = common(model);
    let thread = full(process).find(|thread| place(rates, process, thread).is_some())?;
    let (cpu, receive) = place(rates, process, thread)?;
    let alike = programs(rates).iter().filter(|other| other.command == process.command);
    let full = alike.map(|other| full(other).count()).sum::<usize>();
    // As many full threads as CPUs they may use: they need more CPUs.
    let allowed = process.allowed.known().map(|allowed| allowed.intersection(&common));
    let confined = allowed.is_some_and(|allowed| allowed != common && full > 1 && full >= allowed.len());
    let others = common.len().checked_sub(full).filter(|others| *others > 0)?;
    let idle: f64 = rates.cpus.iter().filter(|cpu| common.contains(cpu.cpu)).map(|cpu| cpu.idle).sum();
    let idle = (idle / others as f64).min(1.0);
    let behind = behind(process)?;
    (!confined && idle >= ROOM).then_some(Limit { process, thread, full, cpu, receive, idle, behind })
}

/// The CPU a thread stays on, if it does, and the most that receive work takes of any of its CPUs; `None` if
/// too much is taken there.
fn place(rates: &Rates, process: &ProcessRates, thread: &ThreadRates) -> Option<(Option<CpuId>, f64)> {
    let cpus: CpuMask = match rates.cpu(thread.cpu) {
        Some(cpu) if busy(cpu) >= FULL => thread.cpu.into(),
        // It moved between CPUs: each one it may have used counts.
        _ => process.allowed.known()?.clone(),
    };
    let own: Vec<&CpuRates> = rates.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)).collect();
    let most = |of: fn(&CpuRates) -> f64| own.iter().map(|cpu| of(cpu)).fold(0.0, f64::max);
    let taken = most(|cpu| receiving(cpu) + cpu.steal);
    let stays = cpus.first().filter(|_| cpus.len() == 1);
    (taken < TAKEN).then(|| (stays, most(receiving)))
}

/// `None` for a program that is not behind, or serves no connections.
fn behind(process: &ProcessRates) -> Option<Behind> {
    let sockets = match &process.sockets {
        Fact::Known(sockets) => sockets,
        Fact::Denied(need) => {
            return Some(Behind::Unknown(format!("its sockets are not visible: that needs {need}")));
        }
        _ => return Some(Behind::Unknown("its sockets are not visible".to_owned())),
    };
    let shown: Vec<Evidence> = sockets.held.iter().filter_map(|held| shown(process, held)).collect();
    let untold = |held: &HeldRates| held.transport == Transport::Tcp && held.unread.known().is_none();
    match (shown.is_empty(), sockets.held.is_empty()) {
        (false, _) => Some(Behind::Seen(shown)),
        (true, false) if sockets.held.iter().any(untold) => Some(Behind::Unknown(
            "no connections wait to be accepted; the queues of its connections are not visible".into(),
        )),
        (true, true) if sockets.others => {
            Some(Behind::Unknown("it has no public socket in this namespace".into()))
        }
        _ => None,
    }
}

/// Evidence that the reader of a socket is behind.
fn shown(process: &ProcessRates, held: &HeldRates) -> Option<Evidence> {
    let (name, waiting, unit) = match held.transport {
        Transport::Tcp => ("TCP", "connections waiting to be accepted", Unit::Count),
        Transport::Udp => ("UDP", "bytes waiting to be read", Unit::Bytes),
    };
    let seen = Evidence::about(Subject::process(process), |seen| {
        let mut parts = Vec::new();
        if held.queued_before.min(held.queued) > 0 {
            let before = count(seen.figure("queued_before", held.queued_before as f64, unit));
            let now = count(seen.figure("queued", held.queued as f64, unit));
            parts.push(format!("{before} and {now} {waiting} in the two samples"));
        }
        if held.dropped > 0.0 {
            parts.push(format!("{} drops/s", seen.packets("dropped", held.dropped)));
        }
        if let Some(unread) = held.unread.known().filter(|unread| **unread >= UNREAD) {
            let unread = plural(seen.count("unread", *unread as usize), "connection");
            parts.push(format!("{unread} with unread data"));
        }
        format!("{name} port {}: {}", held.port, parts.join(", "))
    });
    (!seen.figures.is_empty()).then_some(seen)
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    limit(model, rates).map(|limit| finding(model, rates, &limit)).into_iter().collect()
}

fn finding(model: &Model, rates: &Rates, limit: &Limit<'_>) -> Finding {
    let (process, thread) = (limit.process, limit.thread);
    let on = match limit.cpu {
        Some(cpu) => format!("on CPU {cpu}"),
        None => format!("last on CPU {}, moved by the scheduler", thread.cpu),
    };
    let place = limit.cpu.map_or_else(|| "each of its CPUs: at most".to_owned(), |cpu| format!("CPU {cpu}:"));
    let subject = || Subject::process(process);
    let mut evidence = vec![
        Evidence::about(subject(), |seen| {
            format!(
                "{}, thread {}: ran {} of the time, waited {} of it for a CPU; {on}",
                named(process),
                thread.tid,
                seen.precise_percent("ran", thread.ran),
                seen.precise_percent("waited", thread.waited)
            )
        }),
        Evidence::about(subject(), |seen| {
            let time = seen.precise_percent("receiving", limit.receive);
            format!("{place} {time} of its time in interrupts and softirqs ({})", seen.tier(rates))
        }),
    ];
    if limit.full > 1 {
        evidence.push(Evidence::about(subject(), |seen| {
            format!("{} threads of {} are that busy", seen.count("full_threads", limit.full), process.command)
        }));
    }
    match &limit.behind {
        Behind::Seen(seen) => evidence.extend(seen.iter().cloned()),
        Behind::Unknown(why) => evidence.push(Evidence::fact(subject(), why.clone())),
    }
    evidence.push(Evidence::about(subject(), |seen| {
        format!(
            "headroom of {}: {} of the current traffic; it cannot use the idle time of other CPUs",
            process.command,
            seen.times("headroom", room(thread.ran))
        )
    }));
    let condition = if limit.is_seen() { "" } else { "if it serves this traffic: " };
    let avoid = match limit.cpu {
        Some(cpu) if model.siblings(&cpu.into()).len() > 1 => {
            format!("CPU {cpu} and its sibling")
        }
        Some(cpu) => format!("CPU {cpu}"),
        None => "its CPU".to_owned(),
    };
    let (full, one) = match limit.full {
        1 => ("one thread is full".to_owned(), "one thread"),
        full => (format!("{full} threads are full"), "each thread"),
    };
    Finding {
        severity: if limit.is_seen() { Severity::Warning } else { Severity::Note },
        cpu: limit.cpu,
        title: format!("{}: {full}, other CPUs {} idle", process.command, percent(limit.idle)),
        evidence,
        why: format!("{one} of {} can use only one CPU, and is not waiting for one", process.command),
        remedy: format!(
            "{condition}more workers or threads (SO_REUSEPORT, io-threads), or a faster core; keep \
             interrupts and RPS off {avoid} (gains at most {}); no RFS",
            precise_percent(limit.ceiling())
        ),
        ..RULE.finding()
    }
}
