//! The families, each with its values.

use std::collections::BTreeMap;

use super::{Exposition, FINDINGS, Family, QUEUES, Row, SETTINGS, Value};
use rxlab_advise::diagnose::RULES;
use rxlab_base::units::QueueId;
use rxlab_change::apply::{Live, State, ValueStatus};
use rxlab_path::model::{CpuTotals, Nic, NicKind, RxQueue};

/// All families, in the order of the output.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "rxlab_build_info",
        labels: &["version"],
        help: "Version of the exporter.",
        read: |_| labelled([(env!("CARGO_PKG_VERSION"), Value::Whole(1))]),
    },
    Family {
        name: "rxlab_cpu_packets_total",
        labels: &["cpu"],
        help: "Packets that went up the stack on this CPU (softnet_stat).",
        read: |all| of_cpus(all, |cpu| cpu.packets),
    },
    Family {
        name: "rxlab_cpu_backlog_drops_total",
        labels: &["cpu"],
        help: "Packets dropped because the backlog of this CPU was full (softnet_stat).",
        read: |all| of_cpus(all, |cpu| cpu.dropped),
    },
    Family {
        name: "rxlab_cpu_time_squeezes_total",
        labels: &["cpu"],
        help: "NET_RX runs that stopped at their budget or time limit with work left (softnet_stat).",
        read: |all| of_cpus(all, |cpu| cpu.time_squeeze),
    },
    Family {
        name: "rxlab_cpu_net_rx_runs_total",
        labels: &["cpu"],
        help: "Runs of the NET_RX softirq (/proc/softirqs).",
        read: |all| of_cpus(all, |cpu| Some(cpu.net_rx_runs)),
    },
    Family {
        name: "rxlab_cpu_softirq_seconds_total",
        labels: &["cpu"],
        help: "Time in softirqs of all kinds as the kernel accounts it (/proc/stat); most kernels sample it by timer \
               ticks. rxlab_cpu_receive_time_ratio is more accurate.",
        read: |all| reals(all.totals.softirq_seconds()),
    },
    Family {
        name: "rxlab_cpu_receive_time_ratio",
        labels: &["cpu"],
        help: "Receive time of this CPU in the latest sample, as a fraction of wall time, as rxlab doctor reports it.",
        read: |all| {
            let times = all.judged.iter().flat_map(|judged| &judged.receive_time);
            reals(times.map(|(cpu, time)| (cpu, *time)))
        },
    },
    Family {
        name: "rxlab_headroom_ratio",
        labels: &["limit"],
        help: "Multiple of the load in the latest sample that fits until the CPU with the most receive work is full \
               (hottest_cpu), or all CPUs are (machine); at most 1000.",
        read: |all| {
            let headroom = all.judged.as_ref().and_then(|judged| judged.headroom);
            let limits = headroom.map(|room| [("hottest_cpu", room.hottest), ("machine", room.machine)]);
            reals(limits.into_iter().flatten())
        },
    },
    Family {
        name: "rxlab_interference_measured_seconds_total",
        labels: &[],
        help: "Length of the measurements of lost time with eBPF; 0 without eBPF. Rates of the families below divided by \
               the rate of this one are mean shares.",
        read: |all| alone(Value::Real(all.lost.measured)),
    },
    Family {
        name: "rxlab_cpu_interference_seconds_total",
        labels: &["cpu"],
        help: "Time that receive work took from tasks that did not ask for it, interrupts included, in the measured time.",
        read: |all| reals(all.lost.cpus.iter().map(|(cpu, lost)| (cpu, *lost))),
    },
    Family {
        name: "rxlab_receive_seconds_total",
        labels: &["class"],
        help: "Receive time of all CPUs by class (docs/interference.md), in the measured time. nic_irq, rps_ipi, other_irq, \
               other_softirq and unknown are interference.",
        read: |all| reals(all.lost.classes.iter().map(|(class, time)| (label(class.name()), *time))),
    },
    Family {
        name: "rxlab_hard_irq_seconds_total",
        labels: &[],
        help: "Time of all CPUs in interrupt handlers, in the measured time; interference, and in no class.",
        read: |all| alone(Value::Real(all.lost.hard_irq)),
    },
    Family {
        name: "rxlab_unit_interference_seconds_total",
        labels: &["unit"],
        help: "Time that a systemd unit, a container (ENGINE:ID) or a process outside of both lost to receive work, in the \
               measured time: the 20 that lose most, if they lose 0.1 % of the time or more; the rest as other.",
        read: |all| {
            let mut units: BTreeMap<&str, f64> = BTreeMap::from([("other", all.lost.other_units)]);
            all.lost.units().for_each(|(unit, lost)| *units.entry(unit).or_default() += lost);
            reals(units)
        },
    },
    Family {
        name: "rxlab_queue_packets_total",
        labels: &["nic", "queue"],
        help: "Packets of a receive queue, if kernel or driver count them, or if it is the only queue.",
        read: |all| of_queues(all, |nic, queue| all.totals.queue_packets(nic, queue)),
    },
    Family {
        name: "rxlab_queue_interrupts_total",
        labels: &["nic", "queue"],
        help: "Interrupts of a receive queue on all CPUs (/proc/interrupts).",
        read: |all| of_queues(all, |_, queue| all.totals.queue_interrupts(queue)),
    },
    Family {
        name: "rxlab_queue_drops_total",
        labels: &["nic", "queue"],
        help: "Packets of a receive queue that device or driver dropped, where they count them.",
        read: |all| of_queues(all, |nic, queue| all.totals.queue_drops(nic, queue)),
    },
    Family {
        name: "rxlab_queues_omitted",
        labels: &[],
        help: "Receive queues beyond the 512 that are exported.",
        read: |all| alone(count(queues(all).count().saturating_sub(QUEUES))),
    },
    Family {
        name: "rxlab_finding",
        labels: &["rule", "subject", "severity"],
        help: "1 for each finding of the latest sample, with its interface, or host, as subject and note, warning or \
               critical as severity; 0 for each rule without one. A finding clears after it was absent from two samples.",
        read: findings,
    },
    Family {
        name: "rxlab_sample_timestamp_seconds",
        labels: &[],
        help: "End of the latest sample, in seconds since 1970.",
        read: |all| alone(all.judged.as_ref().map(|judged| Value::Real(judged.ended))),
    },
    Family {
        name: "rxlab_sample_length_seconds",
        labels: &[],
        help: "Length of the latest sample.",
        read: |all| alone(all.judged.as_ref().map(|judged| Value::Real(judged.seconds))),
    },
    Family {
        name: "rxlab_sample_failures_total",
        labels: &[],
        help: "Samples that failed; their findings are those of the sample before.",
        read: |all| alone(Value::Whole(all.failures)),
    },
    Family {
        name: "rxlab_sources_missing",
        labels: &[],
        help: "Sources that the latest sample lacked; rxlab doctor names them.",
        read: |all| alone(all.judged.as_ref().map(|judged| count(judged.gaps))),
    },
    Family {
        name: "rxlab_transactions",
        labels: &["state"],
        help: "Open transactions: applied, unconfirmed (reverted at their deadline), unguarded (the same, but without a guard that reverts them) or unfinished.",
        read: transactions,
    },
    Family {
        name: "rxlab_unconfirmed_seconds_left",
        labels: &[],
        help: "Time until the next unconfirmed transaction with a guard is reverted, when the latest sample ended; negative if its guard is late.",
        read: |all| {
            let left = all.applied.transactions.iter().filter_map(|one| match one.state {
                State::Unconfirmed { seconds_left, unguarded: false } => Some(seconds_left),
                State::Unconfirmed { .. } | State::Applied | State::Unfinished => None,
            });
            alone(left.reduce(f64::min).map(Value::Real))
        },
    },
    Family {
        name: "rxlab_settings",
        labels: &["state"],
        help: "Settings of open transactions: kept, covered (by a newer transaction), original or drifted (changed \
               since), gone or unreadable.",
        read: settings,
    },
    Family {
        name: "rxlab_setting_holds",
        labels: &["knob", "target"],
        help: "1 if a setting of an open transaction has its value, else 0: those without it first, 64 at most.",
        read: setting_holds,
    },
    Family {
        name: "rxlab_settings_reapplied_total",
        labels: &[],
        help: "Values of open transactions that rxlab reapply has set again; starts again when a transaction is reverted.",
        read: |all| alone(count(all.applied.transactions.iter().map(|one| one.reapplied).sum())),
    },
    Family {
        name: "rxlab_journal_unreadable",
        labels: &[],
        help: "Transactions, or the whole journal, that cannot be read; rxlab status names them.",
        read: |all| alone(count(all.applied.unknown.len())),
    },
    Family {
        name: "rxlab_trials",
        labels: &["verdict"],
        help: "Trials in the state directory by verdict (docs/trials.md); none: running or killed.",
        read: |all| {
            let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
            all.trials.iter().for_each(|trial| *verdicts.entry(trial.verdict()).or_default() += 1);
            labelled(verdicts.into_iter().map(|(verdict, trials)| (verdict, count(trials))))
        },
    },
    Family {
        name: "rxlab_trial_latest_info",
        labels: &["trial", "verdict"],
        help: "The trial with the highest number.",
        read: |all| {
            let latest = all.trials.last();
            let row =
                latest.map(|trial| (vec![trial.id.clone(), trial.verdict().to_owned()], Value::Whole(1)));
            row.into_iter().collect()
        },
    },
    Family {
        name: "rxlab_trial_latest_slots",
        labels: &[],
        help: "Slots that the latest trial has measured.",
        read: |all| alone(all.trials.last().map(|trial| count(trial.slots))),
    },
    Family {
        name: "rxlab_trial_latest_update_timestamp_seconds",
        labels: &[],
        help: "When the record of the latest trial was written last, in seconds since 1970: after each slot while it runs.",
        read: |all| alone(all.trials.last().map(|trial| Value::Real(trial.updated))),
    },
    Family {
        name: "rxlab_checkpoints",
        labels: &["state"],
        help: "Scheduled checkpoints of trials: waiting, missed or failed.",
        read: |all| labelled(all.checkpoints.iter().map(|(state, count)| (state, Value::Whole(*count)))),
    },
];

/// A value without labels, if there is one.
fn alone(value: impl Into<Option<Value>>) -> Vec<Row> {
    value.into().map(|value| (Vec::new(), value)).into_iter().collect()
}

fn labelled(values: impl IntoIterator<Item = (impl ToString, Value)>) -> Vec<Row> {
    values.into_iter().map(|(label, value)| (vec![label.to_string()], value)).collect()
}

fn reals(values: impl IntoIterator<Item = (impl ToString, f64)>) -> Vec<Row> {
    labelled(values.into_iter().map(|(label, value)| (label, Value::Real(value))))
}

fn count(number: usize) -> Value {
    Value::Whole(number as u64)
}

/// `NIC IRQ` as `nic_irq`, as in JSON.
fn label(name: &str) -> String {
    name.to_lowercase().replace([' ', '-'], "_")
}

fn of_cpus(all: &Exposition, value: fn(&CpuTotals) -> Option<u64>) -> Vec<Row> {
    labelled(all.totals.cpus().iter().filter_map(|(cpu, totals)| Some((cpu, Value::Whole(value(totals)?)))))
}

/// Queues of devices, then of virtual interfaces that have received: a container host has thousands that did not.
fn queues(all: &Exposition) -> impl Iterator<Item = (&Nic, &RxQueue)> {
    let of_kind = |kind: NicKind| all.model.nics.iter().filter(move |nic| nic.kind == kind);
    let virtuals = of_kind(NicKind::Virtual).filter(|nic| all.totals.has_received(nic));
    let nics = of_kind(NicKind::Device).chain(virtuals);
    nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)))
}

fn of_queues(all: &Exposition, value: impl Fn(&Nic, &RxQueue) -> Option<u64>) -> Vec<Row> {
    let row = |(nic, queue): (&Nic, &RxQueue)| {
        let labels = vec![nic.name.to_string(), QueueId::rx(queue.index).to_string()];
        Some((labels, Value::Whole(value(nic, queue)?)))
    };
    queues(all).take(QUEUES).filter_map(row).collect()
}

fn findings(all: &Exposition) -> Vec<Row> {
    let Some(judged) = &all.judged else { return Vec::new() };
    let mut standing: Vec<_> = judged.findings.iter().collect();
    standing.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    // By labels: two findings of a rule on one interface are one.
    let mut rows: BTreeMap<Vec<String>, Value> = BTreeMap::new();
    for finding in standing.into_iter().take(FINDINGS) {
        let subject = finding.nic.as_ref().map_or("host".to_owned(), ToString::to_string);
        rows.insert(vec![finding.id.clone(), subject, finding.severity.to_string()], Value::Whole(1));
    }
    let quiet = RULES.iter().filter(|rule| !judged.findings.iter().any(|finding| finding.id == rule.id));
    rows.extend(quiet.map(|rule| (vec![rule.id.to_owned(), String::new(), String::new()], Value::Whole(0))));
    rows.into_iter().collect()
}

/// The number of `all` in each of `states`.
fn by_state<'a>(states: &[&str], all: impl Iterator<Item = &'a str> + Clone) -> Vec<Row> {
    labelled(states.iter().map(|state| (state, count(all.clone().filter(|other| other == state).count()))))
}

fn transactions(all: &Exposition) -> Vec<Row> {
    let states = all.applied.transactions.iter().map(|one| match one.state {
        State::Applied => "applied",
        State::Unconfirmed { unguarded: false, .. } => "unconfirmed",
        State::Unconfirmed { .. } => "unguarded",
        State::Unfinished => "unfinished",
    });
    by_state(&["applied", "unconfirmed", "unguarded", "unfinished"], states)
}

fn values(all: &Exposition) -> impl Iterator<Item = &ValueStatus> + Clone {
    all.applied.transactions.iter().flat_map(|one| &one.values)
}

fn settings(all: &Exposition) -> Vec<Row> {
    let states = values(all).map(|value| match value.live {
        Live::Kept => "kept",
        Live::Covered { .. } => "covered",
        Live::Original => "original",
        Live::Drifted { .. } => "drifted",
        Live::Gone => "gone",
        Live::Unreadable { .. } => "unreadable",
    });
    by_state(&["kept", "covered", "original", "drifted", "gone", "unreadable"], states)
}

fn setting_holds(all: &Exposition) -> Vec<Row> {
    // A covered value is decided by the newer transaction, which has its own row.
    let decided = values(all).filter(|value| !matches!(value.live, Live::Covered { .. }));
    let mut rows: BTreeMap<Vec<String>, bool> = BTreeMap::new();
    for value in decided {
        let held = rows.entry(vec![value.knob.clone(), value.target.to_string()]).or_insert(true);
        *held &= value.live.holds();
    }
    let mut rows: Vec<(Vec<String>, bool)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, holds)| *holds);
    rows.into_iter().take(SETTINGS).map(|(labels, holds)| (labels, Value::Whole(holds.into()))).collect()
}
