//! Links between queues and interrupts that the counters refute.
//!
//! A name may be that of another device: since Linux 6.2 an interface can be renamed while it is up (bd039b5ea2a9), and its
//! interrupts keep their names. An order may be that of the device tree, which has the wake-up interrupt where it likes.

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::TRAFFIC;
use crate::model::irq_names::{has_word, is_of_no_queue};
use crate::model::{Contradiction, Irq, Model, Nic, NicKind, Rates, Source};
use rxlab_base::number::count;
use rxlab_base::units::{IrqId, QueueId};

/// Packets for each interrupt from which it may not be what brings them. A run of the softirq takes 300 (`netdev_budget`); a
/// full CPU, a program that polls, or deferred interrupts make more of them possible.
const MANY: f64 = 300.0;

/// Interrupts for each packet, received or sent, from which these do not explain them.
const UNEXPLAINED: f64 = 2.0;

/// A receive queue whose packets are counted, or several that are counted together.
struct Served {
    nic: usize,
    queue: u32,
    irqs: BTreeSet<IrqId>,
    /// The weakest proof of its links.
    source: Source,
    packets: f64,
}

/// What brings the packets of a queue, if its own interrupt does not.
enum Instead {
    /// An interrupt of the device that no queue has.
    Own,
    /// An interrupt of a queue whose packets do not explain it, of this interface.
    Queue(usize),
}

impl Model {
    /// Removes links that the counters of these rates refute: the interrupt fires far too seldom for the queue's packets, and
    /// another one that may be the queue's fires often enough and has nothing else to fire for. Then all links of the interface
    /// with that proof are wrong, and those of the interface whose name the other one has.
    ///
    /// Busy polling, deferred interrupts and full CPUs refute nothing: they make no other interrupt fire. Neither does the
    /// kernel's own answer need a proof.
    pub fn refute(&mut self, rates: &Rates) {
        let fired: BTreeMap<IrqId, f64> =
            rates.irqs.iter().map(|irq| (irq.irq, irq.per_cpu.values().sum())).collect();
        let served: Vec<Served> =
            self.nics.iter().enumerate().flat_map(|(at, nic)| served(at, nic, rates)).collect();
        let mut explained: BTreeMap<IrqId, f64> = BTreeMap::new();
        for one in &served {
            let sent = rates.nic(&self.nics[one.nic].name).map_or(0.0, |nic| nic.tx_packets);
            for irq in &one.irqs {
                *explained.entry(*irq).or_default() += one.packets + sent;
            }
        }
        let mut wrong: BTreeMap<usize, Option<Contradiction>> = BTreeMap::new();
        for one in served.iter().filter(|one| one.source != Source::Netlink && one.packets >= TRAFFIC) {
            let rates_of: Option<Vec<f64>> = one.irqs.iter().map(|irq| fired.get(irq).copied()).collect();
            let Some(own) = rates_of.map(|rates| rates.iter().sum::<f64>()) else { continue };
            let fits = |irq: &IrqId| fired.get(irq).is_some_and(|rate| rate * MANY >= one.packets);
            if own * MANY >= one.packets {
                continue;
            }
            let nic = &self.nics[one.nic];
            let is_idle =
                |irq: &Irq| fits(&irq.number) && !is_of_no_queue(&irq.action, nic.driver.as_deref());
            let is_other = |other: &&Served| {
                let has_name = |at: usize, irq: &IrqId| {
                    let nic = &self.nics[at];
                    let mut own =
                        nic.rx.iter().flat_map(|queue| &queue.irqs).filter(|own| own.number == *irq);
                    own.any(|irq| irq.actions().any(|action| has_word(action, nic.name.as_str())))
                };
                let by_name = |served: &Served| {
                    served.source != Source::MsiName
                        && served.irqs.iter().all(|irq| has_name(served.nic, irq))
                };
                let has_nothing_else =
                    |irq: &IrqId| fired[irq] > explained[irq] * UNEXPLAINED && fired[irq] >= TRAFFIC / 10.0;
                other.source != Source::Netlink
                    && (other.nic == one.nic || by_name(one) && by_name(other))
                    && other.irqs.iter().any(|irq| fits(irq) && has_nothing_else(irq))
            };
            let instead = if one.source != Source::MsiName && nic.other_irqs.iter().any(is_idle) {
                Instead::Own
            } else if let Some(other) = served.iter().find(is_other) {
                Instead::Queue(other.nic)
            } else {
                continue;
            };
            if let Instead::Queue(other) = instead {
                wrong.entry(other).or_default();
            }
            wrong.entry(one.nic).or_default().get_or_insert_with(|| contradiction(one, own));
        }
        for (at, contradiction) in wrong {
            let nic = &mut self.nics[at];
            let mut removed = BTreeMap::new();
            for queue in &mut nic.rx {
                let (kept, wrong): (Vec<Irq>, Vec<Irq>) = std::mem::take(&mut queue.irqs)
                    .into_iter()
                    .partition(|irq| irq.source == Source::Netlink);
                queue.irqs = kept;
                removed.extend(wrong.into_iter().map(|irq| (irq.number, irq)));
            }
            let others = removed.into_values().map(|irq| Irq { source: Source::Name, ..irq });
            nic.other_irqs.extend(others);
            nic.other_irqs.sort_by_key(|irq| irq.number);
            nic.contradictions.extend(contradiction);
        }
    }
}

/// The queues of a device that have interrupts, each with its packets; together if they are not counted apart.
fn served(at: usize, nic: &Nic, rates: &Rates) -> Vec<Served> {
    let Some(counted) = rates.nic(&nic.name).filter(|_| nic.kind == NicKind::Device) else {
        return Vec::new();
    };
    let is_counted = nic.rx.iter().all(|queue| counted.queues.contains_key(&queue.index));
    let one = |queues: &[crate::model::RxQueue], packets: f64| {
        let irqs = || queues.iter().flat_map(|queue| &queue.irqs);
        let is_linked = queues.iter().all(|queue| !queue.irqs.is_empty());
        let source = irqs().map(|irq| irq.source).max().filter(|_| is_linked)?;
        let irqs = irqs().map(|irq| irq.number).collect();
        Some(Served { nic: at, queue: queues.first()?.index, irqs, source, packets })
    };
    if is_counted && nic.rx.len() > 1 {
        nic.rx
            .iter()
            .filter_map(|queue| one(std::slice::from_ref(queue), counted.queues[&queue.index]))
            .collect()
    } else {
        one(&nic.rx, counted.rx_packets).into_iter().collect()
    }
}

fn contradiction(served: &Served, fired: f64) -> Contradiction {
    let irqs: Vec<String> = served.irqs.iter().map(ToString::to_string).collect();
    let by = if served.source == Source::Order { "order" } else { "name" };
    Contradiction {
        queue: QueueId::rx(served.queue),
        what: "IRQ".to_owned(),
        believed: format!(
            "counters: unknown, {} interrupts/s of {} for {} packets/s",
            count(fired),
            irqs.join(", "),
            count(served.packets)
        ),
        other: format!("{by}: {}", irqs.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Model, Rates};
    use crate::sample::{Counters, Inventory, Scope};
    use rxlab_sys::RecordedHost;

    /// A machine at one of two moments, ten seconds apart.
    struct Machine<'a> {
        driver: &'a str,
        /// Interfaces with packets/s received, by queue if several.
        nics: &'a [(&'a str, &'a [u64])],
        /// Interrupts with their names and interrupts/s.
        irqs: &'a [(u32, &'a str, u64)],
    }

    impl Machine<'_> {
        fn at(&self, seconds: u64) -> RecordedHost {
            let mut host = RecordedHost::new()
                .at_ns((1_000 + seconds) * 1_000_000_000)
                .with("proc/stat", format!("cpu0 0 0 0 {} 0 0 0 0 0 0\n", 100 * seconds))
                .with("proc/sys/kernel/osrelease", "6.6.0\n");
            for (at, (nic, queues)) in self.nics.iter().enumerate() {
                let base = format!("sys/class/net/{nic}");
                let link = format!("../../devices/platform/fe1{at}0000.ethernet/net/{nic}");
                host = host
                    .with_link(&base, &link)
                    .with_link(
                        &format!("{base}/device/driver"),
                        &format!("../../bus/drivers/{}", self.driver),
                    )
                    .with(&format!("{base}/ifindex"), format!("{}\n", at + 2))
                    .with(&format!("{base}/operstate"), "up\n");
                let received: u64 = queues.iter().sum();
                for (file, rate) in [("rx_packets", received), ("rx_bytes", received), ("tx_packets", 20)] {
                    host =
                        host.with(&format!("{base}/statistics/{file}"), format!("{}\n", 9 + rate * seconds));
                }
                for file in ["tx_bytes", "rx_dropped", "rx_missed_errors"] {
                    host = host.with(&format!("{base}/statistics/{file}"), "0\n");
                }
                for queue in 0..queues.len() {
                    host = host.with(&format!("{base}/queues/rx-{queue}/rps_cpus"), "0\n");
                }
            }
            let line = |(irq, name, rate): &(u32, &str, u64)| {
                format!(" {irq}: {} GICv3 {irq} Level {name}\n", 100 + rate * seconds)
            };
            let lines: String = self.irqs.iter().map(line).collect();
            host.with("proc/interrupts", format!("  CPU0\n{lines}"))
        }

        /// The interrupts of each interface's queues, and the number of contradictions.
        fn links(&self) -> (Vec<Vec<Vec<u32>>>, usize) {
            let (first, last) = (self.at(0), self.at(10));
            let inventory = Inventory::take(&last, Scope::Load);
            let [before, after] = [&first, &last].map(|host| Counters::take(host, &inventory));
            let mut model = Model::new(&inventory);
            model.refute(&Rates::between(&before, &after).expect("an interval"));
            let links = model.nics.iter().map(|nic| {
                nic.rx.iter().map(|queue| queue.irqs.iter().map(|irq| irq.number.0).collect()).collect()
            });
            (links.collect(), model.nics.iter().map(|nic| nic.contradictions.len()).sum())
        }
    }

    /// The device tree has the wake-up interrupt first.
    #[test]
    fn the_first_of_one_name_that_never_fires() {
        let links = |packets, first, second| {
            let irqs = [(51, "eth0", first), (52, "eth0", second)];
            Machine { driver: "rk_gmac-dwmac", nics: &[("eth0", &[packets])], irqs: &irqs }.links()
        };
        assert_eq!(links(60_000, 0, 12_000), (vec![vec![vec![]]], 1));
        assert_eq!(links(60_000, 12_000, 0), (vec![vec![vec![51]]], 0));
        assert_eq!(links(0, 0, 0), (vec![vec![vec![51]]], 0), "idle");
        assert_eq!(links(900_000, 5, 0), (vec![vec![vec![51]]], 0), "polled by a program, or full");
        assert_eq!(links(60_000, 300, 12_000), (vec![vec![vec![51]]], 0), "200 packets an interrupt");
    }

    /// Two interfaces that swapped their names while up.
    #[test]
    fn interrupts_of_a_renamed_interface() {
        let links = |packets: [u64; 2], rates: [u64; 2]| {
            let irqs = [(78, "eth0", rates[0]), (79, "eth0", 0), (80, "eth1", rates[1]), (81, "eth1", 0)];
            let nics: [(&str, &[u64]); 2] = [("eth0", &packets[..1]), ("eth1", &packets[1..])];
            Machine { driver: "rk_gmac-dwmac", nics: &nics, irqs: &irqs }.links()
        };
        let right = vec![vec![vec![78]], vec![vec![80]]];
        assert_eq!(links([300, 70_000], [14_000, 20]), (vec![vec![vec![]]; 2], 1));
        assert_eq!(links([300, 70_000], [200, 14_000]), (right.clone(), 0));
        assert_eq!(links([9_000, 70_000], [14_000, 20]), (right.clone(), 0), "it has packets of its own");
        assert_eq!(links([300, 700_000], [10, 20]), (right, 0), "nothing fires instead");
    }

    #[test]
    fn names_of_queues_of_a_renamed_interface() {
        let irqs: Vec<(u32, String, u64)> = [("eth0", 121, 5_600), ("eth1", 126, 50)]
            .into_iter()
            .flat_map(|(nic, first, rate)| {
                (0..2).map(move |queue| (first + queue, format!("{nic}-TxRx-{queue}"), rate))
            })
            .collect();
        let irqs: Vec<(u32, &str, u64)> =
            irqs.iter().map(|(irq, name, rate)| (*irq, name.as_str(), *rate)).collect();
        let nics: [(&str, &[u64]); 2] = [("eth0", &[100, 300]), ("eth1", &[2_000, 140_000])];
        let links = Machine { driver: "igc", nics: &nics, irqs: &irqs }.links();
        assert_eq!(links, (vec![vec![vec![]; 2]; 2], 1));
    }
}
