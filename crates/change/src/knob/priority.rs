//! `ksoftirqd_priority` and `napi_priority`: scheduling of the kernel threads that take packets.

mod text;

use rustix::io::Errno;

use super::error::Meanings;
use super::{Knob, KnobError, Result, Site, queue_napi};
use crate::journal::Armed;
use rxlab_base::parse::{self, Scheduling};
use rxlab_base::units::CpuId;
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, Host};

/// Scheduling of one kernel thread: sched_setscheduler(2) and setpriority(2).
pub(super) struct Priority {
    name: &'static str,
    of: Of,
}

#[derive(Clone, Copy, PartialEq)]
enum Of {
    Ksoftirqd,
    Napi,
}

/// The parent of every kernel thread.
pub(super) const KTHREADD: u32 = 2;

/// Beginning of the name of a thread that polls a NAPI: `napi/NIC-NUMBER` (`napi_kthread_create`).
pub(super) const NAPI_THREAD: &str = "napi/";

/// That of a new thread.
pub(super) const NEW: Scheduling = Scheduling { policy: 0, priority: 0, nice: 0 };

/// The thread that takes over when a CPU has too many softirqs.
pub(super) static KSOFTIRQD_PRIORITY: Priority = Priority { name: "ksoftirqd_priority", of: Of::Ksoftirqd };

pub(super) static NAPI_PRIORITY: Priority = Priority { name: "napi_priority", of: Of::Napi };

impl Priority {
    /// Checks only that the target can exist, not that it has a thread.
    fn known(&self, site: Site<'_>) -> Result {
        match (self.of, site.target) {
            (Of::Napi, _) => site.rx_queue().map(drop),
            (Of::Ksoftirqd, Target::Cpu(cpu)) if site.model.cpu(*cpu).is_some() => Ok(()),
            (Of::Ksoftirqd, Target::Cpu(cpu)) => {
                Err(site.unusable((*cpu).into(), "does not exist on this machine"))
            }
            (Of::Ksoftirqd, _) => Err(site.wrong("a CPU (cpu:N)")),
        }
    }

    /// The thread's number, looked up each time: a NAPI gets another one when its link goes down and up.
    fn thread(&self, site: Site<'_>) -> Result<u32> {
        self.known(site)?;
        match (self.of, site.target) {
            (Of::Ksoftirqd, Target::Cpu(cpu)) => {
                site.numbered()?;
                ksoftirqd(site, *cpu)?.ok_or_else(|| {
                    site.not_there("its ksoftirqd is not visible (from within a container it is not)")
                })
            }
            _ => napi_thread(site),
        }
    }
}

/// The number of the thread that polls the queue of a site.
pub(crate) fn napi_thread(site: Site<'_>) -> Result<u32> {
    let Some(pid) = queue_napi::napi(site)?.pid else {
        let nic = site.target.nic().map(|nic| format!(" {nic}")).unwrap_or_default();
        return Err(site.not_there(format!("its NAPI has no thread; `threaded{nic} = on` creates one")));
    };
    site.numbered()?;
    // The kernel's number, which within a container is another process. A thread that has ended meanwhile is not listed the
    // next time.
    if !is_kernel_thread(site, pid, |name| name.starts_with(NAPI_THREAD))? {
        return Err(site.unknown("NAPIs", &format!("its thread, process {pid}, is not visible from here")));
    }
    Ok(pid)
}

/// When the thread that polls the queue of a site began: see [`Knob::began_ns`].
pub(super) fn napi_thread_began(site: Site<'_>) -> Option<u64> {
    let pid = napi_thread(site).ok()?;
    let stat = site.host.read_text(&format!("proc/{pid}/stat")).ok()?;
    site.began_ns(pid, &stat).ok()
}

/// True if this is a kernel thread with such a name: any process can take any name. An error if that cannot be read.
pub(super) fn is_kernel_thread(site: Site<'_>, pid: u32, named: impl Fn(&str) -> bool) -> Result<bool> {
    is_thread_of(site, pid, KTHREADD, named)
}

/// True if this is a process with such a name and this parent. An error if that cannot be read.
pub(super) fn is_thread_of(
    site: Site<'_>,
    pid: u32,
    parent: u32,
    named: impl Fn(&str) -> bool,
) -> Result<bool> {
    let read = |file: &str| match site.host.read_text(&format!("proc/{pid}/{file}")) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.cause == Cause::Missing => Ok(None),
        Err(error) => Err(site.unreadable(&error)),
    };
    if !read("comm")?.is_some_and(|name| named(parse::thread_name(&name))) {
        return Ok(false);
    }
    Ok(read("stat")?.is_some_and(|stat| parse::parent(&stat) == Ok(parent)))
}

/// The nice value of a new thread of the kernel, which is that of their parent: the kernel resets their policy, not this
/// (`kthread` of kernel/kthread.c).
fn inherited_nice(host: &dyn Host) -> i32 {
    let read = |file: &str| host.read_text(&format!("proc/{KTHREADD}/{file}")).ok();
    let is_it = read("comm").is_some_and(|name| parse::thread_name(&name) == "kthreadd");
    let stat = read("stat").filter(|_| is_it);
    stat.and_then(|stat| parse::scheduling(&stat).ok()).map_or(NEW.nice, |parent| parent.nice)
}

fn ksoftirqd(site: Site<'_>, cpu: CpuId) -> Result<Option<u32>> {
    let name = format!("ksoftirqd/{cpu}");
    let all = site.host.list("proc").map_err(|error| site.unreadable(&error))?;
    let mut pids: Vec<u32> = all.iter().filter_map(|name| name.parse().ok()).collect();
    // Those of the boot come first.
    pids.sort_unstable();
    for pid in pids {
        if is_kernel_thread(site, pid, |found| found == name)? {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

const MEANINGS: Meanings = &[(Errno::INVAL, "this kernel has no such policy or priority")];

impl Knob for Priority {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match self.of {
            Of::Ksoftirqd => {
                model.cpus.iter().filter(|cpu| cpu.online).map(|cpu| Target::Cpu(cpu.id)).collect()
            }
            Of::Napi => queue_napi::targets(model, |napi| napi.thread.is_some()),
        }
    }

    // Does not require a thread: `threaded` earlier in the same plan creates one.
    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        self.known(site)?;
        let asked = text::asked(value)
            .ok_or_else(|| site.bad(value, "expected other, nice:N (-20 to 19), fifo:N or rr:N (1 to 99)"))?;
        Ok(text::format(&asked))
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let path = format!("proc/{}/stat", self.thread(site)?);
        let now = parse::scheduling(&site.read_text(&path)?)
            .map_err(|error| KnobError::broken(&path, error, "a stat file"))?;
        if text::parse(&text::format(&now)) == Some(now) {
            return Ok(text::format(&now));
        }
        Err(KnobError::Unrestorable { knob: site.knob, target: site.target.clone(), policy: now.policy })
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let scheduling = text::parse(value).ok_or_else(|| site.bad(value, "not a scheduling policy"))?;
        let pid = self.thread(site)?;
        site.host.act(&Action::ThreadPolicy { pid, scheduling }).map_err(|error| match error.cause {
            Cause::Missing => site.not_there("its thread has ended"),
            _ => site.failed(Some(value), &error, " (needs CAP_SYS_NICE)", MEANINGS),
        })
    }

    fn is_fleeting(&self) -> bool {
        self.of == Of::Napi
    }

    fn is_fresh(&self, host: &dyn Host, value: &str) -> bool {
        let is_new = |now| [NEW, Scheduling { nice: inherited_nice(host), ..NEW }].contains(&now);
        self.of == Of::Napi && text::parse(value).is_some_and(is_new)
    }

    fn began_ns(&self, site: Site<'_>) -> Option<u64> {
        (self.of == Of::Napi).then(|| napi_thread_began(site)).flatten()
    }

    // Cut short is a write of ours that is unsettled, or that of the original, the first of ours, by an undo: each from one of ours
    // or from a new thread. What a new thread has is left by none: only its thread tells if another program has set it.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let all = || ours.iter().chain(unsettled);
        if all().any(|value| value == live) {
            return true;
        }
        let new = (self.of == Of::Napi).then_some(NEW);
        let wanted = || unsettled.iter().chain(ours.first()).filter_map(|value| text::parse(value));
        let mut from = all().filter_map(|value| text::parse(value)).chain(new);
        text::parse(live).is_some_and(|live| {
            from.any(|from| from != live && wanted().any(|wanted| from.halfway(wanted) == live))
        })
    }
}

#[cfg(test)]
mod tests;
