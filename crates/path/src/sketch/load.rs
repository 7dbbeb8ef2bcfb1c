//! Load of a sketched machine, and the behaviour of its devices.

use super::{Sketch, cpus};
use crate::drivers::{LossKind, loss_kind};
use crate::model::{Fact, HeldRates, LosingSocket, NicRates, ProcessRates, SocketRates, ThreadRates};
use crate::sample::Transport;
use rxlab_base::parse::ethtool::{Coalesce, Count, Rings, Rss};
use rxlab_base::units::CpuId;

impl Sketch {
    /// A program of one thread that uses this much of a CPU, may run on `allowed` and stays on its first CPU.
    pub fn program(mut self, command: &str, cpu: f64, allowed: &str) -> Self {
        let allowed = cpus(allowed);
        let process = ProcessRates {
            pid: 800 + u32::try_from(self.processes().len()).expect("few"),
            command: command.to_owned(),
            cpu,
            threads: 1,
            runnable: Fact::Known(1),
            ran_on: Fact::Known(allowed.first().into_iter().collect()),
            stays_on: allowed.first(),
            allowed: Fact::Known(allowed),
            cpuset: Fact::Known(self.model.online()),
            nice: 0,
            each: Vec::new(),
            sockets: Fact::NotAsked,
            throttled: None,
        };
        self.processes().push(process);
        self
    }

    /// Gives the last program this many threads, some of them runnable, on all CPUs it may use.
    pub fn threads(self, threads: u32, runnable: u32) -> Self {
        self.last(|process| {
            process.threads = threads;
            process.runnable = Fact::Known(runnable);
            process.ran_on = process.allowed.clone();
        })
    }

    /// Gives the last program a thread that ran and waited for these fractions of time, last on this CPU.
    pub fn thread(self, cpu: u32, ran: f64, waited: f64) -> Self {
        self.last(|process| {
            let tid = process.pid + 100 + process.each.len() as u32;
            process.each.push(ThreadRates { tid, cpu: CpuId(cpu), ran, waited });
        })
    }

    /// Gives the last program a UDP socket with this many bytes to be read in the two samples.
    pub fn udp(self, port: u16, before: u64, now: u64) -> Self {
        self.held(Transport::Udp, port, [before, now], Fact::NotAsked)
    }

    /// The same for TCP: connections waiting to be accepted, and those with unread data if known.
    pub fn tcp(self, port: u16, before: u64, now: u64, unread: Option<u32>) -> Self {
        self.held(Transport::Tcp, port, [before, now], unread.map_or(Fact::Unsupported, Fact::Known))
    }

    fn held(self, transport: Transport, port: u16, queued: [u64; 2], unread: Fact<u32>) -> Self {
        let [queued_before, queued] = queued;
        let held = HeldRates { transport, port, queued_before, queued, dropped: 0.0, unread };
        let sockets = SocketRates { held: vec![held], others: false };
        self.last(|process| process.sockets = Fact::Known(sockets))
    }

    /// Changes the socket of the last program.
    pub fn socket(self, change: impl FnOnce(&mut HeldRates)) -> Self {
        self.last(|process| match &mut process.sockets {
            Fact::Known(sockets) => change(&mut sockets.held[0]),
            absent => panic!("{absent:?}"),
        })
    }

    /// Changes the last program.
    pub fn last(mut self, change: impl FnOnce(&mut ProcessRates)) -> Self {
        change(self.processes().last_mut().expect("there is a program"));
        self
    }

    fn processes(&mut self) -> &mut Vec<ProcessRates> {
        match &mut self.rates.processes {
            Fact::Known(processes) => processes,
            absent => panic!("{absent:?}"),
        }
    }

    /// Packets/s that found no buffer in the ring.
    pub fn missed(self, name: &str, missed: f64) -> Self {
        self.nic_rates(name, |rates| {
            rates.rx_missed = missed;
            rates.rx_dropped += missed;
            rates.losses.insert("rx_missed_errors".to_owned(), missed);
        })
    }

    /// Packets/s that an interface dropped.
    pub fn dropped(self, name: &str, rate: f64) -> Self {
        self.nic_rates(name, |rates| rates.rx_dropped += rate).counted(name, "rx_dropped", rate)
    }

    /// Growth per second of a counter of an interface's losses.
    pub fn counted(self, name: &str, counter: &str, rate: f64) -> Self {
        self.nic_rates(name, |rates| {
            rates.losses.insert(counter.to_owned(), rate);
            if loss_kind(counter) == Some(LossKind::Ring) {
                rates.rx_missed = rates.rx_missed.max(rate);
            }
        })
    }

    /// Growth per second of a counter of the whole network namespace, such as `UdpRcvbufErrors`.
    pub fn lost(self, counter: &str, rate: f64) -> Self {
        self.measured(|rates| match &mut rates.losses {
            Fact::Known(losses) => drop(losses.rates.insert(counter.to_owned(), rate)),
            absent => panic!("{absent:?}"),
        })
    }

    /// A socket that drops this much per second, of process 900.
    pub fn losing(self, transport: Transport, port: u16, dropped: f64, command: &str) -> Self {
        let socket = LosingSocket {
            transport,
            address: std::net::Ipv4Addr::UNSPECIFIED.into(),
            port,
            dropped,
            queued_before: 0,
            queued: 0,
            limit: None,
            owners: vec![(900, command.to_owned())],
        };
        self.measured(|rates| match &mut rates.losing {
            Fact::Known(losing) => losing.push(socket),
            absent => panic!("{absent:?}"),
        })
    }

    /// Packets/s over a limit of the host, by the statistic.
    pub fn limited(self, name: &str, statistic: &str, rate: f64) -> Self {
        self.nic_rates(name, |rates| {
            rates.limited.insert(statistic.to_owned(), rate);
        })
    }

    /// Bytes/s that an interface receives and sends.
    pub fn bytes(self, name: &str, rx: f64, tx: f64) -> Self {
        self.nic_rates(name, |rates| (rates.rx_bytes, rates.tx_bytes) = (rx, tx))
    }

    /// Changes the rates of an interface.
    pub fn nic_rates(mut self, name: &str, change: impl FnOnce(&mut NicRates)) -> Self {
        let rates = self.rates.nics.iter_mut().find(|nic| nic.name.as_str() == name);
        change(rates.expect("the interface is in the sketch"));
        self
    }

    /// Interrupts/s of every receive queue of an interface, on their CPU.
    pub fn interrupts(mut self, name: &str, rate: f64) -> Self {
        let nic = self.model.nics.iter().find(|nic| nic.name.as_str() == name);
        let queues = nic.expect("the interface is in the sketch").rx.iter();
        let numbers: Vec<_> = queues.flat_map(|queue| &queue.irqs).map(|irq| irq.number).collect();
        for irq in self.rates.irqs.iter_mut().filter(|irq| numbers.contains(&irq.irq)) {
            irq.per_cpu.values_mut().for_each(|value| *value = rate);
        }
        self
    }

    /// Exhausted budgets of `net_rx_action` per second on a CPU.
    pub fn squeezed(self, cpu: u32, rate: f64) -> Self {
        self.cpu(cpu, |rates| rates.time_squeeze = rate)
    }

    /// Descriptors in each receive ring, current and maximum.
    pub fn rings(self, name: &str, now: u32, max: u32) -> Self {
        let rx = Some(Count { now, max });
        self.hardware(name, |hardware| hardware.rings = Fact::Known(Rings { rx, ..Rings::default() }))
    }

    /// Interrupt moderation: microseconds, and true if the driver adapts them.
    pub fn moderation(self, name: &str, rx_usecs: u32, adaptive: bool) -> Self {
        let coalesce =
            Coalesce { rx_usecs: Some(rx_usecs), adaptive_rx: Some(adaptive), ..Coalesce::default() };
        self.hardware(name, |hardware| hardware.coalesce = Fact::Known(coalesce))
    }

    /// Gives an interface this RSS table: one queue per entry.
    pub fn table(self, name: &str, table: &[u32]) -> Self {
        let rss = Rss { table: table.to_vec(), ..Rss::default() };
        self.hardware(name, |hardware| hardware.rss = Fact::Known(rss))
    }

    /// The speed of the link.
    pub fn speed(self, name: &str, mbits: u32) -> Self {
        self.hardware(name, |hardware| hardware.speed_mbits = Fact::Known(mbits))
    }

    /// The driver of a device.
    pub fn driver(self, name: &str, driver: &str) -> Self {
        self.edit(name, |nic| nic.driver = Some(driver.to_owned()))
    }

    fn hardware(self, name: &str, change: impl FnOnce(&mut crate::model::Hardware)) -> Self {
        self.edit(name, |nic| change(&mut nic.hardware))
    }

    /// Takes CPUs from the scheduler at boot.
    pub fn isolate(self, list: &str) -> Self {
        let isolated = cpus(list);
        self.tune(|model| {
            model.cpus.iter_mut().filter(|cpu| isolated.contains(cpu.id)).for_each(|cpu| cpu.isolated = true);
        })
    }

    /// Every CPU of a list.
    pub fn each(self, list: &str, change: impl Fn(Self, u32) -> Self) -> Self {
        cpus(list).iter().fold(self, |sketch, CpuId(cpu)| change(sketch, cpu))
    }
}
