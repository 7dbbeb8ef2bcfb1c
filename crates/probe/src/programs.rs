//! The programs that measure receive time: attaching and reading.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use rustix::time::ClockId;

use super::interference::Cost;
use super::loaded::{Loaded, Missing, RarePrograms, possible_cpus};
use super::raw::{CpuRecord, Key, Reading, Record, SLOTS, irq_slot, record, victim_slot};
use super::run_time::CostSoFar;
use rxlab_base::parse;
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::sample::is_napi_thread;
use rxlab_sys::{Host, clock_ns};

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

/// The programs of the exact tier, attached until dropped.
#[derive(Debug)]
pub struct Programs {
    loaded: Loaded,
    cpus: u32,
    times_threads: bool,
}

impl Programs {
    /// Attaches the programs, or returns what is missing in one line. Must be used only for a machine that nothing
    /// changes meanwhile: if no NAPI has a thread at the start, nothing is done at each switch between tasks.
    pub fn attach(host: &dyn Host) -> Result<Self, Missing> {
        Self::attach_with(host, may_have_threads(host))
    }

    /// Like [`Programs::attach`]; must be used where settings change meanwhile, so that NAPIs may get threads.
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
        Ok(undisturbed(|| self.read_once())?.parse())
    }

    /// The maps one after the other, as they are.
    fn read_once(&self) -> Result<Maps, libbpf_rs::Error> {
        let at_ns = now_ns();
        let mut maps = Maps {
            at_ns,
            took_ns: 0,
            cpus: self.array("cpus", self.cpus)?,
            victim_slots: self.array("victim_slots", self.cpus * SLOTS)?,
            victims: self.table("victims")?,
            irq_slots: self.array("irq_slots", self.cpus * SLOTS)?,
            irqs: self.table("irqs")?,
            napis: self.table("napis")?,
        };
        maps.took_ns = now_ns() - at_ns;
        Ok(maps)
    }

    /// CPU time of the programs themselves since they were attached.
    pub fn cost(&self) -> Fact<Cost> {
        since_attached(self.loaded.cost())
    }

    /// The same as counted, for the difference of two moments.
    pub fn cost_so_far(&self) -> Fact<CostSoFar> {
        self.loaded.cost()
    }

    /// The values of an array, by one system call.
    fn array(&self, name: &str, entries: u32) -> Result<Vec<Vec<u8>>, libbpf_rs::Error> {
        let map = self.loaded.map(name);
        let values = map.lookup_batch(entries, MapFlags::ANY, MapFlags::ANY)?;
        let values: Vec<Vec<u8>> = values.map(|(_, value)| value).collect();
        // The iterator ends at an error, and does not return it.
        if values.len() == entries as usize {
            Ok(values)
        } else {
            Err(std::io::Error::last_os_error().into())
        }
    }

    fn table(&self, name: &str) -> Result<Entries, libbpf_rs::Error> {
        let map = self.loaded.map(name);
        let mut all = Entries::new();
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY)?;
            all.extend(value.map(|value| (key, value)));
        }
        Ok(all)
    }
}

/// Keys and values of a table.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Contents of the maps at one moment.
#[derive(Default)]
struct Maps {
    /// CLOCK_MONOTONIC in nanoseconds, before the first map was read.
    at_ns: u64,
    /// Nanoseconds from the first map to the last.
    took_ns: u64,
    cpus: Vec<Vec<u8>>,
    victim_slots: Vec<Vec<u8>>,
    victims: Entries,
    irq_slots: Vec<Vec<u8>>,
    irqs: Entries,
    napis: Entries,
}

impl Maps {
    fn parse(&self) -> Reading {
        let cpus = (0..).map(CpuId).zip(self.cpus.iter().map(|bytes| record(bytes)));
        Reading {
            at_ns: self.at_ns,
            cpus: cpus.collect(),
            irqs: with_slots(&self.irqs, &self.irq_slots, irq_slot),
            napis: with_slots(&self.napis, &[], |_, _| None),
            victims: with_slots(&self.victims, &self.victim_slots, victim_slot),
        }
    }
}

/// Most attempts at a reading that nothing interrupts.
const ATTEMPTS: u32 = 3;
/// A reading that takes longer was interrupted, or is of a machine with hundreds of CPUs.
const UNDISTURBED_NS: u64 = 1_000_000;

/// The programs count on meanwhile: in a reading that another task interrupted, the times of the CPUs and those of
/// the processes are milliseconds apart.
fn undisturbed<E>(mut read: impl FnMut() -> Result<Maps, E>) -> Result<Maps, E> {
    let mut shortest = read()?;
    for _ in 1..ATTEMPTS {
        if shortest.took_ns <= UNDISTURBED_NS {
            break;
        }
        let again = read()?;
        if again.took_ns < shortest.took_ns {
            shortest = again;
        }
    }
    Ok(shortest)
}

/// Records in slots, with those that found their slot taken.
fn with_slots<K: Key, R: Record>(
    table: &Entries,
    slots: &[Vec<u8>],
    parse: impl Fn(u32, &[u8]) -> Option<(K, R)>,
) -> BTreeMap<K, R> {
    let key = |bytes: &[u8]| K::parse(bytes).expect("the kernel returns keys of the map's own size");
    let table = table.iter().map(|(bytes, value)| (key(bytes), record(value)));
    table.chain((0..).zip(slots).filter_map(|(at, bytes)| parse(at, bytes))).collect()
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
    use std::convert::Infallible;

    use super::{CpuRecord, Maps, Missing, Programs, is_needed, may_have_threads, undisturbed};
    use rxlab_sys::RecordedHost;

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

    #[test]
    fn an_interrupted_reading_is_taken_again() {
        let taken = |lengths: &[u64]| {
            let mut left = lengths.iter().map(|us| us * 1_000);
            let read =
                || Ok::<_, Infallible>(Maps { took_ns: left.next().expect("no more"), ..Maps::default() });
            let Ok(chosen) = undisturbed(read);
            (chosen.took_ns / 1_000, left.len())
        };
        assert_eq!(taken(&[900, 100]), (900, 1));
        assert_eq!(taken(&[5_000, 700, 100]), (700, 1));
        assert_eq!(taken(&[5_000, 4_000, 6_000]), (4_000, 0));
    }
}
