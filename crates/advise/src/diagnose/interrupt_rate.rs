//! A device without interrupt moderation raises an interrupt for every packet or two, on a CPU short of time.

use super::figures::{Evidence, Subject};
use super::workload::interrupts;
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::{NO_DOUBLING, irq_cpus, queue_packets, receive_time, receiving};
use rxlab_path::model::{CpuRates, Function, Model, Nic, Rates};

/// Interrupts/s on one CPU: at about 2 us each, with the cache misses they cause, 4 % of it.
pub(crate) const INTERRUPTS: f64 = 20_000.0;

/// Packets per interrupt from which there is little left to save.
const PACKETS: f64 = 4.0;

pub(super) const RULE: Rule = Rule {
    id: "interrupt-rate",
    asks: "Does a device raise an interrupt for almost every packet although its CPU is short of time?",
    fires: || {
        format!(
            "a device with moderation off (rx-usecs 0, not adaptive, no deferral in software, which needs \
             both its settings) raises {} interrupts/s on one CPU with fewer than {} packets per interrupt, \
             and that CPU spends {} of its time in interrupts and softirq",
            count(INTERRUPTS),
            count(PACKETS),
            percent(NO_DOUBLING)
        )
    },
    silent: "moderation is on or not reported, the CPU has time, or NAPI already polls many packets per \
             interrupt",
    evidence: "interrupts/s, packets/s and packets per interrupt, the moderation, the CPU's time in \
               interrupts and softirq",
    cause: "Without moderation an interrupt arrives as soon as NAPI re-enables interrupts: a fast enough CPU \
            takes one for every packet or two.",
    remedy: "Moderate interrupts: adaptively if the driver can, otherwise by 10 to 50 us; or defer them in \
             software (napi_defer_hard_irqs and gro_flush_timeout).",
    source: "ethtool(8) -C; Documentation/networking/napi.rst (Software IRQ coalescing)",
    check: Check::Device(finding),
};

/// True if neither the device nor the kernel (which needs a count of polls and a time) holds interrupts back.
/// Values of 1 and more are left alone: some drivers (ixgbe, igb, e1000e) mean "adaptive" by 1 or 3.
pub(crate) fn is_off(nic: &Nic) -> bool {
    let by_device = nic.hardware.coalesce.known().is_some_and(|set| {
        set.rx_usecs == Some(0)
            && set.adaptive_rx != Some(true)
            && set.rx_frames.is_none_or(|frames| frames <= 1)
    });
    by_device && !is_deferred(nic)
}

/// True if software defers interrupts, or may: the kernel does so only with both set (napi_complete_done).
fn is_deferred(nic: &Nic) -> bool {
    nic.napi.defer_hard_irqs.known().is_some_and(|times| *times > 0)
        && nic.napi.gro_flush_timeout_ns.known() != Some(&0)
}

/// The missing setting, if only one of the two for software deferral is set.
fn half(nic: &Nic) -> Option<&'static str> {
    let defer = *nic.napi.defer_hard_irqs.known()?;
    let timeout = *nic.napi.gro_flush_timeout_ns.known()?;
    match (defer, timeout) {
        (1.., 0) => Some("napi_defer_hard_irqs is set, but gro_flush_timeout is 0"),
        (0, 1..) => Some("gro_flush_timeout is set, but napi_defer_hard_irqs is 0"),
        _ => None,
    }
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    if !is_off(nic) {
        return None;
    }
    let on = |cpu: &CpuRates| {
        let here = nic.rx.iter().filter(|queue| irq_cpus(queue, model, rates).contains(cpu.cpu));
        here.fold((0.0, 0.0), |(rings, packets), queue| {
            (rings + interrupts(queue, rates), packets + queue_packets(nic, queue, rates))
        })
    };
    let caught = rates.cpus.iter().map(|cpu| (cpu, on(cpu))).filter(|(cpu, (rings, packets))| {
        *rings >= INTERRUPTS && *packets < PACKETS * rings && receiving(cpu) >= NO_DOUBLING
    });
    let (cpu, (rings, packets)) = caught.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (id, name) = (cpu.cpu, &nic.name);
    let each = packets / rings;
    let deferral = format!(
        "defer in software: set napi_defer_hard_irqs to 2 and gro_flush_timeout to 20000 (ns) in \
         /sys/class/net/{name}"
    );
    let remedy = match nic.hardware.function {
        Function::Paravirtual => deferral,
        _ => format!(
            "ethtool -C {name} adaptive-rx on, or rx-usecs 20 if the driver cannot adapt; or {deferral}"
        ),
    };
    Some(Finding {
        severity: Severity::Warning,
        cpu: Some(id),
        title: format!("{name}: {} interrupts/s on CPU {id}, {each:.1} packets each", count(rings)),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                let (rings, packets) = (seen.rate("interrupts", rings), seen.packets("packets", packets));
                format!("{name}: {rings} interrupts/s for {packets} packets/s on CPU {id}")
            }),
            Evidence::about(Subject::Cpu(id), |seen| {
                format!(
                    "CPU {id}: {} of its time in softirq ({}), {} in hard interrupts",
                    seen.percent("receive_time", receive_time(cpu)),
                    seen.tier(rates),
                    seen.percent("irq", cpu.irq)
                )
            }),
            Evidence::fact(
                Subject::nic(nic),
                match half(nic) {
                    Some(half) => format!("{name}: rx-usecs 0, not adaptive; {half}: no deferral"),
                    None => format!("{name}: rx-usecs 0, not adaptive, no deferral in software"),
                },
            ),
        ],
        why: match half(nic) {
            Some(half) => format!("{half}: without both nothing is deferred, and the CPU is short of time"),
            None => {
                "moderation is off: every packet or two costs an interrupt on a CPU that is short of time"
                    .to_owned()
            }
        },
        remedy,
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;

    fn host(rings: f64, packets: f64, softirq: f64) -> Sketch {
        let sketch = Sketch::new(32).nodes(2).device("eth0", &[16]).driver("eth0", "ixgbevf");
        let sketch = sketch.traffic("eth0", packets).interrupts("eth0", rings).receives(16, softirq, packets);
        sketch.moderation("eth0", 0, false)
    }

    /// Field case C before moderation: 120k requests/s on one queue, one CPU at 100 %. Its interrupt rate was
    /// not published; this one is made up.
    #[test]
    fn field_case_c_before_moderation() {
        let found = host(80_000.0, 1.2e5, 0.99).titles(&RULE);
        assert_eq!(found, ["eth0: 80,000 interrupts/s on CPU 16, 1.5 packets each"]);
    }

    fn deferral(times: Fact<u32>, timeout: Fact<u64>) -> Sketch {
        host(8e4, 1.2e5, 0.99).edit("eth0", |nic| {
            nic.napi.defer_hard_irqs = times;
            nic.napi.gro_flush_timeout_ns = timeout;
        })
    }

    /// One of the two settings alone was once taken for a deferral.
    #[test]
    fn half_a_deferral_is_none() {
        for (times, timeout, lacks) in
            [(2, 0, "gro_flush_timeout is 0"), (0, 20_000, "napi_defer_hard_irqs is 0")]
        {
            let found = deferral(Fact::Known(times), Fact::Known(timeout)).finding(&RULE);
            assert!(found.why.contains(lacks) && found.seen()[2].contains(lacks), "{found:?}");
        }
    }

    #[test]
    fn near_misses() {
        host(8e4, 1.2e5, 0.3).silent(&RULE, "time to spare");
        host(2.5e4, 1.2e5, 0.99).silent(&RULE, "NAPI polls five packets per interrupt");
        host(1.2e4, 1.2e4, 0.6).silent(&RULE, "field case B's 12,000 interrupts/s");
        host(8e4, 1.2e5, 0.99).moderation("eth0", 1, false).silent(&RULE, "dynamic, on ixgbevf");
        host(8e4, 1.2e5, 0.99).moderation("eth0", 0, true).silent(&RULE, "adaptive");
        deferral(Fact::Known(2), Fact::Known(20_000)).silent(&RULE, "deferred in software");
        deferral(Fact::Known(2), Fact::NotAsked).silent(&RULE, "it may be");
        let untold = host(8e4, 1.2e5, 0.99).edit("eth0", |nic| nic.hardware.coalesce = Fact::Unsupported);
        untold.silent(&RULE, "not reported");
    }

    #[test]
    fn a_device_that_a_hypervisor_makes_up_is_moderated_in_software() {
        let made_up =
            host(8e4, 1.2e5, 0.99).driven_by("eth0", "ixgbevf", rxlab_path::model::Function::Paravirtual);
        assert!(made_up.finding(&RULE).remedy.starts_with("defer in software"));
    }
}
