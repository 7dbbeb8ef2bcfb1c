//! The counters of one moment: CPU time, softirqs, interrupts, softnet rows, packets.

use std::collections::BTreeMap;

use super::processes::{is_cpumap_thread, ran_ns};
use super::threads::{self, ThreadsOf};
use super::throttling::{self, Throttlings};
use super::{
    Inventory, Losses, ProcessTimes, RawNic, Transport, busiest, power, queue_counts, read, socket_queues,
};
use rxlab_base::parse;
use rxlab_base::units::{CpuId, CpuMask, Fact, NicName};
use rxlab_sys::Host;

/// All counters of one moment. They only ever grow, or wrap, within one boot: they must be compared only with counters
/// of the same boot (see [`crate::model::Rates::between`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    /// CLOCK_BOOTTIME, in nanoseconds, in the middle of reading.
    pub taken_ns: u64,
    /// CPU time by mode and CPU, from `/proc/stat`. Unknown if its CPUs are not the kernel's.
    pub times: Fact<BTreeMap<CpuId, parse::CpuTimes>>,
    /// True if the times are unknown because a container sees a file of its own.
    pub is_masked: bool,
    /// `/proc/softirqs` and `/proc/net/softnet_stat` by CPU.
    pub cpus: Fact<BTreeMap<CpuId, CpuCounters>>,
    /// The reason rows of softnet_stat cannot be assigned to CPUs, if so.
    pub softnet: Fact<()>,
    /// Numbered lines of `/proc/interrupts`.
    pub interrupts: Fact<parse::Interrupts>,
    /// Packets and bytes by interface; an interface that was removed meanwhile is missing.
    pub nics: BTreeMap<NicName, NicCounters>,
    /// Entries of interrupts' CPUs into each deep idle state ([`super::DEEP_US`]), by the state's name.
    pub deep_idle: BTreeMap<CpuId, BTreeMap<String, u64>>,
    /// Run time of ksoftirqd by CPU, in nanoseconds; CPUs whose schedstat cannot be read are missing.
    pub ksoftirqd_ns: BTreeMap<CpuId, u64>,
    /// The threads that receive, by process id; those that cannot be read are missing.
    pub napi_threads: BTreeMap<u32, NapiThread>,
    /// CPU time of programs by process id. Unsupported if none is visible, as in recordings made before this
    /// was read.
    pub processes: Fact<BTreeMap<u32, ProcessTimes>>,
    /// Times of threads of the programs that used most CPU time, by process id.
    pub threads: Fact<ThreadsOf>,
    /// Public sockets with their queues, by inode; asked if programs are.
    pub sockets: Fact<BTreeMap<u64, (Transport, parse::NetSocket)>>,
    /// Throttling of the control groups of the programs that used most CPU time.
    pub throttling: Fact<Throttlings>,
    /// Packets lost behind the backlogs; asked if programs are.
    pub losses: Fact<Losses>,
}

#[cfg(any(test, feature = "testing"))]
impl Counters {
    /// Counters of which nothing could be read.
    pub fn unread(taken_ns: u64) -> Self {
        Self {
            taken_ns,
            times: Fact::Unsupported,
            is_masked: false,
            cpus: Fact::Unsupported,
            softnet: Fact::Unsupported,
            interrupts: Fact::Unsupported,
            nics: BTreeMap::new(),
            deep_idle: BTreeMap::new(),
            ksoftirqd_ns: BTreeMap::new(),
            napi_threads: BTreeMap::new(),
            processes: Fact::NotAsked,
            threads: Fact::NotAsked,
            sockets: Fact::NotAsked,
            throttling: Fact::NotAsked,
            losses: Fact::NotAsked,
        }
    }
}

/// Counters of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuCounters {
    /// Softirq runs by vector, from `/proc/softirqs`.
    pub softirqs: parse::SoftirqRuns,
    /// Its row of softnet_stat.
    pub softnet: parse::SoftnetRow,
}

impl CpuCounters {
    /// Runs of one softirq, by its number among [`parse::SOFTIRQS`].
    pub fn runs(&self, vector: u32) -> u64 {
        self.softirqs[vector as usize]
    }
}

/// A kernel thread that receives packets instead of softirqs: it polls queues, or takes what XDP programs redirect to its CPU. Its
/// time is system time, not softirq time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NapiThread {
    /// Time it ran, in nanoseconds.
    pub ran_ns: u64,
    /// The CPU it last ran on.
    pub cpu: CpuId,
    /// True if it may run on no other.
    pub is_pinned: bool,
    /// True if XDP programs redirect packets to it (cpumap): it cannot be moved.
    pub is_cpumap: bool,
}

/// Counters of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NicCounters {
    /// Packets received since the interface was created.
    pub rx_packets: u64,
    /// Bytes received since the interface was created.
    pub rx_bytes: u64,
    /// Packets sent since the interface was created.
    pub tx_packets: u64,
    /// Bytes sent since the interface was created.
    pub tx_bytes: u64,
    /// Sum of `rx_dropped` and `rx_missed_errors`.
    pub rx_dropped: u64,
    /// Counters of losses that could be read, by name: those of the interface in `statistics/`, and of the driver's own
    /// those that count losses or may, by row ([`crate::drivers::LOSSES`]) or by the words of their name.
    pub losses: BTreeMap<String, u64>,
    /// The reason that the driver's own statistics could not be read, if it has any.
    pub unread: Option<String>,
    /// Counters of each receive queue by index, if the kernel or the driver reports them.
    pub rx_queues: BTreeMap<u32, parse::QueueCounters>,
    /// Packets that limits of the host delayed or dropped, by the name of the statistic; empty if not counted.
    pub limited: BTreeMap<String, u64>,
}

impl Counters {
    /// Reads all counters of the interfaces, threads and programs in `inventory`, which must have been taken with
    /// [`super::Scope::Counters`] or more. Others are not read, so a new interface needs a new inventory.
    pub fn take(host: &dyn Host, inventory: &Inventory) -> Self {
        let before = host.now_ns();
        let times = match &inventory.masked_times {
            Some(why) => Fact::Broken(why.clone()),
            None => read::parsed(host, "proc/stat", parse::stat),
        };
        let softirqs = read::parsed(host, "proc/softirqs", parse::softirqs);
        let softnet = read::parsed(host, "proc/net/softnet_stat", parse::softnet);
        let interrupts = read::interrupts(host, parse::interrupts);
        let after = host.now_ns();
        let queues = queue_counts::by_kernel(host);
        let virtuals = VirtualNics::take(host);
        let raw = inventory.nics.known().into_iter().flatten();
        let nics =
            raw.filter_map(|raw| Some((raw.name.clone(), nic(host, raw, &virtuals, &queues)?))).collect();
        let (cpus, softnet) = per_cpu(softirqs, softnet, online(&interrupts, &times).as_ref());
        let taken_ns = before + (after - before) / 2;
        let processes = busiest::times(host, inventory);
        Self {
            taken_ns,
            times,
            is_masked: inventory.masked_times.is_some(),
            cpus,
            softnet,
            interrupts,
            nics,
            deep_idle: power::deep_entries(host, inventory),
            ksoftirqd_ns: ksoftirqd(host, inventory),
            napi_threads: napi_threads(host, inventory),
            threads: processes.clone().and_then(|programs| threads::times(host, &programs, taken_ns)),
            sockets: inventory.programs.clone().and_then(|_| socket_queues::take(host)),
            losses: losses(host, inventory),
            throttling: processes.clone().and_then(|programs| throttling::take(host, &programs, taken_ns)),
            processes,
        }
    }
}

/// Joins the two sources by CPU. Rows of old kernels name no CPU: they are those of the online CPUs, in order
/// (`softnet_seq_start`). `/proc/softirqs` lists all possible CPUs.
fn per_cpu(
    softirqs: Fact<BTreeMap<CpuId, parse::SoftirqRuns>>,
    softnet: Fact<Vec<parse::SoftnetRow>>,
    online: Option<&CpuMask>,
) -> (Fact<BTreeMap<CpuId, CpuCounters>>, Fact<()>) {
    let cpus = softirqs.map(|softirqs| {
        let count = |(cpu, softirqs)| (cpu, CpuCounters { softirqs, ..CpuCounters::default() });
        softirqs.into_iter().map(count).collect()
    });
    let Fact::Known(mut cpus): Fact<BTreeMap<CpuId, CpuCounters>> = cpus else {
        return (cpus, softnet.map(|_| ()));
    };
    let softnet = softnet.parse(|rows| {
        let unnamed = rows.iter().any(|row| row.cpu.is_none());
        let in_order: Vec<CpuId> = online.filter(|_| unnamed).into_iter().flat_map(CpuMask::iter).collect();
        if unnamed && rows.len() != in_order.len() {
            let rows = rows.len();
            return Err(format!(
                "/proc/net/softnet_stat: {rows} rows without a CPU number, {} online CPUs",
                in_order.len()
            ));
        }
        for (position, row) in rows.iter().enumerate() {
            if let Some(cpu) = row.cpu.or_else(|| in_order.get(position).copied()) {
                cpus.entry(cpu).or_default().softnet = *row;
            }
        }
        Ok(())
    });
    (Fact::Known(cpus), softnet)
}

/// The online CPUs, as two files list them.
fn online(
    interrupts: &Fact<parse::Interrupts>,
    times: &Fact<BTreeMap<CpuId, parse::CpuTimes>>,
) -> Option<CpuMask> {
    let by_times = || Some(times.known()?.keys().copied().collect());
    interrupts.known().map(|interrupts| interrupts.cpus.clone()).or_else(by_times)
}

/// Counters of virtual interfaces from one file: there may be thousands, with six files each. Devices have counters of
/// their rings as well, which only files of their own have.
pub(super) struct VirtualNics(Fact<BTreeMap<NicName, parse::NetDevRow>>);

impl VirtualNics {
    pub(super) fn take(host: &dyn Host) -> Self {
        Self(read::parsed(host, "proc/net/dev", parse::net_dev))
    }

    /// The counters of a virtual interface; `None` for a device, or if the file lacks it.
    fn get(&self, raw: &RawNic) -> Option<&parse::NetDevRow> {
        self.0.known().filter(|_| raw.is_virtual())?.get(&raw.name)
    }

    /// `rx_dropped` + `rx_missed_errors` of an interface.
    pub(super) fn dropped(&self, host: &dyn Host, raw: &RawNic) -> Option<u64> {
        if let Some(row) = self.get(raw) {
            return Some(row.rx_dropped);
        }
        let [missed, dropped] = ["rx_missed_errors", "rx_dropped"].map(|file| statistic(host, raw, file));
        Some(missed?.saturating_add(dropped?))
    }
}

fn statistic(host: &dyn Host, raw: &RawNic, file: &str) -> Option<u64> {
    read::number(host, &format!("sys/class/net/{}/statistics/{file}", raw.name)).known().copied()
}

/// Counters of a device's losses below `statistics/` (include/uapi/linux/if_link.h). Drivers differ in the one for packets without a
/// buffer (igb: `rx_fifo_errors`), and `rx_dropped` may contain it (ena); the stack adds what it drops at a backlog and what
/// no protocol takes.
pub(crate) const DEVICE_LOSSES: [&str; 4] =
    ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

/// Counters of frames that arrived damaged, or not as frames, next to those. Every kernel has them; older recordings do not.
pub(crate) const DEVICE_ERRORS: [&str; 4] =
    ["rx_errors", "rx_crc_errors", "rx_frame_errors", "rx_length_errors"];

/// Those of virtual interfaces, also in `/proc/net/dev`: packets that a veth could not give to its other end are in
/// `tx_dropped`.
pub(crate) const VIRTUAL_LOSSES: [&str; 2] = ["rx_dropped", "tx_dropped"];

fn nic(
    host: &dyn Host,
    raw: &RawNic,
    virtuals: &VirtualNics,
    queues: &queue_counts::ByKernel,
) -> Option<NicCounters> {
    let queue_counts::Counted { rx_queues, limited, losses: of_driver, unread } =
        queue_counts::counted(host, raw, queues);
    if let Some(row) = virtuals.get(raw) {
        let parse::NetDevRow { rx_bytes, rx_packets, rx_dropped, tx_bytes, tx_packets, tx_dropped } = *row;
        let losses = VIRTUAL_LOSSES.map(str::to_owned).into_iter().zip([rx_dropped, tx_dropped]);
        let losses = losses.collect();
        return Some(NicCounters {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            rx_dropped,
            losses,
            unread,
            rx_queues,
            limited,
        });
    }
    let count = |file: &str| statistic(host, raw, file);
    let rx_dropped = virtuals.dropped(host, raw)?;
    // Recordings made before one was read do not have it.
    let files: &[&[&str]] =
        if raw.is_virtual() { &[&VIRTUAL_LOSSES] } else { &[&DEVICE_LOSSES, &DEVICE_ERRORS] };
    let losses = files.iter().copied().flatten().filter_map(|file| Some(((*file).to_owned(), count(file)?)));
    Some(NicCounters {
        rx_packets: count("rx_packets")?,
        rx_bytes: count("rx_bytes")?,
        tx_packets: count("tx_packets")?,
        tx_bytes: count("tx_bytes")?,
        rx_dropped,
        losses: losses.chain(of_driver).collect(),
        unread,
        rx_queues,
        limited,
    })
}

/// Asked if programs are, whether any is visible or not.
fn losses(host: &dyn Host, inventory: &Inventory) -> Fact<Losses> {
    if inventory.programs == Fact::NotAsked {
        return Fact::NotAsked;
    }
    let nics = inventory.nics.known().map(Vec::as_slice).unwrap_or_default();
    Fact::Known(Losses::take(host, nics, inventory.settings.nf_conntrack_max.known().is_some()))
}

fn ksoftirqd(host: &dyn Host, inventory: &Inventory) -> BTreeMap<CpuId, u64> {
    let threads = inventory.ksoftirqd.known().into_iter().flatten();
    threads.filter_map(|(cpu, pid)| Some((*cpu, ran_ns(host, *pid)?))).collect()
}

fn napi_threads(host: &dyn Host, inventory: &Inventory) -> BTreeMap<u32, NapiThread> {
    let threads = inventory.napi_threads.known().into_iter().flatten();
    threads
        .filter_map(|pid| {
            let stat = host.read_text(&format!("proc/{pid}/stat")).ok()?;
            let cpu = parse::last_cpu(&stat).ok()?;
            let is_cpumap = parse::process_stat(&stat).is_ok_and(|stat| is_cpumap_thread(&stat.command));
            let allowed = read::parsed(host, &format!("proc/{pid}/status"), parse::allowed_cpus);
            let is_pinned = allowed.known().is_some_and(|cpus| cpus.len() == 1);
            Some((*pid, NapiThread { ran_ns: ran_ns(host, *pid)?, cpu, is_pinned, is_cpumap }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Counters, CpuCounters, per_cpu};
    use crate::sample::{Inventory, Scope};
    use rxlab_base::parse::{self, SoftnetRow};
    use rxlab_base::units::{CpuId, CpuMask, Fact};
    use rxlab_sys::RecordedHost;

    fn softirqs() -> Fact<BTreeMap<CpuId, parse::SoftirqRuns>> {
        Fact::Known(parse::softirqs("CPU0 CPU1\nNET_TX: 1 2\nNET_RX: 3 4\n").expect("valid"))
    }

    /// Drivers differ in the name for packets without a buffer. `rx_dropped` is not one: the stack adds drops
    /// at a full backlog.
    #[test]
    fn losses_by_driver() {
        let counted = |driver: &str, fifo: bool| {
            let base = "sys/class/net/eth0";
            let mut host = RecordedHost::new()
                .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
                .with_link(&format!("{base}/device/driver"), &format!("../../bus/pci/drivers/{driver}"));
            let files = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_missed_errors"];
            for (file, value) in files.map(|file| (file, 3)).into_iter().chain([("rx_dropped", 40)]) {
                host = host.with(&format!("{base}/statistics/{file}"), format!("{value}\n"));
            }
            if fifo {
                host = host.with(&format!("{base}/statistics/rx_fifo_errors"), "70\n");
            }
            let inventory = Inventory::take(&host, Scope::Counters);
            let mut counters = Counters::take(&host, &inventory);
            let nic = counters.nics.remove(&"eth0".parse().expect("a name")).expect("counted");
            let losses = ["rx_missed_errors", "rx_fifo_errors"].map(|name| nic.losses.get(name).copied());
            (nic.rx_dropped, losses)
        };
        assert_eq!(counted("igb", true), (43, [Some(3), Some(70)]));
        assert_eq!(counted("ena", true), (43, [Some(3), Some(70)]));
        assert_eq!(counted("igb", false), (43, [Some(3), None]), "an old recording");
    }

    /// `/proc/net/dev` counts virtual interfaces; one that it lacks, and devices, have files.
    #[test]
    fn virtual_interfaces_are_counted_by_one_file() {
        let files = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_missed_errors", "rx_dropped"];
        let row = |name: &str| format!("{name}: 20 2 0 5 0 0 0 0 40 4 0 0 0 0 0 0\n");
        let mut host = RecordedHost::new()
            .with("proc/net/dev", ["Inter-\n face\n".to_owned(), row("veth0"), row("eth0")].concat());
        for (name, place) in [("eth0", "pci0000:00/0000:00:03.0"), ("veth0", "virtual"), ("veth1", "virtual")]
        {
            host = host
                .with_link(&format!("sys/class/net/{name}"), &format!("../../devices/{place}/net/{name}"));
            for file in files {
                host = host.with(&format!("sys/class/net/{name}/statistics/{file}"), "7\n");
            }
        }
        let counters = Counters::take(&host, &Inventory::take(&host, Scope::Counters));
        let counted = counters.nics.values().map(|nic| (nic.rx_packets, nic.rx_dropped, nic.tx_bytes));
        assert_eq!(counted.collect::<Vec<_>>(), [(7, 14, 7), (2, 5, 40), (7, 14, 7)]);
    }

    fn cpus(list: &str) -> CpuMask {
        list.parse().expect("a list")
    }

    #[test]
    fn named_rows_go_to_their_cpu() {
        let row = SoftnetRow { cpu: Some(CpuId(1)), processed: 9, ..SoftnetRow::default() };
        let (cpus, softnet) = per_cpu(softirqs(), Fact::Known(vec![row]), None);
        assert_eq!(softnet, Fact::Known(()));
        let cpus = cpus.known().expect("known").clone();
        assert_eq!(cpus[&CpuId(1)], CpuCounters { softirqs: [0, 0, 2, 4, 0, 0, 0, 0, 0, 0], softnet: row });
        assert_eq!(cpus[&CpuId(0)].softnet.processed, 0);
    }

    /// With more possible than online CPUs, packets by CPU were unknown and shown as 0.
    #[test]
    fn unnamed_rows_are_the_online_cpus_in_order() {
        let row = |processed| SoftnetRow { processed, ..SoftnetRow::default() };
        let rows = || Fact::Known(vec![row(7), row(9)]);
        let packets = |online: &str| {
            let softirqs =
                parse::softirqs("CPU0 CPU1 CPU2 CPU3\nNET_TX: 1 2 3 4\nNET_RX: 3 4 5 6\n").expect("valid");
            let (counted, softnet) = per_cpu(Fact::Known(softirqs), rows(), Some(&cpus(online)));
            let counted = counted.known().expect("known").clone();
            softnet.known().map(|()| counted.values().map(|cpu| cpu.softnet.processed).collect::<Vec<_>>())
        };
        assert_eq!(packets("0-1"), Some(vec![7, 9, 0, 0]));
        assert_eq!(packets("1,3"), Some(vec![0, 7, 0, 9]));
        assert_eq!(packets("0-3"), None, "two rows for four CPUs");
        let (_, softnet) = per_cpu(softirqs(), rows(), None);
        assert!(matches!(softnet, Fact::Broken(_)), "which are online is unknown");
    }
}
