//! `affinity`: the CPUs that a process, a control group or a systemd unit may run on.

mod cpuset;
mod lists;
mod threads;

use super::{Doc, Knob, KnobError, Result, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::{Model, Process};
use crate::plan::Target;
use lists::{ALL, Lists};

const NAME: &str = "affinity";
const DENIED: &str = " (needs CAP_SYS_NICE for a process, and write access for a control group; in version \
                      1 a group accepts only CPUs of its parent)";

/// CPUs that an application runs on.
///
/// Of a process: sched_setaffinity(2) of each of its threads. Of a control group: `cpuset.cpus`. A process is
/// identified by its number and start time: `DeviceAddress` of the form `process:PID@START`.
pub(super) struct Affinity;

static DOC: Doc = Doc {
    name: NAME,
    summary: "Sets the CPUs that an application runs on: near the CPUs that take its packets, or away from \
              them. For a process it sets each thread, for a control group or a systemd unit the cpuset.",
    target: "`pid:N`, `cgroup:/PATH` or `unit:NAME`",
    values: "a list of CPUs; for a process also `all`; for a group or unit also `inherit`, for no CPUs of \
             its own. The value read from a process with several threads also names the threads of each \
             list: `2-5@810,812-815;0@811`",
    example: "affinity pid:812 = 2-5",
    source: "sched_setaffinity(2); Documentation/admin-guide/cgroup-v2.rst, \"Cpuset\"",
    since: "2.6; cpusets of control groups version 2 since 5.0",
    lost: "Exit of the process. A restart of the unit, which gets a new control group. A thread that sets \
           its own affinity.",
    beware: "Threads and processes started later inherit it. Undo gives threads started later the main \
             thread's list. The kernel silently drops CPUs outside the cpuset; rxlab reads back every \
             thread. Before 6.2, setting a cpuset overwrites what its threads had set for themselves, and \
             undo cannot restore that. A unit has a cpuset only if systemd has enabled the controller for \
             it.",
};

fn bad(value: &str, why: &str) -> KnobError {
    KnobError::bad(NAME, value, why.to_owned())
}

fn wrong(target: &Target) -> KnobError {
    let acts_on = "a process (pid:N), a control group (cgroup:/PATH) or a unit (unit:NAME)";
    KnobError::wrong(NAME, target, acts_on)
}

impl Knob for Affinity {
    fn doc(&self) -> &Doc {
        &DOC
    }

    // Only the processes that wait for packets.
    fn targets(&self, model: &Model) -> Vec<Target> {
        let listeners = model.listeners.known().into_iter().flatten();
        let owners = listeners.flat_map(|listener| listener.owners.known().into_iter().flatten());
        let mut targets: Vec<Target> = owners.map(|Process { pid, .. }| Target::Process(*pid)).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    fn check(&self, host: &dyn Host, model: &Model, target: &Target, value: &str) -> Result<String> {
        match (target, value) {
            (Target::Process(_), ALL) => return self.read(host, model, target).map(|_| ALL.to_owned()),
            (Target::Cgroup(_) | Target::Unit(_), cpuset::INHERIT) => {
                return cpuset::file(host, target).map(|_| cpuset::INHERIT.to_owned());
            }
            (Target::Process(_) | Target::Cgroup(_) | Target::Unit(_), _) => {}
            _ => return Err(wrong(target)),
        }
        let cpus = value::online_cpus(NAME, model, target, value)?;
        if cpus.is_empty() {
            return Err(bad(value, "expected a list of CPUs such as 2-5"));
        }
        // A process that may run on all CPUs always reads as `all`.
        let everywhere = matches!(target, Target::Process(_)) && model.online().difference(&cpus).is_empty();
        let value = if everywhere { ALL.to_owned() } else { cpus.to_string() };
        self.read(host, model, target).map(|_| value)
    }

    fn locate(&self, _model: &Model, target: &Target) -> Result<Vec<String>> {
        match target {
            Target::Process(pid) => Ok(vec![format!("proc/{pid}/task")]),
            // The directory depends on the mounts; the group's own name identifies it.
            Target::Cgroup(path) => Ok(vec![format!("sys/fs/cgroup{path}/cpuset.cpus")]),
            Target::Unit(name) => Ok(vec![format!("sys/fs/cgroup/{name}/cpuset.cpus")]),
            _ => Err(wrong(target)),
        }
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String> {
        match target {
            Target::Process(pid) => Ok(threads::read(host, model, target, *pid)?.to_string()),
            Target::Cgroup(_) | Target::Unit(_) => cpuset::read(host, target, &cpuset::file(host, target)?),
            _ => Err(wrong(target)),
        }
    }

    fn write(&self, host: &dyn Host, model: &Model, target: &Target, value: &str, _armed: &Armed) -> Result {
        match target {
            Target::Process(pid) => {
                let lists =
                    Lists::parse(value).ok_or_else(|| bad(value, "expected a list of CPUs such as 2-5"))?;
                threads::write(host, model, target, *pid, &lists)
            }
            Target::Cgroup(_) | Target::Unit(_) => {
                cpuset::write(host, target, &cpuset::file(host, target)?, value)
            }
            _ => Err(wrong(target)),
        }
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn same(&self, want: &str, got: &str) -> bool {
        match (Lists::parse(want), Lists::parse(got)) {
            (Some(want), Some(got)) => got.explained_by(&[&want]),
            _ => want == got,
        }
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!(
            "asked for {want}, the kernel kept {got}: the cpuset does not include the other CPUs, or a \
             thread has changed its own affinity"
        )
    }

    // A move that was cut short leaves some threads where they were.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let values: Vec<Lists> =
            ours.iter().chain(unsettled).filter_map(|value| Lists::parse(value)).collect();
        let values: Vec<&Lists> = values.iter().collect();
        let mixed = Lists::parse(live).is_some_and(|live| live.explained_by(&values));
        mixed || ours.iter().chain(unsettled).any(|value| value == live)
    }

    fn remark(&self, host: &dyn Host, _model: &Model, target: &Target, value: &str) -> Option<String> {
        match target {
            Target::Process(_) => None,
            _ => cpuset::remark(host, &cpuset::file(host, target).ok()?, value),
        }
    }
}

#[cfg(test)]
mod tests;
