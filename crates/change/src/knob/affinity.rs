//! `affinity`: the CPUs that a process, a control group or a systemd unit may run on.

mod cpuset;
mod heirs;
mod lists;
mod members;
mod threads;

use cpuset::NoGroup;
pub(crate) use cpuset::{directory, directory_and_path};
pub(crate) use members::has_napi_thread;

use super::{Knob, Parts, Result, Site};
use crate::journal::{Armed, Part};
pub(crate) use lists::ALL;
use lists::Lists;
use rxlab_path::model::{Model, Process};
use rxlab_setting::Target;
use rxlab_sys::Host;
pub(super) use threads::{cpus as thread_cpus, move_to as move_thread};

const DENIED: &str = " (needs CAP_SYS_NICE for a process, and write access for a control group; in version \
                      1 a group accepts only CPUs of its parent)";

/// True if a thread of process `pid` has its CPUs from the control group or unit `target`, as in it or in a group below it.
pub(crate) fn is_in_group(host: &dyn Host, model: &Model, target: &Target, pid: u32) -> Result<bool> {
    // One that has lost the controller gives none.
    if let Err(NoGroup::NoCpuset) = directory(host, target) {
        return Ok(false);
    }
    let site = Affinity.site(host, model, target);
    members::has_process(site, cpuset::directory_of(&cpuset::file(site)?), pid)
}

/// CPUs that an application runs on.
///
/// Of a process: sched_setaffinity(2) of each of its threads. Of a control group: `cpuset.cpus`. A process is
/// identified by its number and start time: `DeviceAddress` of the form `process:PID@START`.
pub(super) struct Affinity;

const EXPECTED: &str = "expected a list of CPUs such as 2-5";
const ACTS_ON: &str = "a process (pid:N), a control group (cgroup:/PATH) or a unit (unit:NAME)";

impl Knob for Affinity {
    fn name(&self) -> &'static str {
        "affinity"
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

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let list = || {
            let cpus = site.online_cpus(value)?;
            if cpus.is_empty() { Err(site.bad(value, EXPECTED)) } else { Ok(cpus) }
        };
        match (site.target, value) {
            (Target::Process(pid), _) => {
                threads::check_kind(site, *pid)?;
                let value = if value == ALL { ALL.to_owned() } else { threads::text(site, &list()?)? };
                threads::check(site, *pid, &value).map(|()| value)
            }
            (Target::Cgroup(_) | Target::Unit(_), _) => {
                let value = if value == cpuset::INHERIT { value.to_owned() } else { list()?.to_string() };
                cpuset::check(site, &value).map(|()| value)
            }
            _ => Err(site.wrong(ACTS_ON)),
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        match site.target {
            Target::Process(pid) => Ok(threads::read(site, *pid)?.to_string()),
            Target::Cgroup(_) | Target::Unit(_) => cpuset::read(site, &cpuset::file(site)?),
            _ => Err(site.wrong(ACTS_ON)),
        }
    }

    fn write(&self, site: Site<'_>, value: &str, armed: &Armed) -> Result {
        match site.target {
            Target::Process(pid) => {
                let lists = Lists::parse(value).ok_or_else(|| site.bad(value, EXPECTED))?;
                threads::write(site, *pid, &lists)
            }
            Target::Cgroup(_) | Target::Unit(_) => cpuset::write(site, value, armed),
            _ => Err(site.wrong(ACTS_ON)),
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

    fn parts(&self, _site: Site<'_>, original: &str, ours: &[String], live: &str) -> Option<Parts> {
        let ours: Vec<Lists> = ours.iter().filter_map(|value| Lists::parse(value)).collect();
        Lists::parse(live)?.parts(&Lists::parse(original)?, &ours.iter().collect::<Vec<_>>())
    }

    fn inherited(&self, site: Site<'_>, original: &str, ours: &[String], since_ns: u64) -> Result<Vec<Part>> {
        match (site.target, Lists::parse(original)) {
            (Target::Process(pid), Some(original)) => {
                let ours: Vec<Lists> = ours.iter().filter_map(|value| Lists::parse(value)).collect();
                heirs::find(site, *pid, (&original, &ours), since_ns)
            }
            // A group gives its list to processes that are in it, whoever started them.
            _ => Ok(Vec::new()),
        }
    }

    fn remark(&self, site: Site<'_>, value: &str) -> Option<String> {
        match site.target {
            Target::Process(_) => None,
            _ => cpuset::remark(site.host, &cpuset::file(site).ok()?, value),
        }
    }
}

#[cfg(test)]
mod tests;
