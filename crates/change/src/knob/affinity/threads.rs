//! The threads of a process: the CPUs each may run on, and how they are moved.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::DENIED;
use super::lists::{ALL, KEEP, Lists, Thread};
use crate::knob::error::Meanings;
use crate::knob::priority::{NAPI_THREAD, is_kernel_thread};
use crate::knob::{KnobError, Result, Site};
use rxlab_base::number::cpus_text;
use rxlab_base::parse;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_sys::{Action, Cause, unless_ended};

/// CPUs that sched_setaffinity(2) can be given (rustix's `CpuSet`).
const NAMEABLE: u32 = 1024;

/// Passes over threads that were started while the others were read or moved. When they are moved, each was started by a thread
/// that had not been moved yet, so every pass finds fewer.
const ROUNDS: u32 = 10;

/// CPUs that each thread may run on, the main thread first. Threads that end in the meantime are left out. The threads that these
/// started, which have inherited their CPUs, are read.
pub(super) fn read(site: Site<'_>, pid: u32) -> Result<Lists> {
    let mut seen = BTreeSet::new();
    let mut threads = Vec::new();
    for _ in 0..ROUNDS {
        let now = tids(site, pid)?;
        let listed: BTreeSet<u32> = now.iter().copied().collect();
        threads.retain(|(thread, _): &(Thread, String)| listed.contains(&thread.tid));
        let new: Vec<u32> = now.into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            // First: a thread that takes over the number afterwards is another one to undo, whose list is not set.
            let start = start(site, pid, tid);
            threads.extend(cpus(site, pid, tid)?.map(|list| (Thread { tid, start }, list)));
        }
    }
    if threads.is_empty() { Err(gone(site)) } else { Ok(Lists::from_threads(&threads)) }
}

/// Beginning of the name of a thread that handles an interrupt (`setup_irq_thread`).
const IRQ_THREAD: &str = "irq/";

/// True for the thread of a NAPI. An error if procfs does not show a thread that has not ended.
pub(super) fn is_of_napi(site: Site<'_>, tid: u32) -> Result<bool> {
    let name = site.host.read_text(&format!("proc/{tid}/comm"));
    if unless_ended(site.host, tid, name).map_err(|error| site.unreadable(&error))?.is_none() {
        return Ok(false);
    }
    is_kernel_thread(site, tid, |name| name.starts_with(NAPI_THREAD))
}

/// Refuses a thread of the kernel that ends with its NAPI or follows its interrupt: undo would not find it, or would find what
/// the kernel has made of its CPUs.
pub(super) fn check_kind(site: Site<'_>, pid: u32) -> Result {
    if is_of_napi(site, pid)? {
        let nics = site.model.nics.iter();
        let mut queues = nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
        let own = queues.find(|(_, queue)| queue.napi.as_ref().is_some_and(|napi| napi.thread == Some(pid)));
        let instead = match own {
            Some((nic, queue)) => format!("use `napi_affinity {}/rx-{}`, which it restores", nic.name, queue.index),
            None => "`napi_affinity NIC/rx-N` is for that of a receive queue, which it restores; the NAPIs of a tunnel have \
                     no queue"
                .to_owned(),
        };
        return Err(site.unrestorable(format!(
            "the CPUs of a NAPI's thread, which ends with the NAPI (`threaded`, `gro`, `channels`, a link that goes down and \
             up): {instead}"
        )));
    }
    if is_kernel_thread(site, pid, |name| name.starts_with(IRQ_THREAD))? {
        return Err(site.unrestorable(
            "the CPUs of an interrupt's thread, which the kernel moves with the interrupt: use `irq_affinity`".to_owned(),
        ));
    }
    Ok(())
}

/// Refuses a canonical value if a thread would lose CPUs that are offline.
pub(super) fn check(site: Site<'_>, pid: u32, value: &str) -> Result {
    let now = read(site, pid)?;
    let lost = lost(site)?;
    let is_set = Lists::parse(value).is_some_and(|value| now.explained_by(&[&value]));
    if lost.is_empty() || is_set {
        return Ok(());
    }
    let online = site.model.online();
    if value == ALL {
        let why =
            format!("Linux before 6.2 gives no process {}, offline now; use {online}", cpus_text(&lost));
        return Err(site.bad(value, why));
    }
    for tid in tids(site, pid)? {
        let own = allowed(site, pid, tid)?.unwrap_or_default().intersection(&lost);
        if !own.is_empty() {
            return Err(site.unrestorable(format!(
                "{} of thread {tid}: Linux before 6.2 gives no process CPUs that are offline. Bring them online, or give \
                 them up first (`taskset -a -p -c {online} {pid}`)",
                cpus_text(&own)
            )));
        }
    }
    Ok(())
}

/// CPUs that the kernel takes from every list that is set, and does not give back once they are online: those that are offline,
/// before Linux 6.2 (`cpuset_cpus_allowed` of kernel/cgroup/cpuset.c).
fn lost(site: Site<'_>) -> Result<CpuMask> {
    const POSSIBLE: &str = "sys/devices/system/cpu/possible";
    if site.has_linux("6.2") {
        return Ok(CpuMask::new());
    }
    match site.host.read_text(POSSIBLE) {
        Ok(text) => {
            let possible: CpuMask =
                text.trim().parse().map_err(|_| KnobError::broken(POSSIBLE, text, "a CPU list"))?;
            Ok(possible.difference(&site.model.online()))
        }
        Err(error) if error.cause == Cause::Missing => Ok(CpuMask::new()),
        Err(error) => Err(site.unreadable(&error)),
    }
}

/// The list of one thread; `None` if it has ended.
pub(in crate::knob) fn cpus(site: Site<'_>, pid: u32, tid: u32) -> Result<Option<String>> {
    allowed(site, pid, tid)?.map(|cpus| text(site, &cpus)).transpose()
}

/// CPUs as a value.
pub(super) fn text(site: Site<'_>, cpus: &CpuMask) -> Result<String> {
    let online = site.model.online();
    let has_online = !online.is_empty() && online.difference(cpus).is_empty();
    let all = has_online && lost(site)?.difference(cpus).is_empty();
    Ok(if all { ALL.to_owned() } else { cpus.to_string() })
}

/// Moves each thread to where `lists` has it. One that refuses does not keep the others: the error is the first.
pub(super) fn write(site: Site<'_>, pid: u32, lists: &Lists) -> Result {
    let mut done = BTreeSet::new();
    let mut moved = Ok(());
    for _ in 0..ROUNDS {
        let new: Vec<u32> = tids(site, pid)?.into_iter().filter(|tid| !done.contains(tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            done.insert(tid);
            let thread = Thread { tid, start: start(site, pid, tid) };
            let done = move_to(site, pid, tid, lists.list(thread));
            moved = moved.and(done);
        }
    }
    // A process that starts threads this fast has some that were not moved: reading back reveals them.
    moved
}

/// Moves one thread to a list.
pub(in crate::knob) fn move_to(site: Site<'_>, pid: u32, tid: u32, list: &str) -> Result {
    let cpus: CpuMask = match list {
        KEEP => return Ok(()),
        ALL => (0..NAMEABLE).map(CpuId).collect(),
        list => list.parse().unwrap_or_default(),
    };
    let online = site.model.online();
    // Undoing a move that was refused halfway must not ask the refusing thread for the list it already has.
    let Some(now) = allowed(site, pid, tid)? else { return Ok(()) };
    if now == cpus || (list == ALL && online.difference(&now).is_empty()) {
        return Ok(());
    }
    match site.host.act(&Action::ThreadCpus { pid, tid, cpus }) {
        // It has ended.
        Err(error) if error.cause == Cause::Missing => Ok(()),
        done => done.map_err(|error| site.failed(Some(list), &error, DENIED, MEANINGS)),
    }
}

const MEANINGS: Meanings = &[
    (Errno::INVAL, "its cpuset has none of these CPUs, or it is a kernel thread bound to its CPU"),
    (Errno::OVERFLOW, "rxlab supports CPUs up to 1023 here"),
];

/// The threads, the main one first.
fn tids(site: Site<'_>, pid: u32) -> Result<Vec<u32>> {
    site.numbered()?;
    let names = site.host.list(&format!("proc/{pid}/task")).map_err(|error| match error.cause {
        Cause::Missing => gone(site),
        _ => site.unreadable(&error),
    })?;
    let mut tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    Ok(tids)
}

/// Start of a thread in clock ticks since boot, as the initial time namespace has it; `None` if it cannot be read, as after
/// its end.
fn start(site: Site<'_>, pid: u32, tid: u32) -> Option<u64> {
    let stat = site.host.read_text(&format!("proc/{pid}/task/{tid}/stat")).ok()?;
    let began = parse::process_stat(&stat).ok()?.began_ticks;
    Some(site.host.numbering().ok()?.map_or(began, |own| own.start(began)))
}

/// CPUs that a thread may run on; `None` if it has ended.
fn allowed(site: Site<'_>, pid: u32, tid: u32) -> Result<Option<CpuMask>> {
    let path = format!("proc/{pid}/task/{tid}/status");
    let text = match site.host.read_text(&path) {
        Ok(text) => text,
        Err(error) if error.cause == Cause::Missing => return Ok(None),
        Err(error) => return Err(site.unreadable(&error)),
    };
    allowed_by(&path, &text).map(Some)
}

/// CPUs that a thread may run on, by its status.
pub(super) fn allowed_by(path: &str, status: &str) -> Result<CpuMask> {
    parse::allowed_cpus(status).map_err(|error| KnobError::broken(path, error, "the status of a thread"))
}

fn gone(site: Site<'_>) -> KnobError {
    site.not_there("no such process")
}
