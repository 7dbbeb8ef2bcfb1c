//! The manipulation check: did the work go to the CPUs of the setting? If not, the slot is
//! void: comparing it would test nothing.

use rxlab_base::number::cpus_text;
use rxlab_base::units::{CpuMask, IrqId, NicName, QueueId};
use rxlab_path::model::{Model, Nic, Rates, RxQueue};
use rxlab_setting::{Setting, Target};

/// Below this many packets or interrupts per second placement cannot be judged.
const ENOUGH: f64 = 50.0;

/// Share of the events that must be on the CPUs of the setting. Half, because other interfaces,
/// queues and traffic share the counters.
const SHARE: f64 = 0.5;

/// Expected counters while a setting holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// Packets of `nic` go up the stack on `cpus`.
    Packets { nic: NicName, cpus: CpuMask },
    /// Interrupts land on `cpus`.
    Interrupts { irq: IrqId, cpus: CpuMask },
}

/// Visible effects of `settings`. Settings without a visible placement (RFS follows the
/// application) give none; apply reads their values back. With RFS among the settings, RPS
/// masks give none either, since RFS bypasses the mask.
pub fn expectations(settings: &[Setting], model: &Model) -> Vec<Expectation> {
    let steered_by_flow = settings.iter().any(|setting| setting.knob.starts_with("rfs"));
    let mut found: Vec<Expectation> =
        settings.iter().flat_map(|setting| interrupts(setting, model)).collect();
    if !steered_by_flow {
        found.extend(model.nics.iter().filter_map(|nic| packets(settings, nic)));
    }
    found
}

fn interrupts(setting: &Setting, model: &Model) -> Vec<Expectation> {
    let (Ok(cpus), "irq_affinity") = (setting.value.parse::<CpuMask>(), setting.knob.as_str()) else {
        return Vec::new();
    };
    let Some(nic) = setting.target.nic().and_then(|nic| model.nic(nic)) else { return Vec::new() };
    let irqs = rxlab_setting::interrupts(nic, &setting.target);
    irqs.iter().map(|irq| Expectation::Interrupts { irq: irq.number, cpus: cpus.clone() }).collect()
}

/// Expected CPUs of an interface's packets: those of all its queues' masks together, since the
/// counters do not distinguish queues. `None` unless every queue gets a mask: packets of other
/// queues go wherever their interrupts land.
fn packets(settings: &[Setting], nic: &Nic) -> Option<Expectation> {
    let mask = |rx: &RxQueue| -> Option<CpuMask> {
        let target = Target::Queue { nic: nic.name.clone(), queue: QueueId::rx(rx.index) };
        let setting = settings.iter().find(|setting| setting.knob == "rps" && setting.target == target)?;
        setting.value.parse().ok()
    };
    let masks = nic.rx.iter().map(mask).collect::<Option<Vec<CpuMask>>>()?;
    let cpus = masks.iter().fold(CpuMask::new(), |all, mask| all.union(mask));
    (!cpus.is_empty()).then(|| Expectation::Packets { nic: nic.name.clone(), cpus })
}

/// Reason why `rates` contradict `expectations`, or `None`.
pub fn contradiction(expectations: &[Expectation], rates: &Rates) -> Option<String> {
    expectations.iter().find_map(|expectation| match expectation {
        Expectation::Packets { nic, cpus } => {
            let total = rates.nic(nic)?.rx_packets;
            let there: f64 =
                rates.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)).map(|cpu| cpu.packets).sum();
            (total >= ENOUGH && there < SHARE * total).then(|| {
                format!("{there:.0} of {total:.0} packets/s of {nic} were received on {}", cpus_text(cpus))
            })
        }
        Expectation::Interrupts { irq, cpus } => {
            let counts = &rates.irqs.iter().find(|rates| rates.irq == *irq)?.per_cpu;
            let total: f64 = counts.values().sum();
            // Not `sum`: that of nothing is -0, and reads so.
            let there =
                counts.iter().filter(|(cpu, _)| cpus.contains(**cpu)).fold(0.0, |sum, (_, rate)| sum + rate);
            (total >= ENOUGH && there < SHARE * total).then(|| {
                format!("{there:.0} of {total:.0} interrupts/s of IRQ {irq} landed on {}", cpus_text(cpus))
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Expectation, contradiction, expectations};
    use rxlab_path::sketch::Sketch;
    use rxlab_setting::Setting;

    fn settings(texts: &[&str]) -> Vec<Setting> {
        texts.iter().map(|text| text.parse().expect("a setting")).collect()
    }

    /// Contradiction of `texts` by 4,000 packets/s on two queues, half on CPU 1 and half on CPU 2.
    fn says(texts: &[&str]) -> Option<String> {
        let sketch = Sketch::new(4).device("eth0", &[0, 3]).traffic("eth0", 4e3);
        let (model, rates) = sketch.receives(1, 0.1, 2e3).receives(2, 0.1, 2e3).build();
        contradiction(&expectations(&settings(texts), &model), &rates)
    }

    /// Each of two queues with a CPU of its own has half of the packets there, each of four a quarter:
    /// judged individually against all packets, no slot would ever count.
    #[test]
    fn the_masks_of_all_queues_are_judged_together() {
        assert_eq!(says(&["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 2"]), None);
        assert_eq!(
            says(&["rps eth0/rx-0 = 0", "rps eth0/rx-1 = 3"]).as_deref(),
            Some("60 of 4000 packets/s of eth0 were received on CPUs 0,3")
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_judged() {
        assert_eq!(says(&["rps eth0/rx-0 = 0"]), None, "where rx-1 goes is not said");
        assert_eq!(says(&["rps eth0/rx-0 = 0", "rps eth0/rx-1 = 3", "rfs eth0/rx-0 = 64"]), None);
        assert_eq!(says(&["rps eth0/rx-0 = off", "rps eth0/rx-1 = off"]), None);
    }

    #[test]
    fn an_interrupt_that_stays_is_seen() {
        let (model, rates) = Sketch::new(4).device("eth0", &[0]).build();
        let found = expectations(&settings(&["irq_affinity eth0/rx-0 = 2"]), &model);
        assert!(matches!(&found[..], [Expectation::Interrupts { .. }]));
        assert_eq!(
            contradiction(&found, &rates).as_deref(),
            Some("0 of 50 interrupts/s of IRQ 41 landed on CPU 2")
        );
        let (model, rates) = Sketch::new(4).device("eth0", &[2]).build();
        let found = expectations(&settings(&["irq_affinity eth0/rx-0 = 2"]), &model);
        assert_eq!(contradiction(&found, &rates), None);
    }
}
