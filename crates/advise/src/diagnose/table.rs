//! A golden table of rules by machine: each rule has a machine where it fires, and a similar one where it
//! must not.

mod captured;
mod healthy;
mod load;
mod losses;
mod machines;
mod masks;
mod offloads;
mod placement;

use std::collections::BTreeSet;

use super::{RULES, diagnose};
use crate::doctor::{DoctorReport, doctor};
use crate::family::{Family, PlanName};
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::evidence::carrier;
use rxlab_path::model::{LossRates, Model, Rates};
use rxlab_path::sketch::Sketch;

/// A machine on which every rule is run.
struct Host {
    /// The feature that distinguishes it, as a name.
    name: &'static str,
    model: Model,
    rates: Rates,
    /// Rules that are silent here although it resembles a machine where they fire.
    near: &'static [&'static str],
    /// The one change with which each of them fires.
    missing: Vec<Missing>,
}

/// The one thing that a near miss lacks.
struct Missing {
    id: &'static str,
    what: &'static str,
    change: fn(&mut Model, &mut Rates),
}

impl Host {
    fn new(name: &'static str, sketch: Sketch, near: &'static [&'static str]) -> Self {
        let (model, rates) = sketch.build();
        Self { name, model, rates, near, missing: Vec::new() }
    }

    /// Adds the one thing that a near miss lacks.
    fn lacks(mut self, id: &'static str, what: &'static str, change: fn(&mut Model, &mut Rates)) -> Self {
        self.missing.push(Missing { id, what, change });
        self
    }

    /// The rules that fire, most severe first.
    fn speak(&self) -> Vec<String> {
        spoken(&self.model, &self.rates)
    }
}

fn spoken(model: &Model, rates: &Rates) -> Vec<String> {
    let mut ids: Vec<String> = diagnose(model, rates).into_iter().map(|finding| finding.id).collect();
    ids.dedup();
    ids
}

/// Sets the receive time of a CPU; the rest is idle.
fn receives(rates: &mut Rates, cpu: usize, time: f64) {
    let cpu = &mut rates.cpus[cpu];
    cpu.softirq = time;
    cpu.idle = (1.0 - time - cpu.user - cpu.system).max(0.0);
}

/// Moves the interrupt of a receive queue to a CPU.
fn moves(model: &mut Model, rates: &mut Rates, queue: usize, cpu: u32) {
    let to = CpuId(cpu);
    for irq in &mut model.nics[0].rx[queue].irqs {
        irq.affinity = Fact::Known([to].into_iter().collect());
        irq.effective = irq.affinity.clone();
        let counted = rates.irqs.iter_mut().filter(|rates| rates.irq == irq.number);
        counted.for_each(|rates| rates.per_cpu = [(to, 5e3)].into());
    }
}

fn hosts() -> Vec<Host> {
    [
        captured::hosts(),
        healthy::hosts(),
        machines::hosts(),
        placement::hosts(),
        masks::hosts(),
        offloads::hosts(),
        load::hosts(),
        losses::hosts(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_rule_on_every_host() {
    let row = |host: &Host| {
        let list = |ids: &[&str]| if ids.is_empty() { "-".to_owned() } else { ids.join(" ") };
        let speak = host.speak();
        let speak: Vec<&str> = speak.iter().map(String::as_str).collect();
        let missing = host.missing.iter().map(|one| format!("    {} once {}\n", one.id, one.what));
        let missing: String = missing.collect();
        format!("{}\n    speaks: {}\n    nearly: {}\n{missing}", host.name, list(&speak), list(host.near))
    };
    insta::assert_snapshot!(hosts().iter().map(row).collect::<String>());
}

#[test]
fn every_rule_speaks_somewhere_and_is_silent_where_it_looks_alike() {
    let hosts = hosts();
    let spoken: BTreeSet<String> = hosts.iter().flat_map(Host::speak).collect();
    let near: BTreeSet<&str> = hosts.iter().flat_map(|host| host.near).copied().collect();
    for rule in RULES {
        assert!(spoken.contains(rule.id), "no host has a finding of {}", rule.id);
        assert!(near.contains(rule.id), "no host is a near miss of {}", rule.id);
    }
    for host in &hosts {
        let speak = host.speak();
        for id in host.near {
            assert!(RULES.iter().any(|rule| rule.id == *id), "{}: there is no rule {id}", host.name);
            assert!(!speak.iter().any(|spoken| spoken == id), "{}: {id} speaks", host.name);
        }
    }
    let names: BTreeSet<&str> = hosts.iter().map(|host| host.name).collect();
    assert_eq!(names.len(), hosts.len(), "two hosts have one name");
}

/// A near miss that is silent for two reasons tests neither.
#[test]
fn a_near_miss_lacks_one_thing() {
    for mut host in hosts() {
        for Missing { id, what, change } in std::mem::take(&mut host.missing) {
            assert!(host.near.contains(&id), "{}: {id} is not a near miss", host.name);
            let (mut model, mut rates) = (host.model.clone(), host.rates.clone());
            change(&mut model, &mut rates);
            let speak = spoken(&model, &rates);
            assert!(
                speak.iter().any(|spoken| spoken == id),
                "{} once {what}: {speak:?}, not {id}",
                host.name
            );
        }
    }
}

/// A machine with nothing to do gets no advice, whatever its settings.
#[test]
fn no_setting_is_a_finding_on_a_quiet_machine() {
    for mut host in hosts() {
        let cpus = Sketch::new(host.model.cpus.len() as u32).build().1.cpus;
        host.rates.cpus.retain_mut(|cpu| {
            let idle = cpus.iter().find(|idle| idle.cpu == cpu.cpu);
            idle.map(|idle| *cpu = idle.clone()).is_some()
        });
        for nic in &mut host.rates.nics {
            let few = 50.0 / nic.rx_packets.max(nic.tx_packets).max(50.0);
            let rates = [&mut nic.rx_packets, &mut nic.rx_bytes, &mut nic.tx_packets, &mut nic.tx_bytes];
            let rates = rates.into_iter().chain([&mut nic.rx_missed]);
            let rates = rates.chain(nic.limited.values_mut());
            rates.chain(nic.queues.values_mut()).for_each(|rate| *rate *= few);
            nic.losses.values_mut().for_each(|rate| *rate = 0.0);
        }
        host.rates.losses = Fact::Known(LossRates::default());
        let interrupts = host.rates.irqs.iter_mut().flat_map(|irq| irq.per_cpu.values_mut());
        interrupts.for_each(|rate| *rate = rate.min(1.0));
        assert_eq!(diagnose(&host.model, &host.rates), [], "{}", host.name);
    }
}

/// As printed: a title that fits its line next to the rule's name, and figures below.
#[test]
fn every_finding_fits_its_lines() {
    for host in hosts() {
        for finding in diagnose(&host.model, &host.rates) {
            let (id, title) = (&finding.id, &finding.title);
            assert!(title.chars().count() <= 66, "{}: {id}: {title}", host.name);
            assert!(!finding.evidence.is_empty(), "{}: {id} shows nothing", host.name);
            let mut figures = finding.evidence.iter().flat_map(|seen| &seen.figures);
            assert!(
                figures.all(|figure| figure.value.is_finite()),
                "{}: JSON has no infinity: {finding:?}",
                host.name
            );
            for text in [&finding.why, &finding.remedy] {
                assert!(!text.is_empty() && !text.ends_with('.') && !text.contains("  "), "{id}: {text}");
            }
        }
    }
}

/// The verdict on RPS once contradicted a finding: a mask to be corrected was "already on".
#[test]
fn what_a_finding_advises_is_worth_a_trial() {
    let mut advised = 0;
    for host in hosts() {
        let (model, rates) = (&host.model, &host.rates);
        let DoctorReport { regime: Some(regime), findings, .. } = doctor(model, rates, "") else { continue };
        let Some((nic, _)) = carrier(model, rates, regime.cpus[0].cpu) else { continue };
        if findings.iter().any(|finding| finding.asks(&nic.name, PlanName::Rps)) {
            let rps = regime.knobs.iter().find(|worth| worth.knob == Family::Rps).expect("judged");
            assert_eq!(rps.plan, Some(PlanName::Rps), "{}: {rps:?}", host.name);
            advised += 1;
        }
    }
    assert!(advised > 9, "{advised}");
}
