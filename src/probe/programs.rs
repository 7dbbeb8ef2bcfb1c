//! The programs that measure receive time: attached, read.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use rustix::time::{ClockId, clock_gettime};

use super::loaded::{Loaded, Missing, possible_cpus};
use super::raw::{CpuRecord, Reading, Record, key};
use super::steal::Cost;
use crate::host::Host;
use crate::units::{CpuId, Fact};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/net_rx.bpf.o"));

/// Attached programs.
#[derive(Debug)]
pub struct Programs {
    loaded: Loaded,
    cpus: u32,
}

impl Programs {
    /// Attaches the programs, or says in one line what is missing.
    pub fn attach(host: &dyn Host) -> Result<Self, Missing> {
        let cpus = possible_cpus()?;
        let loaded = Loaded::attach(host, OBJECT, |map| (map == "cpus").then_some(cpus))?;
        Ok(Self { loaded, cpus })
    }

    /// The same, or nothing at all where that is wanted.
    pub(super) fn attach_unless(unwanted: bool, host: &dyn Host) -> Result<Option<Self>, Missing> {
        if unwanted { Ok(None) } else { Self::attach(host).map(Some) }
    }

    /// What this kernel does not let the probe tell apart.
    pub fn limits(&self) -> Vec<String> {
        self.loaded.limits()
    }

    /// Everything that was counted so far.
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
            irqs: self.table("irqs")?,
            napis: self.table("napis")?,
            victims: self.table("victims")?,
        })
    }

    /// CPU time of the programs themselves, since they were attached.
    pub fn cost(&self) -> Fact<Cost> {
        self.loaded.cost()
    }

    fn table<R: Record>(&self, name: &str) -> Result<BTreeMap<(CpuId, u32), R>, libbpf_rs::Error> {
        let map = self.loaded.map(name);
        let mut all = BTreeMap::new();
        for bytes in map.keys() {
            let Some(value) = map.lookup(&bytes, MapFlags::ANY)? else { continue };
            all.insert(key(&bytes).expect("a key has 8 bytes"), record(&value));
        }
        Ok(all)
    }
}

/// The clock that the programs read: CLOCK_MONOTONIC, nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts from the start of the machine: neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn record<R: Record>(bytes: &[u8]) -> R {
    R::parse(bytes).expect("the kernel gives values of the map's own size")
}

#[cfg(test)]
mod tests {
    use super::{Missing, Programs};
    use crate::host::RecordedHost;

    #[test]
    fn preemptible_softirqs_are_not_measured() {
        let host = RecordedHost::new().with("sys/kernel/realtime", "1\n");
        assert_eq!(Programs::attach(&host).err(), Some(Missing::RealTime));
    }
}
