//! The programs that measure receive time: attaching and reading.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use rustix::time::ClockId;

use super::interference::Cost;
use super::loaded::{Loaded, Missing, RarePrograms, possible_cpus};
use super::raw::{CpuRecord, Key, Reading, Record, SLOTS, irq_slot, record, victim_slot};
use super::run_time::CostSoFar;
use crate::host::{Host, clock_ns};
use crate::parse;
use crate::sample::is_napi_thread;
use crate::units::{CpuId, Fact};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/net_rx.bpf.o"));

/// The raise gives the cause of a run, as does in most cases the interrupt before it; polls likewise
/// (docs/adr/0017).
const RARE: RarePrograms = RarePrograms {
    names: &["raised", "raised_no_count", "polled_untimed"],
    map: "cpus",
    is_needed: |program, cpus| {
        let all = cpus.keys().filter_map(|key| cpus.lookup(&key, MapFlags::ANY).ok().flatten());
        is_needed(program, all.map(|bytes| record::<CpuRecord>(&bytes)))
    },
};
/// Below this number of runs every program stays attached: on a quiet machine none costs anything.
const ENOUGH_RUNS: u64 = 1_000;
/// Maximum fraction of NET_RX time where the interrupt before a run and its raise may give different causes.
const DISAGREEMENT: f64 = 0.01;

fn is_needed(program: &str, cpus: impl Iterator<Item = CpuRecord>) -> bool {
    let (mut runs, mut ns, mut differing_ns, mut outside) = (0, 0, 0, 0);
    for cpu in cpus {
        runs += cpu.compared_runs;
        ns += cpu.compared_ns;
        differing_ns += cpu.differing_ns;
        outside += cpu.busy_polls + cpu.threaded_polls;
    }
    runs < ENOUGH_RUNS
        || match program {
            "polled_untimed" => outside > 0,
            _ => differing_ns as f64 > ns as f64 * DISAGREEMENT,
        }
}

/// Attached programs.
#[derive(Debug)]
pub struct Programs {
    loaded: Loaded,
    cpus: u32,
    times_threads: bool,
}

impl Programs {
    /// Attaches the programs, or returns what is missing in one line. For a machine that is not changed: if
    /// no NAPI has a thread at the start, nothing is done at each switch between tasks.
    pub fn attach(host: &dyn Host) -> Result<Self, Missing> {
        Self::attach_with(host, may_have_threads(host))
    }

    /// The same for a machine that is changed meanwhile, so that NAPIs may get threads.
    pub fn attach_for_changes(host: &dyn Host) -> Result<Self, Missing> {
        Self::attach_with(host, true)
    }

    fn attach_with(host: &dyn Host, threads: bool) -> Result<Self, Missing> {
        let cpus = possible_cpus()?;
        let loaded = Loaded::attach(host, OBJECT, threads, RARE, |map| match map {
            "cpus" => Some(cpus),
            "irq_slots" | "victim_slots" => Some(cpus * SLOTS),
            _ => None,
        })?;
        Ok(Self { loaded, cpus, times_threads: threads })
    }

    /// True if the time of NAPI threads is measured; if not, there were none when the programs were attached.
    pub(super) fn times_threads(&self) -> bool {
        self.times_threads
    }

    /// Distinctions that this kernel does not allow.
    pub fn limits(&self) -> Vec<String> {
        self.loaded.limits()
    }

    /// Everything counted so far.
    pub fn read(&self) -> Result<Reading, libbpf_rs::Error> {
        let cpus = self.loaded.map("cpus");
        let mut by_cpu = BTreeMap::new();
        for cpu in 0..self.cpus {
            if let Some(bytes) = cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)? {
                by_cpu.insert(CpuId(cpu), record::<CpuRecord>(&bytes));
            }
        }
        Ok(Reading {
            at_ns: now_ns(),
            cpus: by_cpu,
            irqs: self.slots("irq_slots", irq_slot, self.table("irqs")?)?,
            napis: self.table("napis")?,
            victims: self.slots("victim_slots", victim_slot, self.table("victims")?)?,
        })
    }

    /// CPU time of the programs themselves since they were attached.
    pub fn cost(&self) -> Fact<Cost> {
        since_attached(self.loaded.cost())
    }

    /// The same as counted, for the difference of two moments.
    pub fn cost_so_far(&self) -> Fact<CostSoFar> {
        self.loaded.cost()
    }

    /// Records in slots, with those that found their slot taken.
    fn slots<K: Key, R: Record>(
        &self,
        name: &str,
        parse: impl Fn(u32, &[u8]) -> Option<(K, R)>,
        mut all: BTreeMap<K, R>,
    ) -> Result<BTreeMap<K, R>, libbpf_rs::Error> {
        let map = self.loaded.map(name);
        for at in 0..self.cpus * SLOTS {
            let bytes = map.lookup(&at.to_ne_bytes(), MapFlags::ANY)?;
            all.extend(bytes.and_then(|bytes| parse(at, &bytes)));
        }
        Ok(all)
    }

    fn table<K: Key, R: Record>(&self, name: &str) -> Result<BTreeMap<K, R>, libbpf_rs::Error> {
        let map = self.loaded.map(name);
        let mut all = BTreeMap::new();
        for bytes in map.keys() {
            let Some(value) = map.lookup(&bytes, MapFlags::ANY)? else { continue };
            all.insert(
                K::parse(&bytes).expect("the kernel returns keys of the map's own size"),
                record(&value),
            );
        }
        Ok(all)
    }
}

/// Unknown only when the kernel has counted nothing yet.
pub(super) fn since_attached(cost: Fact<CostSoFar>) -> Fact<Cost> {
    cost.and_then(|cost| cost.since(&CostSoFar::default()).map_or(Fact::Unsupported, Fact::Known))
}

/// True if a NAPI may have a thread, in any network namespace: all are children of kthreadd.
fn may_have_threads(host: &dyn Host) -> bool {
    let children = host.read_text("proc/2/task/2/children").ok();
    let Some(threads) = children.and_then(|text| parse::children(&text).ok()) else { return true };
    let polls =
        |pid: &u32| host.read_text(&format!("proc/{pid}/comm")).is_ok_and(|name| is_napi_thread(&name));
    threads.is_empty() || threads.iter().any(polls)
}

/// Time by the clock of the programs: CLOCK_MONOTONIC, nanoseconds.
pub(super) fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

#[cfg(test)]
mod tests {
    use super::{CpuRecord, Missing, Programs, is_needed, may_have_threads};
    use crate::host::RecordedHost;

    #[test]
    fn preemptible_softirqs_are_not_measured() {
        let host = RecordedHost::new().with("sys/kernel/realtime", "1\n");
        assert_eq!(Programs::attach(&host).err(), Some(Missing::RealTime));
    }

    #[test]
    fn a_program_runs_rarely_once_enough_runs_show_that_it_may() {
        let cpu = |runs, differing_ns, busy_polls| CpuRecord {
            compared_runs: runs,
            compared_ns: 100_000,
            differing_ns,
            busy_polls,
            ..CpuRecord::default()
        };
        let needed = |program, record| is_needed(program, [record, CpuRecord::default()].into_iter());
        for program in ["raised", "raised_no_count", "polled_untimed"] {
            assert!(needed(program, cpu(999, 0, 0)) && !needed(program, cpu(1_000, 1_000, 0)), "{program}");
        }
        assert!(needed("raised", cpu(1_000, 1_001, 0)) && !needed("polled_untimed", cpu(1_000, 1_001, 0)));
        assert!(needed("polled_untimed", cpu(1_000, 0, 1)) && !needed("raised", cpu(1_000, 0, 1)));
    }

    #[test]
    fn a_thread_of_a_napi_is_found_by_its_name() {
        let host = || {
            RecordedHost::new()
                .with("proc/2/task/2/children", "15 816 ")
                .with("proc/15/comm", "ksoftirqd/0\n")
        };
        assert!(!may_have_threads(&host()), "816 has ended");
        for name in ["napi/eth0-8193\n", "backlog_napi/1\n"] {
            assert!(may_have_threads(&host().with("proc/816/comm", name)), "{name}");
        }
        assert!(may_have_threads(&RecordedHost::new()), "no list of threads");
    }
}
