//! The clock is read through a device or the hypervisor although the CPU's own counter is available.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::count;
use rxlab_path::evidence::through_lo;
use rxlab_path::model::{Model, Rates};

/// Clocks that need a device access (a microsecond or more), an exit to the hypervisor, or a call that is
/// slower than the CPU's own counter. Not jiffies: coarse, but a read of memory.
pub(crate) const SLOW: [&str; 5] = ["hpet", "acpi_pm", "pit", "hyperv_clocksource_msr", "xen"];

/// The CPU's own counter, read from user space without a system call.
pub(crate) const FAST: &str = "tsc";

/// Packets/s from which a microsecond each, the cost of a timestamp, is 1 % of a CPU.
const PACKETS: f64 = 10_000.0;

pub(super) const RULE: Rule = Rule {
    id: "slow-clocksource",
    asks: "Is the clocksource slow although the CPU's own counter is available?",
    fires: || {
        format!(
            "the clocksource is one of {}, the kernel also offers {FAST}, and {} packets/s are received",
            SLOW.join(", "),
            count(PACKETS)
        )
    },
    silent: "the clock is tsc, kvm-clock, hyperv_clocksource_tsc_page, jiffies or that of another \
             architecture, the kernel does not offer tsc (it found it unstable), or there is little traffic",
    evidence: "the clocksource in use, those available, packets/s",
    cause: "Every packet timestamp and every time query of a server reads the clock; old virtual machine \
            types and boot options select a slow one.",
    remedy: "Change to tsc: the knob clocksource, or clocksource=tsc at boot.",
    source: "arch/x86/kernel/hpet.c (read_hpet) and drivers/clocksource/ (a device read, or an MSR that \
             exits to the hypervisor, for each clock read)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(clock) = model.settings.clocksource.known() else { return Vec::new() };
    let slow = SLOW.contains(&clock.current.as_str()) && clock.available.iter().any(|name| name == FAST);
    // On `lo` both ends of a bench run on this machine: its packets say nothing about a server's.
    let packets = rates.cpus.iter().map(|cpu| cpu.packets).sum::<f64>() - through_lo(model, rates);
    if !slow || packets < PACKETS {
        return Vec::new();
    }
    vec![Finding {
        severity: Severity::Note,
        title: format!("the clocksource is {}, though {FAST} is available", clock.current),
        evidence: vec![Evidence::about(Subject::Machine, |seen| {
            format!(
                "clocksource {}, offered: {}; {} packets/s",
                clock.current,
                clock.available.join(", "),
                seen.packets("packets", packets)
            )
        })],
        why: why(&clock.current).to_owned(),
        remedy: format!("change to {FAST}: rxlab apply --set \"clocksource host = {FAST}\""),
        ..RULE.finding()
    }]
}

fn why(current: &str) -> &'static str {
    match current {
        // No file shows whether it does (`xen_setup_vsyscall_time_info` of arch/x86/xen/time.c).
        "xen" => {
            "each time query of a program is a system call, unless Xen says that the CPU's counter is stable"
        }
        _ => "each packet timestamp and each time query takes longer than necessary",
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host(current: &str, others: &[&str]) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4).receives(0, 0.3, 5e4);
        sketch.clock(current, others)
    }

    #[test]
    fn a_slow_clock() {
        let found = host("hpet", &["tsc", "acpi_pm"]).finding(&RULE);
        assert_eq!(found.title, "the clocksource is hpet, though tsc is available");
        assert!(found.seen()[0].starts_with("clocksource hpet, offered: hpet, tsc, acpi_pm; 50,"));
        assert!(found.why.ends_with("takes longer than necessary"));
        let xen = host("xen", &["tsc"]).finding(&RULE);
        assert!(xen.why.ends_with("unless Xen says that the CPU's counter is stable"), "field case C");
        assert_eq!(
            host("hyperv_clocksource_msr", &["tsc"]).findings(&RULE).len(),
            1,
            "each read leaves the guest"
        );
    }

    #[test]
    fn near_misses() {
        host("tsc", &["hpet"]).silent(&RULE, "as it should be");
        host("kvm-clock", &["tsc"]).silent(&RULE, "as fast");
        host("jiffies", &["tsc"]).silent(&RULE, "coarse, not slow");
        host("hpet", &["tsc"]).loopback().traffic("lo", 4.5e4).silent(&RULE, "a bench on lo");
        host("hpet", &["acpi_pm"]).silent(&RULE, "the kernel found tsc unstable");
        host("arch_sys_counter", &[]).silent(&RULE, "another architecture");
        host("hpet", &["tsc"]).receives(0, 0.01, 50.0).silent(&RULE, "little traffic");
        let unknown =
            host("hpet", &["tsc"]).set(|now| now.clocksource = rxlab_base::units::Fact::Unsupported);
        unknown.silent(&RULE, "not known");
    }
}
