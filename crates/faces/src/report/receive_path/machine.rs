//! The machine in a few lines: hardware, and the settings that plans depend on.

use super::cells::{Footnotes, list, ranges};
use crate::report::text::{STRONG, clean, paragraph, styled};
use rxlab_base::parse::IrqbalanceArguments;
use rxlab_base::units::{CpuMask, Need};
use rxlab_path::model::{Fact, Model};

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
    let power = power(model);
    let power = if power.is_empty() { power } else { paragraph("", &power) };
    host + &paragraph("", &time_and_tables(model, notes)) + &power + &paragraph("", &irqbalance(model, notes))
}

fn cpus(model: &Model, notes: &mut Footnotes) -> String {
    let cpus = match &model.unknown_cpus {
        Some(why) => format!("CPUs unknown ({why})"),
        None => format!("CPUs {}", list(&model.online())),
    };
    let mut parts = vec![format!("kernel {}", model.identity.kernel), cpus];
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
    let settings = &model.settings;
    for (name, fact) in [("rcu_nocbs", &settings.rcu_nocbs), ("irqaffinity", &settings.irqaffinity)] {
        match fact {
            // Recorded by a version that did not read it, or not named at boot.
            Fact::NotAsked | Fact::Unsupported => {}
            Fact::Known(cpus) if cpus.is_empty() => {}
            fact => parts.push(format!("{name} {}", notes.word(fact, name, CpuMask::to_string))),
        }
    }
    if let Fact::Known(cpus) = &settings.workqueue_cpus
        && !model.online().difference(cpus).is_empty()
    {
        parts.push(format!("unbound kernel work on {}", list(cpus)));
    }
    match &model.settings.cpuset {
        Fact::Unsupported => {}
        Fact::Known(cpus) if model.online().difference(cpus).is_empty() => {}
        fact => parts.push(format!("cpuset {}", notes.word(fact, "cpuset of the root group", list))),
    }
    parts.join(", ")
}

/// Governors of the CPUs' frequency, and the deepest idle state allowed; empty if neither is known.
fn power(model: &Model) -> String {
    let governors = model.settings.governors.known().map(|found| match found.len() {
        1 => found.keys().cloned().collect(),
        _ => found.iter().map(|(name, cpus)| format!("{name} {cpus}")).collect::<Vec<_>>().join(", "),
    });
    let states = model.settings.idle_states.known();
    let deepest = states.and_then(|states| states.iter().rev().find(|state| !state.disabled));
    let governors = governors.map(|governors| format!("governor {governors}"));
    let deepest = deepest.map(|state| format!("deepest C-state {} (exit {} us)", state.name, state.exit_us));
    [governors, deepest].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn time_and_tables(model: &Model, notes: &mut Footnotes) -> String {
    let settings = &model.settings;
    let clock = notes.word(&settings.clocksource, "clocksource", |clock| clock.current.clone());
    let softirq = notes.word(&settings.exact_softirq_time, "accounting of softirq time", |exact| {
        if *exact { "exact" } else { "rough: ticks" }.to_owned()
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

/// What irqbalance's command line excludes by name or by a script.
fn excluded(arguments: &IrqbalanceArguments) -> String {
    let names = arguments.banned_names.iter().map(|name| format!(", banned names *{name}*"));
    let script = arguments.policy_script.iter().map(|script| format!(", policy script {script}"));
    names.chain(script).collect()
}

fn irqbalance(model: &Model, notes: &mut Footnotes) -> String {
    let mut text = match &model.irqbalance {
        Fact::Known(None) => "irqbalance not running".to_owned(),
        Fact::Known(Some(irqbalance)) => {
            let irqs = notes.word(&irqbalance.banned_irqs, "IRQs banned from irqbalance", |irqs| {
                ranges(irqs.iter().map(|irq| irq.0))
            });
            let cpus = notes.word(&irqbalance.banned_cpus, "CPUs banned from irqbalance", list);
            let file = match irqbalance.banned_cpus_file.as_str() {
                "" => String::new(),
                file => format!(" ({file})"),
            };
            let pid = irqbalance.pid;
            let by_arguments = irqbalance.arguments.known().map(excluded).unwrap_or_default();
            format!(
                "irqbalance running (pid {pid}), banned IRQs {irqs}, banned CPUs {cpus}{file}{by_arguments}"
            )
        }
        Fact::Denied(Need::AllProcesses) => "irqbalance: unknown (not all processes are visible)".to_owned(),
        Fact::Unsupported => "irqbalance: unknown (no processes are visible)".to_owned(),
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
    use crate::report::{sample_model, text};
    use rxlab_base::parse::IrqbalanceArguments;
    use rxlab_base::units::{CpuMask, Need};
    use rxlab_path::model::{Fact, IdleState, Irqbalance, Model};

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
    fn boot_arguments_and_power() {
        let mut model = sample_model::machine(4, 1);
        let cpus = |list: &str| Fact::Known(list.parse::<CpuMask>().expect("a list"));
        let settings = &mut model.settings;
        (settings.irqaffinity, settings.rcu_nocbs) = (cpus("0-1"), cpus("2-3"));
        settings.workqueue_cpus = cpus("0");
        let governor = |name: &str, list: &str| (name.to_owned(), list.parse::<CpuMask>().expect("a list"));
        settings.governors =
            Fact::Known([governor("performance", "0-1"), governor("schedutil", "2-3")].into());
        let state = |name: &str, exit_us, disabled| IdleState { name: name.to_owned(), exit_us, disabled };
        let states = vec![state("POLL", 0, false), state("C1", 2, false), state("C6", 170, true)];
        settings.idle_states = Fact::Known(states);
        let text = plain(&model).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "rcu_nocbs 2-3, irqaffinity 0-1, unbound kernel work on 0",
            "governor performance 0-1, schedutil 2-3, deepest C-state C1 (exit 2 us)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn tuned_without_a_profile_is_not_a_blank() {
        let mut model = sample_model::machine(2, 1);
        model.settings.tuned_profile = Fact::Known(String::new());
        assert!(plain(&model).contains("no tuned profile active"));
    }

    #[test]
    fn what_irqbalance_was_started_with_is_said() {
        let mut model = sample_model::machine(2, 1);
        model.irqbalance = Fact::Known(Some(Irqbalance {
            pid: 7,
            banned_irqs: Fact::Known(Vec::new()),
            banned_cpus: Fact::Known("1".parse().expect("a list")),
            banned_cpus_file: "/etc/default/irqbalance".to_owned(),
            arguments: Fact::Known(IrqbalanceArguments {
                banned_names: vec!["mlx5".to_owned()],
                policy_script: Some("/etc/policy".to_owned()),
                ..IrqbalanceArguments::default()
            }),
        }));
        let said = plain(&model).split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            "banned CPUs 1 (/etc/default/irqbalance), banned names *mlx5*, policy script /etc/policy";
        assert!(said.contains(expected), "{said}");
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
            ..Irqbalance::default()
        }));
        insta::assert_snapshot!(plain(&model));
        let said = |irqbalance| plain(&Model { irqbalance, ..sample_model::machine(2, 1) });
        let hidden = said(Fact::Denied(Need::AllProcesses));
        assert!(hidden.ends_with("irqbalance: unknown (not all processes are visible)\n"), "{hidden}");
        let hidden = said(Fact::Unsupported);
        assert!(hidden.ends_with("irqbalance: unknown (no processes are visible)\n"), "{hidden}");
    }
}
