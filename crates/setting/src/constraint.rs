//! Settings that the constraints of a machine forbid.

use super::simulation::{all_irqs, is_to_come};
use super::{Setting, Target, interrupts, set_of};
use rxlab_base::parse::ethtool::ChannelKind;
use rxlab_base::units::CpuMask;
use rxlab_path::constraints::{Binds, Constraint, Constraints, Object};
use rxlab_path::model::Model;

/// The first constraint that forbids a setting, of those that bind at least `least`. Values that do not parse are not
/// forbidden: their knob refuses them.
pub fn forbids(all: &Constraints, model: &Model, setting: &Setting, least: Binds) -> Option<Constraint> {
    all.iter().filter(|one| one.binds >= least).find_map(|one| forbidden_by(one, model, setting))
}

fn forbidden_by(
    one: &Constraint,
    model: &Model,
    Setting { knob, target, value }: &Setting,
) -> Option<Constraint> {
    let nic = target.nic().and_then(|name| model.nic(name));
    match (&one.object, knob.as_str()) {
        (Object::Cpus(_), "rps" | "rps_default_mask") => one.among(&set_of(value)?),
        (Object::Cpus(_), "irq_affinity") => {
            // The kernel was told at boot to use these for interrupts.
            one.among(&cpus_of(value)?.difference(&model.assigned_at_boot()))
        }
        (Object::Irq(irq), "irq_affinity") => {
            let nic = nic?;
            let irqs = interrupts(nic, target);
            // Those of queues to come have the same controller.
            let comes = || irqs.iter().any(|own| is_to_come(own)) && all_irqs(nic).contains(irq);
            (irqs.iter().any(|own| own.number == *irq) || comes()).then(|| one.clone())
        }
        (Object::Vectors(full), "irq_affinity") => {
            let sent = cpus_of(value)?.intersection(&model.online());
            let comes = |cpus: &CpuMask| cpus.intersection(&sent).is_empty();
            let irqs = interrupts(nic?, target);
            let some_come = irqs.iter().any(|irq| irq.effective.known().is_some_and(comes));
            (some_come && sent.difference(full).is_empty()).then(|| one.clone())
        }
        (Object::Queues { nic: name, most }, "channels") if *target == Target::Nic(name.clone()) => {
            let receive = receive_queues(value)?;
            (receive > *most).then(|| one.clone())
        }
        _ => None,
    }
}

/// The CPUs of a list, or of one for each interrupt.
fn cpus_of(value: &str) -> Option<CpuMask> {
    value.split(';').try_fold(CpuMask::new(), |all, list| Some(all.union(&list.parse().ok()?)))
}

/// The receive queues of a number of channels: `combined 4`, `rx 2 tx 2`.
fn receive_queues(value: &str) -> Option<u32> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let receives =
        |word: &str| [ChannelKind::Combined, ChannelKind::Rx].iter().any(|kind| kind.word() == word);
    let counts = words.chunks(2).filter(|pair| receives(pair[0]));
    counts.map(|pair| pair.get(1)?.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::forbids;
    use rxlab_base::parse::{Xdp, XdpMode};
    use rxlab_base::units::Fact;
    use rxlab_path::constraints::{Binds, Constraints};
    use rxlab_path::model::{Irqbalance, Model, Rates};
    use rxlab_path::sketch::{Sketch, cpus};

    fn refused((model, rates): (Model, Rates), setting: &str, least: Binds) -> Option<String> {
        let all = Constraints::measured(&model, &rates);
        let setting = setting.parse().expect("a setting");
        forbids(&all, &model, &setting, least).map(|one| one.to_string())
    }

    fn said(sketch: Sketch, setting: &str) -> String {
        refused(sketch.build(), setting, Binds::Plans).unwrap_or_default()
    }

    fn host() -> Sketch {
        Sketch::new(8).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 4e4)
    }

    #[test]
    fn reserved_cpus_bind_everyone() {
        let isolated = || host().isolate("5-6");
        let everyone = |sketch: Sketch, set: &str| refused(sketch.build(), set, Binds::Everyone);
        assert_eq!(said(isolated(), "irq_affinity eth0/rx-0 = 2-5"), "CPU 5 is isolated at boot (isolcpus=)");
        assert_eq!(said(isolated(), "rps eth0/rx-0 = 4-7"), "CPUs 5-6 are isolated at boot (isolcpus=)");
        assert_eq!(said(isolated(), "rps eth0/rx-0 = off"), "");
        assert_eq!(said(isolated(), "irq_affinity eth0/rx-0 = 0-4,7"), "");
        assert_eq!(said(isolated(), "irq_affinity eth0/rx-0 = 0;6"), "CPU 6 is isolated at boot (isolcpus=)");
        assert_eq!(said(isolated(), "xps_cpus eth0/tx-0 = 5"), "", "sending is the program's own work");
        assert!(everyone(isolated(), "rps eth0/rx-0 = 5").is_some());
        let named = isolated().set(|settings| settings.irqaffinity = Fact::Known(cpus("0,5")));
        assert_eq!(said(named, "irq_affinity eth0/rx-0 = 5"), "", "named at boot for interrupts");
        let all = isolated().set(|settings| settings.irqaffinity = Fact::Known(cpus("0-7")));
        assert_eq!(said(all, "irq_affinity eth0/rx-0 = 5"), "CPU 5 is isolated at boot (isolcpus=)");
        let quiet = host().set(|settings| settings.nohz_full = Fact::Known(cpus("7")));
        assert_eq!(said(quiet, "irq_affinity eth0/rx-0 = 7"), "CPU 7 is tickless (nohz_full=)");
        let parted = host().set(|settings| settings.cpuset = Fact::Known(cpus("0-5")));
        assert_eq!(
            said(parted, "rps eth0/rx-0 = 6-7"),
            "CPUs 6-7 are not in the root control group, like those of an exclusive cpuset"
        );
        let partition = host().set(|settings| settings.cpuset_isolated = Fact::Known(cpus("4")));
        assert_eq!(said(partition, "rps eth0/rx-0 = 4"), "CPU 4 is in an isolated partition of cpusets");
    }

    /// A user may know why an interrupt should be on a CPU that irqbalance leaves: plans do not.
    #[test]
    fn cpus_banned_in_irqbalance_bind_plans() {
        let banned = |list: &str| {
            let irqbalance = Irqbalance { banned_cpus: Fact::Known(cpus(list)), ..Irqbalance::default() };
            host().tune(|model| model.irqbalance = Fact::Known(Some(irqbalance)))
        };
        assert_eq!(said(banned("6-7"), "rps eth0/rx-0 = 5-6"), "CPU 6 is banned in irqbalance");
        assert_eq!(refused(banned("6-7").build(), "rps eth0/rx-0 = 6", Binds::Everyone), None);
        assert_eq!(said(banned("3,7"), "irq_affinity eth0/rx-0 = 3"), "", "an interrupt was pinned there");
        assert_eq!(said(banned("0-7"), "rps eth0/rx-0 = 5"), "", "all: irqbalance was switched off so");
        assert_eq!(banned("6-7").build().0.usable(), cpus("0-5"));
        assert_eq!(banned("0-7").build().0.usable(), cpus("0-7"));
    }

    #[test]
    fn an_interrupt_that_was_never_placed() {
        let with = |effective: &'static [&'static str]| {
            host().edit("eth0", |nic| {
                for (queue, list) in nic.rx.iter_mut().zip(effective) {
                    queue.irqs[0].effective = Fact::Known(cpus(list));
                }
            })
        };
        let first = with(&["", "1", "2", "3"]);
        assert_eq!(
            said(first, "irq_affinity eth0/rx-0 = 4"),
            "interrupt 41 cannot be moved: the kernel reports no CPU for it"
        );
        assert_eq!(said(with(&["", "1", "2", "3"]), "irq_affinity eth0/rx-1 = 4"), "");
        assert!(
            said(with(&["", "", "", ""]), "irq_affinity eth0/rx-2 = 4").contains("cannot be moved"),
            "as of mvneta, and of the RP1 of a Raspberry Pi 5 (raspberrypi/linux#6077)"
        );
    }

    /// Field machine ice-vectors-exhausted.
    #[test]
    fn cpus_without_vectors() {
        let stuck = |rate: f64| {
            let sent = host().edit("eth0", |nic| nic.rx[3].irqs[0].affinity = Fact::Known(cpus("0-1")));
            sent.interrupts("eth0", rate)
        };
        assert_eq!(
            said(stuck(400.0), "irq_affinity eth0/rx-2 = 1"),
            "no interrupt vector is left on CPUs 0-1: interrupt 44, sent to CPUs 0-1, stays on CPU 3 although it fires"
        );
        assert_eq!(said(stuck(400.0), "irq_affinity eth0/rx-2 = 1,4"), "", "it may go to CPU 4");
        assert_eq!(said(stuck(400.0), "irq_affinity eth0/rx-0 = 0"), "", "it is there already");
        assert_eq!(said(stuck(0.0), "irq_affinity eth0/rx-2 = 1"), "", "it moves when it next fires");
    }

    #[test]
    fn numbers_of_queues() {
        let of = |driver: &str, mode: Option<XdpMode>| {
            let sketch = host().queues_at_most("eth0", 8).driver("eth0", driver);
            sketch.edit("eth0", |nic| nic.xdp = mode.map(|mode| Xdp { mode, program: Some(9) }))
        };
        let six = |driver, mode| said(of(driver, mode), "channels eth0 = combined 6");
        assert_eq!(
            six("ena", Some(XdpMode::Driver)),
            "ena allows 4 queues at most while XDP is attached to eth0"
        );
        assert_eq!(six("ena", Some(XdpMode::Generic)), "");
        assert_eq!(six("ena", None), "");
        assert_eq!(
            six("virtio_net", Some(XdpMode::Driver)),
            "virtio_net keeps the number of queues while XDP is attached to eth0"
        );
        let many = |table: &[u32]| {
            let sketch = host().queues_at_most("eth0", 63).driver("eth0", "ixgbe").table("eth0", table);
            said(sketch, "channels eth0 = combined 40")
        };
        assert_eq!(many(&[0, 1, 2, 3].repeat(32)), "RSS of eth0 reaches 16 queues at most");
        assert_eq!(many(&[0, 1, 2, 3].repeat(128)), "", "X550");
    }
}
