//! The threads in a control group and in those below it, and what the kernel does to them and to the group.

use rustix::io::Errno;

use super::threads;
use crate::knob::{KnobError, Result, Site};
use rxlab_base::parse;
use rxlab_base::units::CpuMask;
use rxlab_sys::{Action, Cause, HostError, INITIAL_PID_NAMESPACE, Operation, unless_ended};

/// Files that list the threads of a group, by version.
const THREADS: [&str; 2] = ["cgroup.threads", VERSION_1];
const VERSION_1: &str = "tasks";

/// Files with the CPUs that the threads of a group may run on, by version.
pub(super) const EFFECTIVE: [&str; 2] = ["cpuset.cpus.effective", "cpuset.effective_cpus"];

/// Stands for threads of other PID namespaces, as in version 2.
const HIDDEN: u32 = 0;

fn hidden(site: Site<'_>) -> KnobError {
    site.unknown("processes", "some may not be visible in this PID namespace")
}

/// A thread with other CPUs than its group gives it.
pub(super) struct Pinned {
    pid: u32,
    pub(super) tid: u32,
    pub(super) cpus: CpuMask,
    /// Those of its group that are online.
    pub(super) of_group: CpuMask,
}

/// True if the kernel refuses to empty the list of a group while it has processes: in version 1, and in version 2 before
/// Linux 7.0 (`validate_change` of kernel/cgroup/cpuset.c).
pub(super) fn keeps_its_list(site: Site<'_>, directory: &str) -> Result<bool> {
    Ok(events(site, directory)?.is_none() || !site.has_linux("7.0"))
}

/// True if processes are in a group or below it.
pub(super) fn has_any(site: Site<'_>, directory: &str) -> Result<bool> {
    if let Some(events) = events(site, directory)? {
        return Ok(events.lines().any(|line| line == "populated 1"));
    }
    let tids: Vec<u32> = tree(site, directory)?.into_iter().flat_map(|(_, tids)| tids).collect();
    match tids.iter().max() {
        Some(&HIDDEN) => Err(hidden(site)),
        last => Ok(last.is_some()),
    }
}

/// The file of version 2 that says if a group has processes; version 1 has none.
fn events(site: Site<'_>, directory: &str) -> Result<Option<String>> {
    match site.host.read_text(&format!("{directory}/cgroup.events")) {
        Ok(events) => Ok(Some(events)),
        Err(error) if error.cause == Cause::Missing => Ok(None),
        Err(error) => Err(site.unreadable(&error)),
    }
}

/// True if a thread of a process is in a group or below it. By the kernel's lists of threads: the paths in `/proc/PID/cgroup`
/// are those of the reader's control group namespace, in which another group may have the same.
pub(super) fn has_process(site: Site<'_>, directory: &str, pid: u32) -> Result<bool> {
    site.numbered()?;
    let of_process = site.host.list(&format!("proc/{pid}/task"));
    let of_process = unless_ended(site.host, pid, of_process).map_err(|error| site.unreadable(&error))?;
    let Some(of_process) = of_process else { return Ok(false) };
    let has = |tid: &u32| of_process.iter().any(|own| own.parse() == Ok(*tid));
    Ok(tree(site, directory)?.iter().any(|(_, tids)| tids.iter().any(has)))
}

/// Threads whose own CPUs a write to the list of the group replaces by those of the group: before Linux 6.2 the kernel does
/// not keep what sched_setaffinity(2) was asked for (`user_cpus_ptr`).
pub(super) fn pinned(site: Site<'_>, directory: &str) -> Result<Vec<Pinned>> {
    let mut pinned = Vec::new();
    if site.has_linux("6.2") {
        return Ok(pinned);
    }
    let online = site.model.online();
    for (group, tids) in tree(site, directory)?.into_iter().filter(|(_, tids)| !tids.is_empty()) {
        let of_group = effective(site, &group)?.intersection(&online);
        for tid in tids {
            if tid == HIDDEN {
                return Err(hidden(site));
            }
            let path = format!("proc/{tid}/status");
            let status = unless_ended(site.host, tid, site.host.read_text(&path));
            let Some(status) = status.map_err(|error| site.unreadable(&error))? else { continue };
            let cpus = threads::allowed_by(&path, &status)?;
            if cpus.intersection(&online) != of_group {
                let pid = parse::thread_group(&status).unwrap_or(tid);
                pinned.push(Pinned { pid, tid, cpus, of_group: of_group.clone() });
            }
        }
    }
    Ok(pinned)
}

/// Gives threads their own CPUs again, as later kernels do: those that their group has now, or all of these if it has none.
pub(super) fn pin_again(site: Site<'_>, pinned: Vec<Pinned>, value: &str) -> Result {
    for Pinned { pid, tid, cpus, .. } in pinned {
        match site.host.act(&Action::ThreadCpus { pid, tid, cpus }) {
            Err(error) if error.cause != Cause::Missing && error.cause != Errno::INVAL.into() => {
                return Err(site.failed(Some(value), &error, super::DENIED, &[]));
            }
            _ => {}
        }
    }
    Ok(())
}

/// True if the control group of a site, or one below it, may have the thread of a NAPI.
pub(crate) fn has_napi_thread(site: Site<'_>) -> Result<bool> {
    let file = super::cpuset::file(site)?;
    for tid in tree(site, super::cpuset::directory_of(&file))?.into_iter().flat_map(|(_, tids)| tids) {
        if tid == HIDDEN || threads::is_of_napi(site, tid)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Groups with their threads: the one in `directory`, and those below.
fn tree(site: Site<'_>, directory: &str) -> Result<Vec<(String, Vec<u32>)>> {
    let mut groups = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(group) = open.pop() {
        // Any other file or directory, or a group that was removed meanwhile.
        let Some(tids) = tids(site, &group)? else { continue };
        match below(site, &group) {
            Ok(names) => open.extend(names.iter().map(|name| format!("{group}/{name}"))),
            Err(error) if error.cause == Cause::Missing => continue,
            Err(error) if error.cause == Cause::NotText => {
                let why = format!("a group in /{group} cannot be searched: its name is not UTF-8");
                return Err(site.unknown("processes", &why));
            }
            Err(error) => return Err(site.unreadable(&error)),
        }
        groups.push((group, tids));
    }
    Ok(groups)
}

/// Names in the directory of a group. An error if one that is not UTF-8, by which nothing is found, is of a group.
fn below(site: Site<'_>, group: &str) -> Result<Vec<String>, HostError> {
    let names = site.host.list(group)?;
    // Systemd's names may have backslashes of their own.
    let may_be_escaped = names.iter().any(|name| name.contains('\\'));
    if may_be_escaped && site.host.entries(group)?.iter().any(|entry| !entry.is_text && entry.inode.is_some())
    {
        return Err(HostError::new(Operation::List, group, Cause::NotText));
    }
    Ok(names)
}

/// The threads in a group itself; `None` if it is none. Version 1 leaves out those of other PID namespaces without a trace
/// (`pidlist_array_load` of kernel/cgroup/cgroup-v1.c), which only the initial one does not have.
fn tids(site: Site<'_>, group: &str) -> Result<Option<Vec<u32>>> {
    for name in THREADS {
        let path = format!("{group}/{name}");
        match site.host.read_text(&path) {
            Ok(text) => {
                let tids: Option<Vec<u32>> = text.lines().map(|line| line.parse().ok()).collect();
                let numbering = site.host.numbering().map(|own| own.map(|own| own.numbering.pid_namespace));
                let leaves_out =
                    name == VERSION_1 && !matches!(numbering, Ok(None | Some(INITIAL_PID_NAMESPACE)));
                let tids = tids.map(|tids| tids.into_iter().chain(leaves_out.then_some(HIDDEN)).collect());
                return tids.map(Some).ok_or_else(|| KnobError::broken(&path, text, "numbers of threads"));
            }
            Err(error) if error.cause == Cause::Missing => {}
            Err(error) => return Err(site.unreadable(&error)),
        }
    }
    Ok(None)
}

/// The CPUs that a group gives its threads. One without the controller, or without CPUs yet as a new one of version 1, has those
/// of the next one above.
pub(super) fn effective(site: Site<'_>, group: &str) -> Result<CpuMask> {
    let mut above = Some(group);
    while let Some(group) = above {
        for name in EFFECTIVE {
            let path = format!("{group}/{name}");
            match site.host.read_text(&path) {
                Ok(text) => match super::cpuset::list(&path, &text)? {
                    none if none.is_empty() => {}
                    cpus => return Ok(cpus),
                },
                Err(error) if error.cause == Cause::Missing => {}
                Err(error) => return Err(site.unreadable(&error)),
            }
        }
        above = group.rsplit_once('/').map(|(above, _)| above);
    }
    Err(site.unknown("CPUs", "no control group has a list of those in effect"))
}
