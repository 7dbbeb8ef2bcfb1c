//! Settings of a sketched machine.

use super::Sketch;
use crate::model::{Clocksource, Function, IdleState, Model, Nic, Peer, TxQueue};
use crate::sample::Settings;
use rxlab_base::parse::ethtool::{Channels, Count, Feature};
use rxlab_base::units::{CpuId, CpuMask, Fact};

impl Sketch {
    /// Changes the machine in a way that no other method covers.
    pub fn tune(mut self, change: impl FnOnce(&mut Model)) -> Self {
        change(&mut self.model);
        self
    }

    /// Changes one interface in a way that no other method covers.
    pub fn edit(self, name: &str, change: impl FnOnce(&mut Nic)) -> Self {
        self.tune(|model| {
            let nic = model.nics.iter_mut().find(|nic| nic.name.as_str() == name);
            change(nic.expect("the interface is in the sketch"));
        })
    }

    /// Changes the settings of the kernel.
    pub fn set(self, change: impl FnOnce(&mut Settings)) -> Self {
        self.tune(|model| change(&mut model.settings))
    }

    /// Enabled idle states by name, with their exit latency in microseconds.
    pub fn idle_states(self, states: &[(&str, u32)]) -> Self {
        let state =
            |&(name, exit_us): &(&str, u32)| IdleState { name: name.to_owned(), exit_us, disabled: false };
        let states = Fact::Known(states.iter().map(state).collect());
        self.set(|settings| settings.idle_states = states)
    }

    /// Packets/s of each queue of an interface, as counted by the kernel.
    pub fn queue_traffic(self, name: &str, packets: &[f64]) -> Self {
        let queues = (0..).zip(packets.iter().copied()).collect();
        self.traffic(name, packets.iter().sum()).nic_rates(name, |rates| rates.queues = queues)
    }

    /// Bytes/s and packets/s that an interface sends, and bytes/s that it receives.
    pub fn volume(self, name: &str, rx_bytes: f64, tx_packets: f64) -> Self {
        self.nic_rates(name, |rates| {
            (rates.rx_bytes, rates.tx_packets, rates.tx_bytes) = (rx_bytes, tx_packets, tx_packets * 200.0);
        })
    }

    /// Entries/s of a CPU into a deep idle state.
    pub fn enters(self, cpu: u32, state: &str, rate: f64) -> Self {
        self.cpu(cpu, |rates| {
            rates.deep_idle.insert(state.to_owned(), rate);
        })
    }

    /// RPS interrupts/s of a CPU.
    pub fn ipis(self, cpu: u32, rate: f64) -> Self {
        self.cpu(cpu, |rates| rates.rps_ipis = rate)
    }

    /// Receive time and packets of several CPUs.
    pub fn all_receive(self, list: &str, softirq: f64, packets: f64) -> Self {
        super::cpus(list).iter().fold(self, |sketch, cpu| sketch.receives(cpu.0, softirq, packets))
    }

    /// Time of several CPUs in processes.
    pub fn all_work(self, list: &str, user: f64) -> Self {
        super::cpus(list).iter().fold(self, |sketch, cpu| sketch.works(cpu.0, user))
    }

    /// The RPS mask of one queue.
    pub fn rps_of(self, name: &str, queue: usize, list: &str) -> Self {
        self.edit(name, |nic| nic.rx[queue].rps_cpus = Fact::Known(super::cpus(list)))
    }

    /// The driver's maximum number of combined queues; the current number is that of the sketch.
    pub fn queues_at_most(self, name: &str, max: u32) -> Self {
        self.edit(name, |nic| {
            let now = u32::try_from(nic.rx.len()).expect("a few queues");
            let combined = Some(Count { now, max });
            nic.hardware.channels = Fact::Known(Channels { combined, ..Channels::default() });
        })
    }

    /// The node of a device.
    pub fn on_node(self, name: &str, node: u32) -> Self {
        self.edit(name, |nic| nic.node = Some(node))
    }

    /// The driver of a device, and its function on the bus.
    pub fn driven_by(self, name: &str, driver: &str, function: Function) -> Self {
        self.edit(name, |nic| {
            nic.driver = Some(driver.to_owned());
            nic.hardware.function = function;
        })
    }

    /// An offload that can be changed.
    pub fn offload(self, name: &str, offload: &str, on: bool) -> Self {
        self.edit(name, |nic| {
            let mut features = nic.hardware.features.known().cloned().unwrap_or_default();
            features.push(Feature { name: offload.to_owned(), on, changeable: true });
            nic.hardware.features = Fact::Known(features);
        })
    }

    /// A transmit queue with an XPS mask for each list; completions share the receive queue's interrupt.
    pub fn xps(self, name: &str, lists: &[&str]) -> Self {
        self.edit(name, |nic| {
            let masks = lists.iter().map(|list| Fact::Known(super::cpus(list)));
            let queues = (0..).zip(masks).map(|(index, xps_cpus)| TxQueue {
                index,
                xps_cpus,
                xps_by_rxq: Fact::Unsupported,
            });
            nic.tx = queues.collect();
        })
    }

    /// A veth whose other end is in a container.
    pub fn container(self, name: &str, packets: f64, rps: &str) -> Self {
        let sketch = self.veth(name).traffic(name, packets).edit(name, |nic| {
            nic.stack.kind = Some("veth".to_owned());
            nic.stack.peer = Some(Peer { ifindex: 2, nic: None, namespace: None });
        });
        if rps.is_empty() { sketch } else { sketch.rps(name, rps) }
    }

    /// The clock in use, and the other available ones.
    pub fn clock(self, current: &str, others: &[&str]) -> Self {
        let available = [current].iter().chain(others).map(|name| (*name).to_owned()).collect();
        let clock = Clocksource { current: current.to_owned(), available };
        self.set(|settings| settings.clocksource = Fact::Known(clock))
    }

    /// VMBus channels that signal these CPUs, instead of the interrupts of an interface's queues.
    pub fn channels(self, name: &str, cpus: &[u32]) -> Self {
        self.edit(name, |nic| {
            for (queue, cpu) in nic.rx.iter_mut().zip(cpus) {
                queue.irqs.clear();
                queue.channel_cpu = Some(CpuId(*cpu));
            }
        })
    }

    /// CPUs that are no longer online.
    pub fn offline(self, list: &str) -> Self {
        let gone: CpuMask = super::cpus(list);
        self.tune(|model| {
            model.cpus.iter_mut().filter(|cpu| gone.contains(cpu.id)).for_each(|cpu| cpu.online = false);
        })
    }
}
