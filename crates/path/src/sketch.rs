//! Builder of test machines: a model and its rates, idle by default.

mod load;
mod settings;

use std::collections::BTreeMap;

use crate::model::{
    Cpu, CpuRates, DeviceAddress, Fact, Identity, Irq, IrqRates, Irqbalance, LossRates, Model, Nic, NicKind,
    NicRates, Rates, RxQueue,
};
use crate::sample::{DEVICE_LOSSES, VIRTUAL_LOSSES};
use rxlab_base::units::{CpuId, CpuMask, IrqId};

/// A machine under construction.
pub struct Sketch {
    model: Model,
    rates: Rates,
    next_irq: u32,
}

/// CPUs from the kernel's list form.
pub fn cpus(list: &str) -> CpuMask {
    list.parse().expect("a CPU list")
}

impl Sketch {
    /// `count` idle CPUs in one node, RFS off, no interface.
    pub fn new(count: u32) -> Self {
        let cpu = |id| Cpu {
            id: CpuId(id),
            online: true,
            isolated: false,
            core: Some(id),
            package: Some(0),
            siblings: [CpuId(id)].into_iter().collect(),
            l3: (0..count).map(CpuId).collect(),
            node: Some(0),
            capacity: None,
        };
        let idle = |id| CpuRates {
            cpu: CpuId(id),
            user: 0.01,
            system: 0.005,
            softirq: 0.005,
            idle: 0.98,
            net_rx: 20.0,
            packets: 30.0,
            ..CpuRates::default()
        };
        let identity = Identity { hostname: "sketch".into(), kernel: "6.1.0".into(), boot_id: "0".into() };
        Self {
            model: Model {
                schema: "rxlab.model/2".into(),
                identity,
                cpus: (0..count).map(cpu).collect(),
                rps_sock_flow_entries: Fact::Known(0),
                irqbalance: Fact::Known(None),
                ..Model::default()
            },
            rates: Rates {
                seconds: 5.0,
                cpus: (0..count).map(idle).collect(),
                exact_softirq_time: Some(false),
                processes: Fact::Known(Vec::new()),
                losses: Fact::Known(LossRates::default()),
                losing: Fact::Known(Vec::new()),
                ..Rates::default()
            },
            next_irq: 41,
        }
    }

    /// Field case A: 8 CPUs, one queue, its interrupt on CPU 2, which drowns; the machine is 81 %
    /// busy.
    pub fn case_a() -> Self {
        let mut sketch = Self::new(8)
            .device("eth0", &[2])
            .traffic("eth0", 42_000.0)
            .receives(2, 0.98, 42_000.0)
            .ksoftirqd(2, 0.7);
        for cpu in [0, 1, 3, 4, 5, 6, 7] {
            sketch = sketch.receives(cpu, 0.006, 250.0).works(cpu, 0.78);
        }
        sketch
    }

    /// Splits the CPUs into `count` nodes of equal size, each with its own last-level cache.
    pub fn nodes(mut self, count: u32) -> Self {
        let size = self.model.cpus.len() as u32 / count;
        for cpu in &mut self.model.cpus {
            let node = cpu.id.0 / size;
            cpu.node = Some(node);
            cpu.l3 = (node * size..(node + 1) * size).map(CpuId).collect();
        }
        self
    }

    /// Pairs CPU n with CPU n + half as hyper-threads of one core.
    pub fn smt(mut self) -> Self {
        let half = self.model.cpus.len() as u32 / 2;
        for cpu in &mut self.model.cpus {
            let low = cpu.id.0 % half;
            cpu.siblings = [CpuId(low), CpuId(low + half)].into_iter().collect();
        }
        self
    }

    /// A device of `virtio_net` with one queue for each CPU in `irq_cpus`, its interrupt pinned there.
    pub fn device(mut self, name: &str, irq_cpus: &[u32]) -> Self {
        let irqs: Vec<Vec<Irq>> = irq_cpus.iter().map(|cpu| vec![self.irq(name, *cpu)]).collect();
        self.nic(name, NicKind::Device, irqs)
    }

    /// A veth with one queue: no interrupt.
    pub fn veth(self, name: &str) -> Self {
        self.nic(name, NicKind::Virtual, vec![Vec::new()])
    }

    /// The loopback interface `lo`.
    pub fn loopback(self) -> Self {
        self.nic("lo", NicKind::Loopback, vec![Vec::new()])
    }

    fn irq(&mut self, name: &str, cpu: u32) -> Irq {
        let number = IrqId(self.next_irq);
        self.next_irq += 1;
        let pinned: CpuMask = [CpuId(cpu)].into_iter().collect();
        let action = format!("{name}-input.{}", number.0);
        let per_cpu = BTreeMap::from([(CpuId(cpu), 50.0)]);
        self.rates.irqs.push(IrqRates { irq: number, action: action.clone(), per_cpu });
        Irq {
            number,
            action,
            affinity: Fact::Known(pinned.clone()),
            effective: Fact::Known(pinned),
            ..Irq::default()
        }
    }

    fn nic(mut self, name: &str, kind: NicKind, irqs: Vec<Vec<Irq>>) -> Self {
        let rx = (0..).zip(irqs).map(|(index, irqs)| RxQueue {
            index,
            rps_cpus: Fact::Known(CpuMask::new()),
            rps_flow_cnt: Fact::Known(0),
            irqs,
            ..RxQueue::default()
        });
        let device = kind == NicKind::Device;
        let address = DeviceAddress(if device { format!("pci:{name}") } else { format!("virtual:{name}") });
        self.model.nics.push(Nic {
            driver: device.then(|| "virtio_net".to_owned()),
            rx: rx.collect(),
            ..Nic::new(name.parse().expect("an interface name"), address, kind)
        });
        self.traffic(name, 10.0)
    }

    /// Packets/s that an interface receives, equally on its queues.
    pub fn traffic(mut self, name: &str, packets: f64) -> Self {
        let losses = DEVICE_LOSSES.iter().chain(&VIRTUAL_LOSSES).map(|counter| ((*counter).to_owned(), 0.0));
        self.rates.nics.retain(|nic| nic.name.as_str() != name);
        self.rates.nics.push(NicRates {
            name: name.parse().expect("an interface name"),
            rx_packets: packets,
            counts_forwarded: false,
            to_queues: None,
            rx_bytes: packets * 200.0,
            tx_packets: 0.0,
            tx_bytes: 0.0,
            rx_dropped: 0.0,
            rx_missed: 0.0,
            losses: losses.collect(),
            unread: None,
            queues: BTreeMap::new(),
            limited: BTreeMap::new(),
            queue_drops: BTreeMap::new(),
        });
        self
    }

    /// Softirq time and packets (one NET_RX run each) of a CPU.
    pub fn receives(self, cpu: u32, softirq: f64, packets: f64) -> Self {
        self.cpu(cpu, |rates| {
            rates.softirq = softirq;
            rates.packets = packets;
            rates.net_rx = packets;
        })
    }

    /// NET_RX runs of a CPU, if they differ from its packets.
    pub fn net_rx(self, cpu: u32, runs: f64) -> Self {
        self.cpu(cpu, |rates| rates.net_rx = runs)
    }

    /// Runs/s of another softirq vector on a CPU.
    pub fn softirqs(self, cpu: u32, vector: &str, runs: f64) -> Self {
        self.cpu(cpu, |rates| {
            rates.other_softirqs.insert(vector.to_owned(), runs);
        })
    }

    /// Time of a CPU in processes.
    pub fn works(self, cpu: u32, user: f64) -> Self {
        self.cpu(cpu, |rates| rates.user = user)
    }

    /// Time of a CPU's ksoftirqd.
    pub fn ksoftirqd(self, cpu: u32, time: f64) -> Self {
        self.cpu(cpu, |rates| rates.ksoftirqd = time)
    }

    /// Time of threads that poll queues on a CPU, part of system time.
    pub fn polls(self, cpu: u32, time: f64) -> Self {
        self.cpu(cpu, |rates| {
            rates.napi = time;
            rates.system += time;
        })
    }

    /// Time of a thread that takes what an XDP program redirects to a CPU, part of system time.
    pub fn redirected(self, cpu: u32, time: f64) -> Self {
        self.polls(cpu, time).cpu(cpu, |rates| rates.cpumap = time)
    }

    /// Time of a CPU in hard interrupts.
    pub fn interrupted(self, cpu: u32, time: f64) -> Self {
        self.cpu(cpu, |rates| rates.irq = time)
    }

    /// Backlog drops/s on a CPU.
    pub fn drops(self, cpu: u32, rate: f64) -> Self {
        self.cpu(cpu, |rates| rates.dropped = rate)
    }

    fn cpu(mut self, cpu: u32, change: impl FnOnce(&mut CpuRates)) -> Self {
        let rates = &mut self.rates.cpus[cpu as usize];
        change(rates);
        rates.idle = (1.0 - rates.user - rates.system - rates.irq - rates.softirq - rates.steal).max(0.0);
        self
    }

    /// The RPS mask of every queue of an interface.
    pub fn rps(self, name: &str, list: &str) -> Self {
        self.edit(name, |nic| nic.rx.iter_mut().for_each(|queue| queue.rps_cpus = Fact::Known(cpus(list))))
    }

    /// The global RFS table, and the table of every queue of an interface.
    pub fn rfs(self, global: u32, name: &str, queue: u32) -> Self {
        let sketch = self.tune(|model| model.rps_sock_flow_entries = Fact::Known(global));
        sketch.edit(name, |nic| nic.rx.iter_mut().for_each(|rx| rx.rps_flow_cnt = Fact::Known(queue)))
    }

    /// Adds an irqbalance with PID 700.
    pub fn irqbalance(mut self) -> Self {
        self.model.irqbalance = Fact::Known(Some(Irqbalance { pid: 700, ..Irqbalance::default() }));
        self
    }

    /// Changes the rates in a way that no other method covers.
    pub fn measured(mut self, change: impl FnOnce(&mut Rates)) -> Self {
        change(&mut self.rates);
        self
    }

    /// Returns the machine and its rates.
    pub fn build(self) -> (Model, Rates) {
        (self.model, self.rates)
    }
}
