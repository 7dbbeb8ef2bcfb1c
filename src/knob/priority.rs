//! `ksoftirqd_priority` and `napi_priority`: scheduling of the kernel threads that take packets.

mod text;

use rustix::io::Errno;

use super::error::Meanings;
use super::{Doc, Knob, KnobError, Result, queue_napi, value};
use crate::host::{Action, Cause, Host, Question};
use crate::journal::Armed;
use crate::model::Model;
use crate::parse::{self, Scheduling};
use crate::plan::Target;
use crate::units::{CpuId, CpuMask};

/// Scheduling of one kernel thread: sched_setattr(2).
pub(super) struct Priority {
    doc: Doc,
    of: Of,
}

/// The thread's kind.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Ksoftirqd,
    Napi,
}

/// The parent of every kernel thread.
const KTHREADD: u32 = 2;

const VALUES: &str = "`other`, `nice:N` from -20 to 19, `fifo:N` or `rr:N` from 1 to 99";
const BEWARE: &str = "A realtime thread that never runs out of packets starves everything of lower priority \
                      on its CPU, except for the kernel's safeguard (sched_rt_runtime_us, 50 ms per second).";

/// The thread that takes over when a CPU has too many softirqs.
pub(super) static KSOFTIRQD_PRIORITY: Priority = Priority {
    doc: Doc {
        name: "ksoftirqd_priority",
        summary: "Scheduling of `ksoftirqd/N`, which takes over a CPU's softirqs when there are too many, \
                  relative to the processes on that CPU.",
        target: "`cpu:N`",
        values: VALUES,
        example: "ksoftirqd_priority cpu:2 = nice:-5",
        source: "sched(7), sched_setattr(2)",
        since: "2.6",
        lost: "Nothing; a CPU that goes offline keeps its thread.",
        beware: BEWARE,
    },
    of: Of::Ksoftirqd,
};

/// The thread of a NAPI.
pub(super) static NAPI_PRIORITY: Priority = Priority {
    doc: Doc {
        name: "napi_priority",
        summary: "Scheduling of the thread that polls a receive queue of an interface with threaded NAPI \
                  (`threaded`).",
        target: "`NIC/rx-N`, of an interface with `threaded`",
        values: VALUES,
        example: "napi_priority eth0/rx-0 = fifo:10",
        source: "sched(7), sched_setattr(2); Documentation/networking/napi.rst, \"Threaded NAPI\"",
        since: "5.12; rxlab finds the thread since 6.8",
        lost: "A link that goes down and up, and switching `threaded` off and on: both create new threads.",
        beware: BEWARE,
    },
    of: Of::Napi,
};

impl Priority {
    fn not_there(&self, target: &Target, why: &str) -> KnobError {
        KnobError::NotThere { target: target.clone(), why: why.to_owned() }
    }

    /// Checks only that the target can exist, not that it has a thread.
    fn known(&self, model: &Model, target: &Target) -> Result {
        match (self.of, target) {
            (Of::Napi, _) => value::rx_queue(self.doc.name, model, target).map(|_| ()),
            (Of::Ksoftirqd, Target::Cpu(cpu)) if model.cpu(*cpu).is_some() => Ok(()),
            (Of::Ksoftirqd, Target::Cpu(cpu)) => Err(KnobError::UnusableCpus {
                knob: self.doc.name,
                target: target.clone(),
                cpus: [*cpu].into_iter().collect::<CpuMask>(),
                why: "does not exist on this machine".to_owned(),
            }),
            (Of::Ksoftirqd, _) => Err(KnobError::wrong(self.doc.name, target, "a CPU (cpu:N)")),
        }
    }

    /// The thread's number, looked up each time: a NAPI gets another one when its link goes down and up.
    fn thread(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<u32> {
        self.known(model, target)?;
        match (self.of, target) {
            (Of::Ksoftirqd, Target::Cpu(cpu)) => ksoftirqd(host, *cpu).ok_or_else(|| {
                self.not_there(target, "its ksoftirqd is not visible (from within a container it is not)")
            }),
            _ => self.napi_thread(host, model, target),
        }
    }

    fn napi_thread(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<u32> {
        let pid = queue_napi::napi(self.doc.name, host, model, target)?.pid;
        let Some(pid) = pid else {
            let nic = target.nic().map(|nic| format!(" {nic}")).unwrap_or_default();
            let why = format!("its NAPI has no thread; `threaded{nic} = on` creates one");
            return Err(self.not_there(target, &why));
        };
        // The kernel's number, which within a container is another process.
        if is_kernel_thread(host, pid, |name| name.starts_with("napi/")) {
            return Ok(pid);
        }
        Err(self.not_there(target, &format!("its thread, process {pid}, is not visible from here")))
    }
}

/// True if this is a kernel thread with such a name: any process can take any name.
fn is_kernel_thread(host: &dyn Host, pid: u32, named: impl Fn(&str) -> bool) -> bool {
    let name = host.read_text(&format!("proc/{pid}/comm"));
    name.is_ok_and(|name| named(parse::thread_name(&name)))
        && host.read_text(&format!("proc/{pid}/stat")).is_ok_and(|stat| parse::parent(&stat) == Ok(KTHREADD))
}

fn ksoftirqd(host: &dyn Host, cpu: CpuId) -> Option<u32> {
    let name = format!("ksoftirqd/{cpu}");
    let mut pids: Vec<u32> = host.list("proc").ok()?.iter().filter_map(|name| name.parse().ok()).collect();
    // Those of the boot come first.
    pids.sort_unstable();
    pids.into_iter().find(|pid| is_kernel_thread(host, *pid, |found| found == name))
}

const MEANINGS: Meanings = &[(Errno::INVAL, "this kernel has no such policy or priority")];

impl Knob for Priority {
    fn doc(&self) -> &Doc {
        &self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match self.of {
            Of::Ksoftirqd => {
                model.cpus.iter().filter(|cpu| cpu.online).map(|cpu| Target::Cpu(cpu.id)).collect()
            }
            Of::Napi => {
                value::rx_targets(model, |rx| rx.napi.as_ref().is_some_and(|napi| napi.thread.is_some()))
            }
        }
    }

    // Does not require a thread: `threaded` earlier in the same plan creates one.
    fn check(&self, _host: &dyn Host, model: &Model, target: &Target, value: &str) -> Result<String> {
        self.known(model, target)?;
        text::asked(value).map(|scheduling| text::format(&scheduling)).ok_or_else(|| {
            KnobError::bad(
                self.doc.name,
                value,
                "expected other, nice:N (-20 to 19), fifo:N or rr:N (1 to 99)",
            )
        })
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>> {
        self.known(model, target)?;
        Ok(vec![match self.of {
            // The process is found by name.
            Of::Ksoftirqd => "proc".to_owned(),
            Of::Napi => Question::Napis.path(),
        }])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String> {
        let path = format!("proc/{}/stat", self.thread(host, model, target)?);
        let stat = value::read_plain(self.doc.name, host, target, &path)?;
        let now = parse::scheduling(&stat).map_err(|error| KnobError::Broken {
            path,
            text: error.to_string(),
            expected: "a stat file",
        })?;
        if text::parse(&text::format(&now)) == Some(now) {
            return Ok(text::format(&now));
        }
        let why = "its thread has a scheduling policy that rxlab could not restore";
        Err(KnobError::lacks(self.doc.name, target, why))
    }

    fn write(&self, host: &dyn Host, model: &Model, target: &Target, value: &str, _armed: &Armed) -> Result {
        let scheduling: Scheduling = text::parse(value)
            .ok_or_else(|| KnobError::bad(self.doc.name, value, "not a scheduling policy"))?;
        let pid = self.thread(host, model, target)?;
        host.act(&Action::ThreadPolicy { pid, scheduling }).map_err(|error| match error.cause {
            Cause::Missing => self.not_there(target, "its thread has ended"),
            _ => {
                let denied = " (needs CAP_SYS_NICE)";
                KnobError::from_host(self.doc.name, target, Some(value), &error, denied, MEANINGS)
            }
        })
    }

    fn is_fleeting(&self) -> bool {
        self.of == Of::Napi
    }

    // The policy and the nice value of a realtime thread are set one after the other.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let values: Vec<Scheduling> =
            ours.iter().chain(unsettled).filter_map(|value| text::parse(value)).collect();
        text::parse(live).is_some_and(|live| {
            values.iter().any(|ours| (ours.policy, ours.priority) == (live.policy, live.priority))
                && values.iter().any(|ours| ours.nice == live.nice)
        })
    }
}

#[cfg(test)]
mod tests;
