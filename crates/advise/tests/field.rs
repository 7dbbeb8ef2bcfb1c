//! The machines of fixtures/field: which interrupt belongs to which receive queue, what limits the machine and what it loses,
//! what plans must and must not set, and what `apply` refuses.

#![allow(clippy::disallowed_methods)] // Lists the fixtures.

use std::collections::{BTreeMap, BTreeSet};

use rxlab_advise::doctor::doctor;
use rxlab_advise::plan::{Options, Policy};
use rxlab_change::apply::check;
use rxlab_path::constraints::{Binds, Constraints};
use rxlab_path::ledger::Verdict;
use rxlab_path::model::{Model, NicKind, Rates};
use rxlab_record::field::{Machine, folder, machines, snapshot};
use rxlab_setting::{Plan, Setting, forbids};

fn interval(machine: &str) -> (Model, Rates) {
    snapshot(machine).interval().expect("two samples")
}

#[test]
fn interrupts_of_queues() {
    let mut wrong = Vec::new();
    for (name, machine) in machines() {
        let model = interval(&name).0;
        let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        let shown: BTreeMap<&str, Vec<Vec<u32>>> = devices
            .map(|nic| {
                let queues = nic.rx.iter().map(|queue| queue.irqs.iter().map(|irq| irq.number.0).collect());
                (nic.name.as_str(), queues.collect())
            })
            .collect();
        if shown != machine.irqs() {
            wrong.push(format!("{name}: shown {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn losses_are_named() {
    for (name, machine) in machines() {
        let Some((nic, title)) = &machine.drops else { continue };
        let (model, rates) = interval(&name);
        let report = doctor(&model, &rates, "rxlab");
        let found = report.findings.iter().find(|finding| finding.id == "interface-drops");
        let found = found.map(|found| (found.nic.as_ref().map(|nic| nic.as_str()), found.title.as_str()));
        assert_eq!(found, Some((Some(nic.as_str()), title.as_str())), "{name}: {:?}", report.findings);
        assert_eq!(report.load.ledger.in_words(), "900 drops/s", "{name}");
    }
}

/// Most of these recordings have no counters of sockets and connection tracking: what they lack is not known to be 0.
#[test]
fn no_recording_without_counters_has_no_drops() {
    for (name, machine) in machines() {
        let (model, rates) = interval(&name);
        let ledger = doctor(&model, &rates, "rxlab").load.ledger;
        assert_ne!(ledger.verdict(), Verdict::None, "{name}: {:?}", ledger.lines);
        if let Some(lost) = &machine.device_drops {
            assert_eq!(ledger.in_words(), *lost, "{name}: {:?}", ledger.lines);
            continue;
        }
        let is_losing = machine.drops.is_some();
        assert_eq!(ledger.verdict() != Verdict::Unknown, is_losing, "{name}: {:?}", ledger.lines);
        let has_gap =
            ledger.gaps().iter().any(|gap| gap.starts_with("drops, ") && gap.contains("not read: "));
        assert!(has_gap, "{name}: {:?}", ledger.gaps());
    }
}

#[test]
fn causes() {
    let mut wrong = Vec::new();
    for (name, machine) in machines() {
        let (model, rates) = interval(&name);
        let report = serde_json::to_string(&doctor(&model, &rates, "rxlab")).expect("JSON");
        let missing = machine.in_report.iter().filter(|words| !report.contains(*words));
        wrong.extend(missing.map(|words| format!("{name}: `{words}` is not said: {report}")));
        let told = machine.not_in_report.iter().filter(|words| report.contains(*words));
        wrong.extend(told.map(|words| format!("{name}: `{words}` is said: {report}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_machine_is_in_the_table() {
    let files = std::fs::read_dir(folder()).expect("listed");
    let files = files.map(|file| file.expect("listed").file_name().into_string().expect("text"));
    let files: BTreeSet<String> =
        files.filter_map(|file| Some(file.strip_suffix(".tar.zst")?.to_owned())).collect();
    assert_eq!(files, machines().into_keys().collect());
}

fn settings(model: &Model, rates: &Rates, name: &str) -> Vec<Setting> {
    let plans: Vec<Plan> = match name {
        "doctor" => doctor(model, rates, "").plans.into_iter().map(|proposal| proposal.plan).collect(),
        policy => {
            let policy: Policy = policy.parse().expect("a policy");
            vec![policy.plan(model, rates, &Options::default(), None).plan]
        }
    };
    plans.into_iter().flat_map(|plan| plan.settings).map(|planned| planned.set).collect()
}

#[test]
fn what_plans_must_and_must_not_set() {
    let mut wrong = Vec::new();
    for (machine, Machine { plans, .. }) in machines() {
        let (model, rates) = interval(&machine);
        for (name, planned) in plans {
            let set: Vec<String> = settings(&model, &rates, &name).iter().map(ToString::to_string).collect();
            let missing = planned.sets.iter().filter(|text| !set.contains(text));
            wrong.extend(missing.map(|text| format!("{machine} {name}: lacks {text}")));
            let is_forbidden = |set: &&String| planned.never.iter().any(|start| set.starts_with(start));
            let forbidden = set.iter().filter(is_forbidden).take(2);
            wrong.extend(forbidden.map(|set| format!("{machine} {name}: has {set}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_plan_violates_a_constraint() {
    let policies = Policy::ALL.map(|(name, _)| name);
    let mut wrong = Vec::new();
    for machine in machines().keys() {
        let (model, rates) = interval(machine);
        let all = Constraints::measured(&model, &rates);
        for name in policies.iter().chain(&["doctor"]) {
            let violates = |set: &Setting| {
                let why = forbids(&all, &model, set, Binds::Plans)?;
                Some(format!("{machine} {name}: {set}: {why}"))
            };
            wrong.extend(settings(&model, &rates, name).iter().filter_map(violates).take(2));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The kernel would take these.
#[test]
fn what_apply_refuses() {
    let refused = |machine: &str, setting: &str| {
        let (snapshot, model) = (snapshot(machine), interval(machine).0);
        let plan = Plan::new("by hand", &[setting.parse().expect("a setting")]);
        check(snapshot.last(), &model, &plan).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(
        refused("ice-vectors-exhausted", "irq_affinity ens1f0/rx-9 = 40").expect_err("isolated"),
        "irq_affinity ens1f0/rx-9 = 40: CPU 40 is isolated at boot (isolcpus=); choose others"
    );
    assert_eq!(
        refused("veth-8queue", "rps veth00000000/rx-1 = 0-2").expect_err("tickless"),
        "rps veth00000000/rx-1 = 0-2: CPU 2 is tickless (nohz_full=); choose others"
    );
    assert_eq!(refused("veth-8queue", "rps veth00000000/rx-1 = 0-1,32-33"), Ok(()));
}
