//! The machine in a few lines: hardware, and the settings that plans depend on.

use super::cells::{Footnotes, list, ranges};
use crate::model::{Fact, Model};
use crate::report::text::{STRONG, clean, paragraph, styled};
use crate::units::{CpuMask, Need};

/// The kernel's defaults for `netdev_budget_usecs`: two ticks, at 100, 250, 300 or 1000 ticks per second
/// (`net/core/hotdata.c`).
const BUDGET_USECS: [u32; 4] = [20_000, 8_000, 6_666, 2_000];

/// Returns the lines; broken facts go to `notes`.
pub(super) fn lines(model: &Model, notes: &mut Footnotes) -> String {
    let host = paragraph("", &format!("{}: {}", model.identity.hostname, cpus(model, notes)));
    // The name is the first word; a name broken over lines has no style.
    let name = clean(&model.identity.hostname);
    let host = match host.strip_prefix(&name) {
        Some(rest) => format!("{}{rest}", styled(STRONG, &name)),
        None => host,
    };
    host + &paragraph("", &time_and_tables(model, notes)) + &paragraph("", &irqbalance(model, notes))
}

fn cpus(model: &Model, notes: &mut Footnotes) -> String {
    let mut parts =
        vec![format!("kernel {}", model.identity.kernel), format!("CPUs {}", list(&model.online()))];
    let offline: CpuMask = model.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id).collect();
    if !offline.is_empty() {
        parts.push(format!("offline {offline}"));
    }
    let mut nodes = std::collections::BTreeMap::<u32, CpuMask>::new();
    for cpu in &model.cpus {
        if let Some(node) = cpu.node {
            nodes.entry(node).or_default().insert(cpu.id);
        }
    }
    if nodes.len() > 1 {
        parts.extend(nodes.iter().map(|(node, cpus)| format!("node {node} {cpus}")));
    }
    let isolated = model.isolated();
    if !isolated.is_empty() {
        parts.push(format!("isolated {isolated}"));
    }
    match &model.settings.nohz_full {
        // A kernel without nohz_full support has no such CPUs.
        Fact::Unsupported => {}
        Fact::Known(cpus) if cpus.is_empty() => {}
        fact => parts.push(format!("nohz_full {}", notes.word(fact, "nohz_full", CpuMask::to_string))),
    }
    match &model.settings.cpuset {
        Fact::Unsupported => {}
        Fact::Known(cpus) if model.online().difference(cpus).is_empty() => {}
        fact => parts.push(format!("cpuset {}", notes.word(fact, "cpuset of the root group", list))),
    }
    parts.join(", ")
}

fn time_and_tables(model: &Model, notes: &mut Footnotes) -> String {
    let settings = &model.settings;
    let clock = notes.word(&settings.clocksource, "clocksource", |clock| clock.current.clone());
    let softirq = notes.word(&settings.exact_softirq_time, "accounting of softirq time", |exact| {
        if *exact { "exact" } else { "tick-sampled" }.to_owned()
    });
    let flows = notes.word(&model.rps_sock_flow_entries, "rps_sock_flow_entries", |entries| match entries {
        0 => "0 (RFS off)".to_owned(),
        entries => entries.to_string(),
    });
    let mut parts = vec![
        format!("rps_sock_flow_entries {flows}"),
        format!("clocksource {clock}"),
        format!("softirq time {softirq}"),
    ];
    let numbers = [
        ("netdev_budget", &settings.netdev_budget, &[300][..], " (default 300)"),
        ("netdev_budget_usecs", &settings.netdev_budget_usecs, &BUDGET_USECS, " (default two ticks)"),
        ("netdev_max_backlog", &settings.netdev_max_backlog, &[1000], " (default 1000)"),
        ("dev_weight", &settings.dev_weight, &[64], " (default 64)"),
        ("gro_normal_batch", &settings.gro_normal_batch, &[8], " (default 8)"),
        // Linux 6.19 doubled it.
        ("skb_defer_max", &settings.skb_defer_max, &[64, 128], ""),
        ("busy_poll", &settings.busy_poll, &[0], ""),
        ("busy_read", &settings.busy_read, &[0], ""),
    ];
    for (name, fact, defaults, note) in numbers {
        // Defaults and settings that this kernel does not have are left out.
        if !matches!(fact, Fact::Unsupported) && !fact.known().is_some_and(|value| defaults.contains(value)) {
            parts.push(format!("{name} {}", notes.word(fact, name, |value| format!("{value}{note}"))));
        }
    }
    parts.join(", ")
}

fn irqbalance(model: &Model, notes: &mut Footnotes) -> String {
    let mut text = match &model.irqbalance {
        Fact::Known(None) => "irqbalance not running".to_owned(),
        Fact::Known(Some(irqbalance)) => {
            let irqs = notes.word(&irqbalance.banned_irqs, "IRQs banned from irqbalance", |irqs| {
                ranges(irqs.iter().map(|irq| irq.0))
            });
            let cpus = notes.word(&irqbalance.banned_cpus, "CPUs banned from irqbalance", list);
            format!("irqbalance running (pid {}), banned IRQs {irqs}, banned CPUs {cpus}", irqbalance.pid)
        }
        Fact::Denied(Need::AllProcesses) => {
            "irqbalance: not known (not all processes are visible)".to_owned()
        }
        Fact::Unsupported => "irqbalance: not known (no processes are visible)".to_owned(),
        fact => format!("irqbalance: {}", notes.word(fact, "irqbalance", |_| String::new())),
    };
    match &model.settings.tuned_profile {
        Fact::Unsupported => {}
        Fact::Known(profile) if profile.is_empty() => text += ", no tuned profile active",
        fact => text += &format!(", tuned {}", notes.word(fact, "tuned profile", String::clone)),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Footnotes, lines};
    use crate::model::{Fact, Irqbalance, Model};
    use crate::report::{sample_model, text};
    use crate::units::Need;

    fn plain(model: &Model) -> String {
        let mut notes = Footnotes::default();
        text::plain(&(lines(model, &mut notes) + &notes.render()))
    }

    #[test]
    fn what_is_as_the_kernel_made_it_is_not_said() {
        insta::assert_snapshot!(plain(&sample_model::machine(8, 1)));
    }

    #[test]
    fn what_was_changed_is() {
        insta::assert_snapshot!(plain(&sample_model::rich()));
    }

    #[test]
    fn tuned_without_a_profile_is_not_a_blank() {
        let mut model = sample_model::machine(2, 1);
        model.settings.tuned_profile = Fact::Known(String::new());
        assert!(plain(&model).contains("no tuned profile active"));
    }

    #[test]
    fn absence_is_said() {
        let mut model = sample_model::machine(2, 1);
        model.rps_sock_flow_entries = Fact::Denied(Need::Root);
        model.settings.clocksource = Fact::Unsupported;
        model.settings.exact_softirq_time = Fact::Unsupported;
        model.settings.netdev_budget = Fact::Broken("`x` is not a number".into());
        model.settings.cpuset = Fact::Known("0".parse().expect("a CPU list"));
        model.settings.nohz_full = Fact::Denied(Need::Root);
        model.irqbalance = Fact::Known(Some(Irqbalance {
            pid: 7,
            banned_irqs: Fact::Denied(Need::Root),
            banned_cpus: Fact::Known(Default::default()),
        }));
        insta::assert_snapshot!(plain(&model));
        let said = |irqbalance| plain(&Model { irqbalance, ..sample_model::machine(2, 1) });
        let hidden = said(Fact::Denied(Need::AllProcesses));
        assert!(hidden.ends_with("irqbalance: not known (not all processes are visible)\n"), "{hidden}");
        let hidden = said(Fact::Unsupported);
        assert!(hidden.ends_with("irqbalance: not known (no processes are visible)\n"), "{hidden}");
    }
}
