//! The machines of fixtures/field through every command: what show and doctor say of each, that every plan for it can be applied,
//! undone and exported, and that the answers do not contradict each other. Which interrupt is whose is tested in `rxlab-advise`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_advise::plan::{Options, Policy};
use rxlab_base::parse::irqbalance_setup;
use rxlab_base::units::{CpuMask, Direction};
use rxlab_change::apply::{self, BeginInfo, Transaction};
use rxlab_change::journal::{Memory, Store};
use rxlab_faces::report::{findings, receive_path};
use rxlab_path::model::{Model, Rates};
use rxlab_record::field::{Machine, machines, snapshot};
use rxlab_record::snapshot::Snapshot;
use rxlab_setting::export::{Format, export};
use rxlab_setting::{Plan, Setting, Target, simulation};
use rxlab_sys::{Failpoint, FlakyHost, Host, RecordedHost};

/// What is wrong about a machine.
fn wrong((name, machine): (String, Machine)) -> Vec<String> {
    let snapshot = snapshot(&name);
    let (model, rates) = snapshot.interval().expect("two samples");
    let report = doctor(&model, &rates, "rxlab");
    let map = receive_path::overview(&model);
    let missing = machine.on_map.iter().filter(|words| !map.contains(*words));
    let mut wrong: Vec<String> = missing.map(|words| format!("`{words}` is not shown")).collect();
    wrong.extend(said(&machine, &report));
    wrong.extend(contradictions(&model, &rates, &report));
    for plan in plans(&model, &rates, &report) {
        let of_plan = unproven(&model, &plan).into_iter().chain(not_applied(&snapshot, &model, &plan));
        let of_plan = of_plan.chain(not_exported(&model, &plan));
        wrong.extend(of_plan.map(|why| format!("{}: {why}", plan.name)));
    }
    wrong.into_iter().map(|why| format!("{name}: {why}")).collect()
}

fn said(machine: &Machine, report: &DoctorReport) -> Vec<String> {
    let screen = findings::everything(report, "rxlab");
    let mut wrong = Vec::new();
    let title = findings::worst_first(&report.findings).first().map_or("", |first| first.title.as_str());
    if !title.starts_with(&machine.finding) || title.is_empty() != machine.finding.is_empty() {
        wrong.push(format!("the doctor begins with `{title}`"));
    }
    let first = report.plans.first().map(|first| (first.plan.name.as_str(), first.nic.as_str()));
    if first != machine.first_plan.as_ref().map(|(name, nic)| (name.as_str(), nic.as_str())) {
        wrong.push(format!("the first plan is {first:?}"));
    }
    let told = machine.not_on_screen.iter().filter(|words| screen.contains(*words));
    wrong.extend(told.map(|words| format!("`{words}` is said:\n{screen}")));
    wrong
}

/// Plans that a finding names exist, and are what `plan` makes; the command of each tries it.
fn contradictions(model: &Model, rates: &Rates, report: &DoctorReport) -> Vec<String> {
    let mut wrong = Vec::new();
    for finding in &report.findings {
        for name in &finding.plans {
            if !report.plans.iter().any(|made| made.addresses(finding) && made.name() == Some(*name)) {
                wrong.push(format!("{} names the plan {name}, which is not made", finding.id));
            }
        }
    }
    for proposal in &report.plans {
        let settings = &proposal.plan.settings;
        if !report.tries(proposal) {
            wrong.push(format!("`{:?}` does not try {}", proposal.next, proposal.plan.name));
        }
        let after = simulated(model, &proposal.plan);
        let again = doctor(&after, rates, "rxlab");
        let back = again.plans.iter().find(|again| {
            let undoes = |planned: &rxlab_setting::PlannedSetting| {
                settings.iter().any(|done| {
                    done.set.knob == planned.set.knob
                        && done.set.target == planned.set.target
                        && done.set.value != planned.set.value
                })
            };
            again.nic == proposal.nic
                && again.plan.name == proposal.plan.name
                && again.plan.settings.iter().any(undoes)
        });
        if let Some(back) = back {
            wrong.push(format!(
                "{} of {} is planned again, otherwise: {:?}",
                back.plan.name, back.nic, back.plan.settings
            ));
        }
    }
    wrong
}

fn simulated(model: &Model, plan: &Plan) -> Model {
    let mut after = model.clone();
    plan.settings.iter().for_each(|planned| simulation::simulate(&mut after, &planned.set));
    after
}

/// Those of the doctor, and one by each policy.
fn plans(model: &Model, rates: &Rates, report: &DoctorReport) -> Vec<Plan> {
    let by_policy = Policy::ALL.iter().map(|(name, policy)| {
        let plan = policy.plan(model, rates, &Options::default(), None).plan;
        Plan { name: (*name).to_owned(), ..plan }
    });
    let made = report.plans.iter().map(|proposal| proposal.plan.clone()).chain(by_policy);
    made.filter(|plan| !plan.settings.is_empty()).collect()
}

/// Settings of interrupts that are not known to be a queue's.
fn unproven(model: &Model, plan: &Plan) -> Vec<String> {
    let of_irqs = plan.settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "irq_affinity");
    let is_unproven = |set: &&Setting| match &set.target {
        Target::Queue { nic, queue } if queue.direction == Direction::Rx => {
            let nic = model.nic(nic).expect("on the map");
            nic.rx.get(queue.index as usize).is_some_and(|queue| queue.irqs.is_empty())
        }
        _ => false,
    };
    // Queues that the plan adds get interrupts when they come.
    let adds_queues = plan.settings.iter().any(|planned| planned.set.knob == "channels");
    of_irqs
        .filter(|set| !adds_queues && is_unproven(set))
        .map(|set| format!("{set}: whose interrupt?"))
        .collect()
}

/// Why a plan cannot be applied to the files of the machine and undone. What needs a driver is rehearsed.
fn not_applied(snapshot: &Snapshot, model: &Model, plan: &Plan) -> Option<String> {
    let (files, rest) = snapshot.last().parts();
    let host = RecordedHost::from_parts(files.clone(), rest.clone());
    let host = FlakyHost::new(host, Vec::new(), Failpoint::new(None, || ()));
    let settings = match apply::check(&host, model, plan) {
        Ok(settings) => settings,
        Err(error) => return Some(format!("refused: {error}")),
    };
    if settings.iter().any(|setting| setting.knob == "channels") {
        return apply::rehearse(&host, model, &settings)
            .err()
            .map(|error| format!("cannot be rehearsed: {error}"));
    }
    let store = Store::new(Memory::default());
    let transaction = Transaction::begin(&store, BeginInfo::new(&model.identity)).expect("begun");
    let id = transaction.id().to_owned();
    match transaction.apply(&host, model, &settings, &AtomicBool::new(false)) {
        Err(failure) => return Some(format!("cannot be applied: {}", failure.error)),
        Ok(kept) if kept.is_empty() => return None,
        Ok(_) => {}
    }
    let undone = Transaction::resume(&store, &id, Duration::ZERO).expect("open").undo(&host, model);
    if !undone.is_clean() || !undone.closed {
        return Some(format!("not undone: {undone:?}"));
    }
    let differing: BTreeMap<&String, Vec<u8>> = files
        .iter()
        .filter_map(|(path, before)| {
            Some((path, host.read(path).ok().filter(|after| !is_same(before, after))?))
        })
        .collect();
    (!differing.is_empty()).then(|| format!("not as before: {differing:?}"))
}

/// True for the same text, mask or answer of irqbalance.
fn is_same(before: &[u8], after: &[u8]) -> bool {
    let setup = |bytes| irqbalance_setup(bytes).ok();
    let text = |bytes| std::str::from_utf8(bytes).ok().map(str::trim);
    let mask = |bytes| text(bytes).and_then(|text| CpuMask::from_hex(text).ok());
    before == after
        || text(before) == text(after)
        || mask(before).is_some_and(|one| mask(after) == Some(one))
        || setup(before).is_some_and(|one| setup(after) == Some(one))
}

/// Settings that no format has and none gives a reason for, and interrupts that a script would not find by their name.
fn not_exported(model: &Model, plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, format) in Format::ALL {
        let exported = export(format, plan, model);
        let text: String = exported.files.iter().map(|file| file.text.as_str()).collect();
        if exported.files.is_empty() && exported.left_out.len() != plan.settings.len() {
            wrong.push(format!("{name} is empty and leaves out {} settings", exported.left_out.len()));
        }
        if format != Format::Sh {
            continue;
        }
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("irq ")).collect();
        let left_out = |set: &Setting| exported.left_out.iter().any(|left| left.setting == *set);
        let of_irqs =
            plan.settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "irq_affinity");
        for set in of_irqs.filter(|set| !left_out(set)) {
            let Target::Queue { nic, queue } = &set.target else { continue };
            if queue.direction == Direction::Tx {
                continue;
            }
            let nic = model.nic(nic).expect("on the map");
            let irqs =
                nic.rx.get(queue.index as usize).map(|queue| queue.irqs.as_slice()).unwrap_or_default();
            for irq in irqs {
                if !lines.iter().any(|line| line.contains(irq.action.as_str())) {
                    wrong.push(format!("{name} does not look for `{}` of {set}", irq.action));
                }
            }
        }
    }
    wrong
}

#[test]
fn all_commands_are_right_about_every_machine() {
    let wrong: Vec<String> = machines().into_iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
