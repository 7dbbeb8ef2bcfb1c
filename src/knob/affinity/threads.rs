//! The threads of a process: the CPUs each may run on, and how they are moved.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::lists::{ALL, Lists};
use super::{DENIED, NAME};
use crate::host::{Action, Cause, Host};
use crate::knob::error::Meanings;
use crate::knob::{KnobError, Result};
use crate::model::Model;
use crate::parse;
use crate::plan::Target;
use crate::units::{CpuId, CpuMask};

/// CPUs that sched_setaffinity(2) can be given (rustix's `CpuSet`).
const NAMEABLE: u32 = 1024;

/// Passes over threads that were started while the others were moved. Each was started by a thread that had
/// not been moved yet, so every pass finds fewer.
const ROUNDS: u32 = 10;

/// CPUs that each thread may run on, the main thread first. Threads that end in the meantime are left out.
pub(super) fn read(host: &dyn Host, model: &Model, target: &Target, pid: u32) -> Result<Lists> {
    let online = model.online();
    let mut threads = Vec::new();
    for tid in tids(host, target, pid)? {
        if let Some(cpus) = allowed(host, target, pid, tid)? {
            let all = !online.is_empty() && online.difference(&cpus).is_empty();
            threads.push((tid, if all { ALL.to_owned() } else { cpus.to_string() }));
        }
    }
    if threads.is_empty() { Err(gone(target)) } else { Ok(Lists::from_threads(&threads)) }
}

/// Moves each thread to where `lists` has it.
pub(super) fn write(host: &dyn Host, model: &Model, target: &Target, pid: u32, lists: &Lists) -> Result {
    let mut done = BTreeSet::new();
    for _ in 0..ROUNDS {
        let new: Vec<u32> = tids(host, target, pid)?.into_iter().filter(|tid| !done.contains(tid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for tid in new {
            done.insert(tid);
            move_to(host, model, target, (pid, tid), lists.list(tid))?;
        }
    }
    // A process that starts threads this fast has some that were not moved: reading back reveals them.
    Ok(())
}

fn move_to(host: &dyn Host, model: &Model, target: &Target, (pid, tid): (u32, u32), list: &str) -> Result {
    let cpus: CpuMask = match list {
        ALL => (0..NAMEABLE).map(CpuId).collect(),
        list => list.parse().unwrap_or_default(),
    };
    let online = model.online();
    // Undoing a move that was refused halfway must not ask the refusing thread for the list it already has.
    let Some(now) = allowed(host, target, pid, tid)? else { return Ok(()) };
    if now == cpus || (list == ALL && online.difference(&now).is_empty()) {
        return Ok(());
    }
    match host.act(&Action::ThreadCpus { pid, tid, cpus }) {
        // It has ended.
        Err(error) if error.cause == Cause::Missing => Ok(()),
        done => {
            done.map_err(|error| KnobError::from_host(NAME, target, Some(list), &error, DENIED, MEANINGS))
        }
    }
}

const MEANINGS: Meanings = &[
    (Errno::INVAL, "its cpuset has none of these CPUs, or it is a kernel thread bound to its CPU"),
    (Errno::OVERFLOW, "rxlab supports CPUs up to 1023 here"),
];

/// The threads, the main one first.
fn tids(host: &dyn Host, target: &Target, pid: u32) -> Result<Vec<u32>> {
    let path = format!("proc/{pid}/task");
    let names = host.list(&path).map_err(|error| match error.cause {
        Cause::Missing => gone(target),
        _ => KnobError::from_host(NAME, target, None, &error, "", &[]),
    })?;
    let mut tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    Ok(tids)
}

/// CPUs that a thread may run on; `None` if it has ended.
fn allowed(host: &dyn Host, target: &Target, pid: u32, tid: u32) -> Result<Option<CpuMask>> {
    let path = format!("proc/{pid}/task/{tid}/status");
    let text = match host.read_text(&path) {
        Ok(text) => text,
        Err(error) if error.cause == Cause::Missing => return Ok(None),
        Err(error) => return Err(KnobError::from_host(NAME, target, None, &error, "", &[])),
    };
    parse::allowed_cpus(&text).map(Some).map_err(|error| KnobError::Broken {
        path: path.clone(),
        text: error.to_string(),
        expected: "the status of a thread",
    })
}

fn gone(target: &Target) -> KnobError {
    KnobError::NotThere { target: target.clone(), why: "no such process".to_owned() }
}
