//! The receive path of one interface in one line, as a heading above its findings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::QueuePath;
use rxlab_base::number::plural;
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::evidence::{irq_cpus, nic_irq_cpus};
use rxlab_path::model::{Fact, Model, Nic, NicKind, Rates, RxQueue};

/// An interface and its receive path in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceivePath {
    /// The interface.
    pub nic: NicName,
    /// Its receive path, such as `virtio_net, 1 RX queue, IRQ 41 -> CPU 2, RPS off`.
    pub summary: String,
    /// Its receive queues; empty in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueuePath>,
}

impl ReceivePath {
    pub fn new(nic: &Nic, model: &Model, rates: &Rates) -> Self {
        let kind = match nic.kind {
            NicKind::Device => "device",
            NicKind::Virtual => "virtual",
            NicKind::Loopback => "loopback",
        };
        let parts = [
            nic.driver.clone().unwrap_or_else(|| kind.to_owned()),
            plural(nic.rx.len(), "RX queue"),
            interrupts(nic, model, rates),
            format!("RPS {}", same(nic, |queue| &queue.rps_cpus, CpuMask::is_empty)),
            format!("RFS {}", same(nic, |queue| &queue.rps_flow_cnt, |table| *table == 0)),
        ];
        let queues = nic.rx.iter().map(|queue| QueuePath::new(queue, irq_cpus(queue, model, rates)));
        Self { nic: nic.name.clone(), summary: parts.join(", "), queues: queues.collect() }
    }
}

/// Interfaces in an overview of a machine.
const BUSIEST: usize = 3;

/// Receive paths of the interfaces that receive most, busiest first: devices, and virtual interfaces that receive
/// anything.
pub fn busiest_paths(model: &Model, rates: &Rates) -> Vec<ReceivePath> {
    let counts = |nic: &&Nic| match nic.kind {
        NicKind::Device => nic.up,
        NicKind::Virtual => rates.rx_packets(&nic.name) > 0.0,
        NicKind::Loopback => false,
    };
    let mut nics: Vec<&Nic> = model.nics.iter().filter(counts).collect();
    nics.sort_by(|a, b| rates.rx_packets(&b.name).total_cmp(&rates.rx_packets(&a.name)));
    nics.into_iter().take(BUSIEST).map(|nic| ReceivePath::new(nic, model, rates)).collect()
}

fn interrupts(nic: &Nic, model: &Model, rates: &Rates) -> String {
    let irqs: BTreeSet<_> = nic.rx.iter().flat_map(|queue| &queue.irqs).map(|irq| irq.number).collect();
    let cpus = nic_irq_cpus(nic, model, rates);
    let place = match cpus.len() {
        0 => "unknown CPUs".to_owned(),
        1 => format!("CPU {cpus}"),
        _ => format!("CPUs {cpus}"),
    };
    match (irqs.first(), irqs.len()) {
        (None, _) if nic.rx.iter().any(|queue| nic.hides_interrupt(queue)) => "IRQs unknown".to_owned(),
        (None, _) => "no IRQ".to_owned(),
        (Some(irq), 1) => format!("IRQ {irq} -> {place}"),
        (_, count) => format!("{count} IRQs -> {place}"),
    }
}

/// A setting of all queues in a word: `off`, their common value, or the number of queues that have it on.
fn same<T: PartialEq + ToString>(
    nic: &Nic,
    value: impl Fn(&RxQueue) -> &Fact<T>,
    is_off: impl Fn(&T) -> bool,
) -> String {
    let Some(values) = nic.rx.iter().map(|queue| value(queue).known()).collect::<Option<Vec<&T>>>() else {
        return "unknown".to_owned();
    };
    let on = values.iter().filter(|value| !is_off(value)).count();
    match values.split_first() {
        _ if on == 0 => "off".to_owned(),
        Some((first, rest)) if rest.iter().all(|value| value == first) => first.to_string(),
        _ => format!("on for {on} of {} queues", values.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::ReceivePath;
    use rxlab_path::model::Fact;
    use rxlab_path::sketch::{Sketch, cpus};

    fn summary(sketch: Sketch) -> String {
        let (model, rates) = sketch.build();
        ReceivePath::new(&model.nics[0], &model, &rates).summary
    }

    #[test]
    fn paths_in_words() {
        assert_eq!(summary(Sketch::case_a()), "virtio_net, 1 RX queue, IRQ 41 -> CPU 2, RPS off, RFS off");
        let four = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).rps("eth0", "4-7").rfs(32768, "eth0", 8192);
        assert_eq!(summary(four), "virtio_net, 4 RX queues, 4 IRQs -> CPUs 0-3, RPS 4-7, RFS 8192");
        assert_eq!(summary(Sketch::new(2).veth("veth0")), "virtual, 1 RX queue, no IRQ, RPS off, RFS off");
        let unmapped = Sketch::new(2).device("wlan0", &[0]).edit("wlan0", |nic| nic.rx[0].irqs.clear());
        assert_eq!(summary(unmapped), "virtio_net, 1 RX queue, IRQs unknown, RPS off, RFS off");
    }

    #[test]
    fn mixed_and_unknown_values_differ() {
        let (mut model, rates) = Sketch::new(8).device("eth0", &[0, 1]).build();
        model.nics[0].rx[1].rps_cpus = Fact::Known(cpus("4-7"));
        model.nics[0].rx[0].rps_flow_cnt = Fact::Denied(rxlab_base::units::Need::Root);
        let summary = ReceivePath::new(&model.nics[0], &model, &rates).summary;
        assert!(summary.ends_with("RPS on for 1 of 2 queues, RFS unknown"), "{summary}");
    }
}
