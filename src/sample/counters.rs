//! The counters of one moment: CPU time, softirqs, interrupts, softnet rows, packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Inventory, ProcessTimes, RawNic, busiest, queue_counts, read};
use crate::host::Host;
use crate::parse;
use crate::units::{CpuId, Fact, NicName};

/// All counters of one moment. They only ever grow, or wrap, within one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// CLOCK_BOOTTIME, in nanoseconds, in the middle of the reading.
    pub taken_ns: u64,
    /// `/proc/stat` by CPU.
    pub times: Fact<BTreeMap<CpuId, parse::CpuTimes>>,
    /// `/proc/softirqs` and `/proc/net/softnet_stat` by CPU.
    pub cpus: Fact<BTreeMap<CpuId, CpuCounters>>,
    /// Why rows of softnet_stat cannot be told apart, if so.
    pub softnet: Fact<()>,
    /// `/proc/interrupts`, numbered lines.
    pub interrupts: Fact<parse::Interrupts>,
    /// Packets and bytes by interface; an interface that went away in between is missing.
    pub nics: BTreeMap<NicName, NicCounters>,
    /// Run time of ksoftirqd by CPU, in nanoseconds; CPUs whose schedstat cannot be read are missing.
    pub ksoftirqd_ns: BTreeMap<CpuId, u64>,
    /// CPU time of programs by process id. Unsupported where not one can be seen, as in recordings from
    /// before this was read.
    #[serde(default)]
    pub processes: Fact<BTreeMap<u32, ProcessTimes>>,
}

/// Counters of one CPU. The softnet ones are 32 bits wide and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuCounters {
    /// NET_RX softirq runs.
    pub net_rx: u64,
    /// NET_TX softirq runs.
    pub net_tx: u64,
    /// Packets that went up the stack.
    pub processed: u32,
    /// Backlog drops.
    pub dropped: u32,
    /// Stops on the budget.
    pub time_squeeze: u32,
    /// RPS inter-processor interrupts received.
    pub received_rps: u32,
}

/// Counters of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NicCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// `rx_dropped` + `rx_missed_errors`.
    pub rx_dropped: u64,
    /// `rx_missed_errors`: packets that the device had no buffer for, its ring being full (if_link.h).
    #[serde(default)]
    pub rx_missed: u64,
    /// What each receive queue counted, by index, where the kernel or the driver tells.
    pub rx_queues: BTreeMap<u32, parse::QueueCounters>,
}

impl Counters {
    /// Reads all counters. `inventory` says which interfaces, threads and programs to read: it was taken with
    /// [`super::Scope::Counters`] or more.
    pub fn take(host: &dyn Host, inventory: &Inventory) -> Self {
        let before = host.now_ns();
        let times = read::parsed(host, "proc/stat", parse::stat).map(|stat| stat.cpus);
        let softirqs = read::parsed(host, "proc/softirqs", parse::softirqs);
        let softnet = read::parsed(host, "proc/net/softnet_stat", parse::softnet);
        let interrupts = read::parsed(host, "proc/interrupts", parse::interrupts);
        let after = host.now_ns();
        let queues = queue_counts::by_kernel(host);
        let raw = inventory.nics.known().into_iter().flatten();
        let nics = raw.filter_map(|raw| Some((raw.name.clone(), nic(host, raw, &queues)?))).collect();
        let (cpus, softnet) = per_cpu(softirqs, softnet);
        Self {
            taken_ns: before + (after - before) / 2,
            times,
            cpus,
            softnet,
            interrupts,
            nics,
            ksoftirqd_ns: ksoftirqd(host, inventory),
            processes: busiest::times(host, inventory),
        }
    }
}

/// Joins the two sources by CPU. Rows of old kernels say no CPU; they are matched by position only
/// when there is exactly one row for each CPU of /proc/softirqs, which lists all possible CPUs.
fn per_cpu(
    softirqs: Fact<parse::Softirqs>,
    softnet: Fact<Vec<parse::SoftnetRow>>,
) -> (Fact<BTreeMap<CpuId, CpuCounters>>, Fact<()>) {
    let cpus = softirqs.map(|softirqs| {
        let count = |cpu, net_rx| {
            let net_tx = softirqs.net_tx.get(cpu).copied().unwrap_or_default();
            (*cpu, CpuCounters { net_rx, net_tx, ..CpuCounters::default() })
        };
        softirqs.net_rx.iter().map(|(cpu, net_rx)| count(cpu, *net_rx)).collect()
    });
    let Fact::Known(mut cpus): Fact<BTreeMap<CpuId, CpuCounters>> = cpus else {
        return (cpus, softnet.map(|_| ()));
    };
    let softnet = softnet.parse(|rows| {
        let by_position: Vec<CpuId> = cpus.keys().copied().collect();
        let unnamed = rows.iter().any(|row| row.cpu.is_none());
        if unnamed && rows.len() != by_position.len() {
            return Err(format!("/proc/net/softnet_stat: {} rows that name no CPU", rows.len()));
        }
        for (row, position) in rows.iter().zip(by_position.iter().chain(std::iter::repeat(&CpuId(0)))) {
            let cpu = cpus.entry(row.cpu.unwrap_or(*position)).or_default();
            cpu.processed = row.processed;
            cpu.dropped = row.dropped;
            cpu.time_squeeze = row.time_squeeze;
            cpu.received_rps = row.received_rps;
        }
        Ok(())
    });
    (Fact::Known(cpus), softnet)
}

fn nic(host: &dyn Host, raw: &RawNic, queues: &queue_counts::ByKernel) -> Option<NicCounters> {
    let count = |file: &str| -> Option<u64> {
        read::number(host, &format!("sys/class/net/{}/statistics/{file}", raw.name)).known().copied()
    };
    let rx_missed = count("rx_missed_errors")?;
    Some(NicCounters {
        rx_packets: count("rx_packets")?,
        rx_bytes: count("rx_bytes")?,
        tx_packets: count("tx_packets")?,
        tx_bytes: count("tx_bytes")?,
        rx_dropped: count("rx_dropped")?.saturating_add(rx_missed),
        rx_missed,
        rx_queues: queue_counts::of(host, raw, queues),
    })
}

fn ksoftirqd(host: &dyn Host, inventory: &Inventory) -> BTreeMap<CpuId, u64> {
    let threads = inventory.ksoftirqd.known().into_iter().flatten();
    threads
        .filter_map(|(cpu, pid)| {
            let ran = read::parsed(host, &format!("proc/{pid}/schedstat"), parse::on_cpu_ns);
            ran.known().map(|ns| (*cpu, *ns))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CpuCounters, per_cpu};
    use crate::parse::{self, SoftnetRow};
    use crate::units::{CpuId, Fact};

    fn softirqs() -> Fact<parse::Softirqs> {
        Fact::Known(parse::softirqs("CPU0 CPU1\nNET_TX: 1 2\nNET_RX: 3 4\n").expect("valid"))
    }

    #[test]
    fn named_rows_go_to_their_cpu() {
        let row = SoftnetRow { cpu: Some(CpuId(1)), processed: 9, ..SoftnetRow::default() };
        let (cpus, softnet) = per_cpu(softirqs(), Fact::Known(vec![row]));
        assert_eq!(softnet, Fact::Known(()));
        let cpus = cpus.known().expect("known").clone();
        assert_eq!(
            cpus[&CpuId(1)],
            CpuCounters { net_rx: 4, net_tx: 2, processed: 9, ..CpuCounters::default() }
        );
        assert_eq!(cpus[&CpuId(0)].processed, 0);
    }

    #[test]
    fn unnamed_rows_count_only_when_every_cpu_has_one() {
        let row = SoftnetRow { processed: 9, ..SoftnetRow::default() };
        let (_, softnet) = per_cpu(softirqs(), Fact::Known(vec![row]));
        assert!(matches!(softnet, Fact::Broken(_)));
        let (cpus, softnet) = per_cpu(softirqs(), Fact::Known(vec![row, row]));
        assert_eq!(softnet, Fact::Known(()));
        assert_eq!(cpus.known().expect("known")[&CpuId(1)].processed, 9);
    }
}
