//! The true state of a machine: where each interrupt is, and what each CPU receives. Nothing here comes from rxlab.

use std::collections::BTreeMap;
use std::fmt;

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::drivers::facts;

use super::drivers::{DRIVERS, Driver, Name, Named};
use super::losses::Loss;

/// Kernels whose files and answers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    /// No netdev netlink, RSS by ioctl; mlx5 shows each queue twice.
    V5_15,
    /// The same without the second queues.
    V6_1,
    /// Tells queues and NAPIs, and RSS over netlink.
    V6_8,
    /// Also counts packets by queue, and has a default RPS mask.
    V6_18,
}

impl Kernel {
    pub(crate) const ALL: [Self; 4] = [Self::V5_15, Self::V6_1, Self::V6_8, Self::V6_18];

    pub(crate) fn release(self) -> &'static str {
        match self {
            Self::V5_15 => "5.15.0-119-generic",
            Self::V6_1 => "6.1.0-40-amd64",
            Self::V6_8 => "6.8.0-45-generic",
            Self::V6_18 => "6.18.44",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cpu {
    pub(crate) id: CpuId,
    pub(crate) node: u32,
    /// Number of its core, unique on the machine.
    pub(crate) core: u32,
    /// CPUs with the same number share a last-level cache.
    pub(crate) cache: u32,
    pub(crate) online: bool,
    pub(crate) isolated: bool,
    /// `cpu_capacity`, if the machine has CPUs of several speeds.
    pub(crate) capacity: Option<u32>,
    /// Part of the time that receiving leaves which programs use.
    pub(crate) program: f64,
}

/// One interrupt, of a queue or of the device itself.
#[derive(Debug, Clone)]
pub(crate) struct Irq {
    pub(crate) number: u32,
    pub(crate) action: String,
    pub(crate) affinity: CpuMask,
    /// The CPU that takes it.
    pub(crate) lands: CpuId,
}

#[derive(Debug, Clone)]
pub(crate) struct Rx {
    /// Its interrupt among those of the device; none with Hyper-V.
    pub(crate) irq: Option<usize>,
    /// The CPU that Hyper-V signals.
    pub(crate) signal: Option<CpuId>,
    /// The mask that applies to its packets.
    pub(crate) rps: CpuMask,
    pub(crate) flows: u32,
    /// Packets received per second.
    pub(crate) packets: f64,
    /// Interrupts per second.
    pub(crate) interrupts: f64,
}

/// Interrupts per packet, and runs of NET_RX.
pub(crate) const INTERRUPTS: f64 = 0.3;

#[derive(Debug, Clone)]
pub(crate) struct Tx {
    /// Its own interrupt, if it has one.
    pub(crate) irq: Option<usize>,
    pub(crate) xps: CpuMask,
}

/// Source that counts the packets of each queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Nowhere,
    ByDriver,
    ByKernel,
}

/// A device on a bus.
#[derive(Debug, Clone)]
pub(crate) struct Nic {
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) driver: &'static Driver,
    /// Address of its PCI function, also for devices of other buses.
    pub(crate) function: String,
    /// Another function that the interrupts of every second queue belong to (multi-PF), and its node.
    pub(crate) half: Option<String>,
    pub(crate) half_node: Option<u32>,
    /// Number of the first interrupt where the driver counts vectors, and the distance between two.
    pub(crate) counts: (u32, u32),
    /// Number of its virtio or VMBus device.
    pub(crate) number: u32,
    /// None: the kernel shows -1.
    pub(crate) node: Option<u32>,
    pub(crate) max_queues: u32,
    pub(crate) rx: Vec<Rx>,
    pub(crate) tx: Vec<Tx>,
    pub(crate) irqs: Vec<Irq>,
    /// True if the driver has the interrupts of all queues that it may have, from when it is loaded.
    pub(crate) keeps_vectors: bool,
    /// True if the kernel tells which interrupt a NAPI has.
    pub(crate) is_told: bool,
    /// True if its MSI list names its interrupts.
    pub(crate) is_listed: bool,
    /// True if the kernel refuses to move its interrupts.
    pub(crate) is_managed: bool,
    /// True if its interrupt controller moves none: the kernel notes no CPU for its interrupts, and refuses.
    pub(crate) is_fixed: bool,
    /// True if an XDP program is attached in the driver.
    pub(crate) has_xdp: bool,
    /// True if some of its queues only receive, and the others only send, though it could have combined ones.
    pub(crate) is_split: bool,
    pub(crate) counted: Counted,
    /// Statistics of its driver that grow although nothing is lost.
    pub(crate) harmless: Vec<&'static str>,
    /// RSS table; empty = none.
    pub(crate) table: Vec<u32>,
    /// Delay of interrupts in microseconds, and whether it adapts.
    pub(crate) delay: Option<(u32, bool)>,
    /// The paravirtual interface on top of this virtual function, which counts its packets as well.
    pub(crate) master: Option<String>,
}

impl Default for Nic {
    fn default() -> Self {
        Self {
            name: String::new(),
            ifindex: 0,
            driver: &DRIVERS[0],
            function: String::new(),
            half: None,
            half_node: None,
            counts: (0, 1),
            number: 0,
            node: None,
            max_queues: 0,
            rx: Vec::new(),
            tx: Vec::new(),
            irqs: Vec::new(),
            keeps_vectors: false,
            is_told: false,
            is_listed: false,
            is_managed: false,
            is_fixed: false,
            has_xdp: false,
            is_split: false,
            counted: Counted::Nowhere,
            harmless: Vec::new(),
            table: Vec::new(),
            delay: None,
            master: None,
        }
    }
}

impl Nic {
    /// The name of the interrupt of a queue, or of the device.
    pub(crate) fn action(&self, name: Name, queue: u32, queues: u32) -> String {
        let (function, queue) = match &self.half {
            Some(half) => (if queue.is_multiple_of(2) { &self.function } else { half }, queue / 2),
            None => (&self.function, queue),
        };
        let Self { name: nic, number, counts, .. } = self;
        name.of(&Named { nic, function, number: *number, queue, queues, counts: *counts })
    }

    /// The interrupt that is there for a queue that is not in use.
    pub(crate) fn spare_irq(&self, queue: u32) -> Option<usize> {
        if !self.keeps_vectors {
            return None;
        }
        let action = self.action(self.driver.rx, queue, u32::try_from(self.rx.len()).expect("few"));
        self.irqs.iter().position(|irq| irq.action == action)
    }

    /// The node of the function whose vector a queue has.
    pub(crate) fn node_of(&self, queue: u32) -> Option<u32> {
        if self.half.is_some() && !queue.is_multiple_of(2) { self.half_node.or(self.node) } else { self.node }
    }

    /// The CPU that takes the packets of a queue off it.
    pub(crate) fn home(&self, queue: &Rx) -> Option<CpuId> {
        queue.irq.map(|irq| self.irqs[irq].lands).or(queue.signal)
    }

    /// True if the kernel knows which queue a packet came from, and applies that queue's mask and table.
    pub(crate) fn is_recorded(&self) -> bool {
        facts(Some(self.driver.name)).records_queue
    }

    /// Gives all queues the mask and table of the first one, where no other applies.
    pub(crate) fn share_first(&mut self) {
        if self.is_recorded() {
            return;
        }
        if let Some((first, others)) = self.rx.split_first_mut() {
            for queue in others {
                (queue.rps, queue.flows) = (first.rps.clone(), first.flows);
            }
        }
    }

    pub(crate) fn packets(&self) -> f64 {
        self.rx.iter().map(|queue| queue.packets).sum()
    }
}

/// An interface on top of others: a bond, a VLAN, a bridge.
#[derive(Debug, Clone)]
pub(crate) struct Upper {
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    pub(crate) kind: &'static str,
    pub(crate) lower: Vec<String>,
}

/// An interrupt of a device in another network namespace, and its packets/s.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) irq: Irq,
    pub(crate) packets: f64,
}

/// A source that is missing or broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    Nothing,
    /// /proc/interrupts is empty, as a container runtime masks it.
    InterruptsMasked,
    InterruptsDenied,
    /// Its last line has no end.
    InterruptsCut,
    /// An old kernel, or none: no `effective_affinity_list`.
    NoEffectiveAffinity,
    AffinityDenied,
    NoNodes,
    NoSiblings,
    SoftnetBroken,
    NetlinkDenied,
    EthtoolDenied,
    /// The mask of the first queue of each device cannot be read.
    MaskDenied,
}

impl Damage {
    pub(crate) const ALL: [Self; 11] = [
        Self::InterruptsMasked,
        Self::InterruptsDenied,
        Self::InterruptsCut,
        Self::NoEffectiveAffinity,
        Self::AffinityDenied,
        Self::NoNodes,
        Self::NoSiblings,
        Self::SoftnetBroken,
        Self::NetlinkDenied,
        Self::EthtoolDenied,
        Self::MaskDenied,
    ];

    /// True if no interrupt can be named.
    pub(crate) fn hides_interrupts(self) -> bool {
        matches!(self, Self::InterruptsMasked | Self::InterruptsDenied | Self::InterruptsCut)
    }
}

/// irqbalance and the interrupts that it leaves alone.
#[derive(Debug, Clone)]
pub(crate) struct Irqbalance {
    pub(crate) banned: Vec<u32>,
    /// CPUs that it gives no interrupts to.
    pub(crate) banned_cpus: CpuMask,
    pub(crate) told: Told,
}

/// Where the CPUs that irqbalance leaves alone can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Socket,
    /// The environment of its process.
    Environment,
    /// The configuration of its service: its environment cannot be read.
    Configuration,
    Nowhere,
}

#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) kernel: Kernel,
    pub(crate) cpus: Vec<Cpu>,
    /// CPUs in the kernel argument `nohz_full`.
    pub(crate) nohz: CpuMask,
    /// CPUs of the root control group, if not all.
    pub(crate) cpuset: Option<CpuMask>,
    /// CPUs of an exclusive group of the first version of control groups.
    pub(crate) exclusive: CpuMask,
    /// CPUs without vectors for further interrupts.
    pub(crate) full: CpuMask,
    pub(crate) nics: Vec<Nic>,
    pub(crate) uppers: Vec<Upper>,
    /// Ends of veth pairs whose other ends are in containers.
    pub(crate) veths: Vec<(String, u32)>,
    /// RPS masks of queues of virtual interfaces, and of second queues of devices; the others have none.
    pub(crate) masks: BTreeMap<(String, u32), CpuMask>,
    /// Entries of their flow tables.
    pub(crate) flows: BTreeMap<(String, u32), u32>,
    pub(crate) foreign: Vec<Foreign>,
    pub(crate) irqbalance: Option<Irqbalance>,
    pub(crate) sock_flows: u32,
    pub(crate) losses: Vec<Loss>,
    /// True if connections are tracked.
    pub(crate) has_tracking: bool,
    /// Seconds that a packet costs, received and taken up the stack on one CPU.
    pub(crate) cost: f64,
    /// True if the kernel accounts softirq time exactly.
    pub(crate) is_exact: bool,
    pub(crate) damage: Damage,
}

/// Part of a packet's cost that stays with the interrupt when RPS hands it over, and its cost elsewhere: field
/// case A, as in rxlab's own predictions. Another cost of a machine is a matter for its trials, not for a
/// plan's rules.
pub(crate) const KEPT: f64 = 0.48;
pub(crate) const HANDED: f64 = 0.5408;

/// Receive work of a CPU: its time as a fraction of wall time, above 1 if there is more than it can do, packets/s
/// that go up the stack there, and packets/s that it takes off queues and backlogs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) time: f64,
    pub(crate) packets: f64,
    pub(crate) taken: f64,
}

impl Truth {
    pub(crate) fn online(&self) -> CpuMask {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// True for a CPU that is isolated or tickless.
    pub(crate) fn keeps_free(&self, cpu: CpuId) -> bool {
        self.nohz.contains(cpu) || self.cpus.iter().any(|one| one.id == cpu && one.isolated)
    }

    /// CPUs that may take receive work.
    pub(crate) fn usable(&self) -> CpuMask {
        let free = self.cpus.iter().filter(|cpu| cpu.online && !cpu.isolated).map(|cpu| cpu.id);
        let free = free.collect::<CpuMask>().difference(&self.nohz).difference(&self.banned_cpus());
        let free = free.difference(&self.exclusive);
        self.cpuset.as_ref().map_or(free.clone(), |own| free.intersection(own))
    }

    /// CPUs that irqbalance says it leaves alone.
    fn banned_cpus(&self) -> CpuMask {
        let told = self.irqbalance.as_ref().filter(|irqbalance| irqbalance.told != Told::Nowhere);
        told.map(|irqbalance| irqbalance.banned_cpus.clone()).unwrap_or_default()
    }

    pub(crate) fn of_node(&self, node: u32) -> CpuMask {
        self.cpus.iter().filter(|cpu| cpu.node == node).map(|cpu| cpu.id).collect()
    }

    pub(crate) fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }

    /// True if packets are counted for each queue of a device.
    pub(crate) fn counts_queues(&self, nic: &Nic) -> bool {
        match nic.counted {
            Counted::Nowhere => false,
            Counted::ByKernel => true,
            Counted::ByDriver => self.damage != Damage::EthtoolDenied,
        }
    }

    /// The machine with even packets on queues that no source tells apart: the device does not count them by queue, and they
    /// come to one CPU and have one mask. No plan can know better. Where only counts of interrupts show their CPUs, they tell queues
    /// without packets apart. Interrupts stay as they are, as those of a queue that is polled are no measure of its packets: a sample
    /// does not tell the two machines apart.
    pub(crate) fn evened(&self) -> Self {
        let mut even = self.clone();
        let by_counts = matches!(self.damage, Damage::NoEffectiveAffinity | Damage::AffinityDenied);
        let is_seen = |queue: &Rx| !by_counts || queue.packets > 0.0;
        for (nic, then) in self.nics.iter().zip(&mut even.nics).filter(|(nic, _)| !self.counts_queues(nic)) {
            for (queue, then) in nic.rx.iter().zip(&mut then.rx).filter(|(queue, _)| is_seen(queue)) {
                let same = nic
                    .rx
                    .iter()
                    .filter(|one| is_seen(one) && nic.home(one) == nic.home(queue) && one.rps == queue.rps);
                let packets: Vec<f64> = same.map(|one| one.packets).collect();
                then.packets = packets.iter().sum::<f64>() / packets.len() as f64;
            }
        }
        even
    }

    /// Receive work of every online CPU.
    pub(crate) fn work(&self) -> BTreeMap<CpuId, Work> {
        let online = self.online();
        let mut work: BTreeMap<CpuId, Work> = online.iter().map(|cpu| (cpu, Work::default())).collect();
        let mut add = |cpu: CpuId, time: f64, packets: f64, taken: f64| {
            let of_cpu = work.get_mut(&cpu).expect("work is done on CPUs that are online");
            of_cpu.time += time;
            of_cpu.packets += packets;
            of_cpu.taken += taken;
        };
        for (nic, queue) in self.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue))) {
            let Some(home) = nic.home(queue) else { continue };
            let time = queue.packets * self.cost;
            if queue.rps.is_empty() {
                add(home, time, queue.packets, queue.packets);
                continue;
            }
            // What falls to a CPU that is offline stays where it is (get_rps_cpu).
            let each = 1.0 / queue.rps.len() as f64;
            let stays = queue.rps.difference(&online).len() as f64 * each;
            let kept = time * (KEPT + (1.0 - KEPT) * stays);
            add(home, kept, queue.packets * stays, queue.packets);
            for cpu in queue.rps.intersection(&online).iter() {
                let packets = queue.packets * each;
                add(cpu, time * HANDED * each, packets, packets);
            }
        }
        for foreign in &self.foreign {
            add(foreign.irq.lands, foreign.packets * self.cost, foreign.packets, foreign.packets);
        }
        work
    }

    /// Receive time of the CPU that has most.
    pub(crate) fn hottest(&self) -> f64 {
        self.work().values().map(|work| work.time).fold(0.0, f64::max)
    }
}

/// A line for each CPU, queue and other part of the machine.
impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, nohz, cpuset, exclusive, full, damage, cost, is_exact, sock_flows, .. } = self;
        writeln!(f, "{kernel:?}, damage {damage:?}, {:.2} us a packet, exact {is_exact}", cost * 1e6)?;
        writeln!(
            f,
            "nohz {nohz}, cpuset {cpuset:?}, exclusive {exclusive}, without vectors {full}, rps_sock_flow_entries {sock_flows}"
        )?;
        let work = self.work();
        for Cpu { id, node, core, cache, online, isolated, capacity, program } in &self.cpus {
            let time = work.get(id).map_or(0.0, |work| work.time);
            writeln!(
                f,
                "CPU {id}: node {node}, core {core}, cache {cache}, capacity {capacity:?}, receives {time:.3}, \
                 programs {program:.2}{}{}",
                if *online { "" } else { ", offline" },
                if *isolated { ", isolated" } else { "" }
            )?;
        }
        for nic in &self.nics {
            writeln!(
                f,
                "{}: {}, node {:?}, at most {} queues, counted {:?}, managed {}, fixed {}, XDP {}, split {}, master {:?}, delay {:?}",
                nic.name,
                nic.driver.name,
                nic.node,
                nic.max_queues,
                nic.counted,
                nic.is_managed,
                nic.is_fixed,
                nic.has_xdp,
                nic.is_split,
                nic.master,
                nic.delay
            )?;
            for (at, queue) in nic.rx.iter().enumerate() {
                let (home, time) = (nic.home(queue), queue.packets * cost);
                let irq = queue.irq.map(|irq| nic.irqs[irq].number);
                writeln!(
                    f,
                    "  rx-{at}: irq {irq:?} on {home:?}, brings {time:.3}, rps {}, flows {}",
                    queue.rps, queue.flows
                )?;
            }
            for (at, queue) in nic.tx.iter().enumerate() {
                let irq = queue.irq.map(|irq| (nic.irqs[irq].number, nic.irqs[irq].lands));
                writeln!(f, "  tx-{at}: irq {irq:?}, xps {}", queue.xps)?;
            }
            if !nic.table.is_empty() {
                writeln!(f, "  table {:?}", nic.table)?;
            }
        }
        let Self { uppers, veths, masks, flows, foreign, irqbalance, losses, .. } = self;
        let harmless: Vec<_> = self.nics.iter().map(|nic| &nic.harmless).collect();
        writeln!(
            f,
            "{uppers:?} {veths:?}\n{masks:?} {flows:?}\n{foreign:?} {irqbalance:?}\n{losses:?} {harmless:?}"
        )
    }
}
