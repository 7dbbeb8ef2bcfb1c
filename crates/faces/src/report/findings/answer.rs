//! What a doctor's report says first: the answer, a picture, what to do. The terminal, the page and the ticket are made
//! from it, so that they say the same.

use super::bars::{Bar, bars};
use super::{nothing, worst_first};
use crate::report::action::short;
use crate::report::words::{Tone, severity_tone};
use rxlab_advise::diagnose::regime::{Family, FamilyGain};
use rxlab_advise::diagnose::{Finding, Severity};
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::plan::Proposal;
use rxlab_base::number::{count, cpus_text, percent, times};
use rxlab_path::evidence::{TRAFFIC, room, tier_words};
use rxlab_setting::{Prediction, Risk, Setting};

/// What is shown of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The mark of its finding; `None` if nothing calls for attention.
    pub severity: Option<Severity>,
    pub headline: String,
    /// The rule behind the headline.
    pub id: Option<String>,
    pub tone: Tone,
    /// CPUs, in order; empty if their times are unknown.
    pub cpus: Vec<Bar>,
    /// `6,239 packets/s`; `None` if they are not counted.
    pub packets: Option<String>,
    /// Evidence, in the order to read it.
    pub facts: Vec<Fact>,
    /// What to do, the first first.
    pub fixes: Vec<Fix>,
    /// The other findings.
    pub others: Vec<Other>,
    /// Length, place, time and accuracy of the sample.
    pub basis: String,
}

/// A line of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub label: &'static str,
    pub text: String,
    /// Facts with a higher rank are left out first where there is no room.
    pub rank: u8,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    pub action: String,
    pub risk: Option<Risk>,
    /// What is predicted, or that a trial has to tell.
    pub rough: Option<String>,
    /// The command that does it.
    pub command: Option<String>,
    /// What the command takes.
    pub about: Option<String>,
}

/// A finding in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    pub severity: Severity,
    pub title: String,
    pub id: String,
}

impl Answer {
    /// Decides what is shown of a report.
    pub fn new(report: &DoctorReport) -> Self {
        let findings = worst_first(&report.findings);
        let first = findings.iter().copied().find(|finding| finding.needs_attention());
        let is_first = |finding: &&Finding| first.is_some_and(|first| std::ptr::eq(first, *finding));
        let others = findings.iter().copied().filter(|finding| !is_first(finding)).map(|finding| Other {
            severity: finding.severity,
            title: finding.title.clone(),
            id: finding.id.clone(),
        });
        let calm = || if report.refused.is_some() { Tone::Caution } else { Tone::Neutral };
        Self {
            severity: first.map(|finding| finding.severity),
            headline: first.map_or_else(|| nothing(report), |finding| finding.title.clone()),
            id: first.map(|finding| finding.id.clone()),
            tone: first.map_or_else(calm, |finding| severity_tone(finding.severity)),
            cpus: bars(&report.load.cpus),
            packets: report.load.packets.map(|packets| format!("{} packets/s", count(packets))),
            facts: facts(report, first),
            fixes: fixes(report, first),
            others: others.collect(),
            basis: basis(report),
        }
    }
}

fn facts(report: &DoctorReport, first: Option<&Finding>) -> Vec<Fact> {
    let fact = |label, text: String, rank| Fact { label, text, rank };
    let mut facts = Vec::new();
    facts.extend(report.since.iter().map(|since| fact("since", since.in_words(), 5)));
    if let Some(finding) = first {
        facts.extend(finding.seen().first().map(|seen| fact("seen", (*seen).to_owned(), 8)));
        facts.push(fact("why", finding.why.clone(), 4));
        facts.extend(report.refused.iter().map(|why| fact("note", format!("no further verdict: {why}"), 6)));
    }
    match rooms(report) {
        Some(text) => facts.push(fact("room", text, 7)),
        None if first.is_some() && report.refused.is_none() => {
            let why = format!("unknown: the interfaces receive fewer than {} packets/s", count(TRAFFIC));
            facts.push(fact("room", why, 7));
        }
        None => {}
    }
    let notes = report.notes.iter().filter(|note| !note.starts_with(NOT_PLANNED));
    facts.extend(notes.map(|note| fact("note", note.clone(), 10)));
    facts.extend(report.gaps.iter().map(|gap| fact("gap", gap.clone(), 11)));
    facts
}

/// Start of notes about plans that were not made, which answer a question that only -v raises.
pub(super) const NOT_PLANNED: &str = "not planned: ";

/// Multiple of today's packets below which there is no room for more.
const NO_ROOM: f64 = 1.1;

/// How many times today's packets fit: `CPU 2: none. Whole machine: 5.3x today's packets`. `None` without traffic.
fn rooms(report: &DoctorReport) -> Option<String> {
    let cpu = report.regime.as_ref()?.cpus.first()?;
    let of = |factor: f64| if factor < NO_ROOM { "none".to_owned() } else { times(factor) };
    let mut parts = Vec::new();
    if let Some(thread) = &report.load.thread {
        parts.push(format!("One thread of {}: {}", thread.program, of(thread.headroom)));
    }
    parts.push(format!("CPU {}: {}", cpu.cpu, of(room(cpu.receive))));
    if let Some(headroom) = report.load.headroom {
        parts.push(format!("Whole machine: {}", of(headroom.machine)));
    }
    let unit = if parts.iter().all(|part| part.ends_with("none")) { "" } else { " today's packets" };
    Some(parts.join(". ") + unit)
}

fn fixes(report: &DoctorReport, first: Option<&Finding>) -> Vec<Fix> {
    let Some(finding) = first else {
        return there(report).map_or_else(|| worth_a_trial(report), |fix| vec![fix]);
    };
    let asks = |finding: &Finding, proposal: &Proposal| {
        finding.nic.as_ref() == Some(&proposal.nic) && finding.plans.contains(&proposal.plan.name)
    };
    let (of_first, rest): (Vec<&Proposal>, Vec<&Proposal>) =
        report.plans.iter().partition(|proposal| asks(finding, proposal));
    let mut fixes = Vec::new();
    if of_first.is_empty() {
        fixes.push(Fix {
            action: finding.remedy.clone(),
            risk: None,
            rough: None,
            command: None,
            about: None,
        });
    }
    let rest = rest.into_iter().filter(|one| report.findings.iter().any(|finding| asks(finding, one)));
    fixes.extend(of_first.into_iter().chain(rest).map(|proposal| fix(report, proposal)));
    // The search covers the first plan, and those like it.
    if let Some(command) = &report.tune
        && let Some(first) = fixes.iter_mut().find(|fix| fix.command.is_some())
    {
        first.command = Some(command.clone());
        first.about = Some(if report.recorded {
            format!("on {}, under its traffic", report.identity.hostname)
        } else {
            SEARCH.to_owned()
        });
    }
    fixes
}

/// What a search takes.
const SEARCH: &str = "a few minutes; asks first, reverts unless confirmed";

fn fix(report: &DoctorReport, proposal: &Proposal) -> Fix {
    let settings: Vec<Setting> = proposal.plan.settings.iter().map(|planned| planned.set.clone()).collect();
    let skips =
        report.left_out.iter().filter(|left| left.nic == proposal.nic && left.plan == proposal.plan.name);
    let skips: Vec<String> = skips.map(|left| format!("{} {}", left.cpus, left.why)).collect();
    let skips = if skips.is_empty() { String::new() } else { format!(" ({})", skips.join(", ")) };
    Fix {
        action: short(&settings) + &skips,
        risk: proposal.plan.settings.iter().filter_map(|planned| planned.risk).max(),
        rough: proposal.plan.prediction.as_ref().map(rough),
        command: proposal.next.clone(),
        about: None,
    }
}

/// Where to look instead.
fn there(report: &DoctorReport) -> Option<Fix> {
    let elsewhere = report.elsewhere.as_ref()?;
    let place = elsewhere.place.as_deref().unwrap_or("another network namespace");
    Some(Fix {
        action: format!("examine {place}"),
        risk: None,
        rough: None,
        command: elsewhere.next.clone(),
        about: None,
    })
}

/// Families of settings that are worth a trial although there is no finding.
fn worth_a_trial(report: &DoctorReport) -> Vec<Fix> {
    let knobs = report.regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial);
    let mut fixes: Vec<Fix> = knobs
        .map(|gain| Fix { action: family(gain), risk: None, rough: None, command: None, about: None })
        .collect();
    if let Some(first) = fixes.first_mut() {
        first.command.clone_from(&report.tune);
        first.about = report.tune.as_ref().map(|_| SEARCH.to_owned());
    }
    fixes
}

/// `RPS to CPUs 4-15`, or the family and why.
fn family(gain: &FamilyGain) -> String {
    match &gain.cpus {
        Some(cpus) if gain.knob == Family::Rps && !cpus.is_empty() => {
            format!("RPS to {}", cpus_text(cpus))
        }
        _ => format!("{}: {}", gain.knob.name(), gain.why),
    }
}

/// Smallest part of a CPU's time by which a predicted change has to clear the present.
const CLEAR: f64 = 0.05;

/// A prediction as far as it excludes that nothing changes.
fn rough(prediction: &Prediction) -> String {
    let mut parts = Vec::new();
    let of_cpu = prediction.loads().into_iter().find(|(cpu, ..)| *cpu == prediction.cpu);
    if let Some((cpu, now, [low, high])) = of_cpu
        && (high < now - CLEAR || low > now + CLEAR)
    {
        parts.push(match (low * 100.0).round() - (high * 100.0).round() {
            0.0 => format!("CPU {cpu} at {}", percent(high)),
            _ => format!("CPU {cpu} at {:.0}-{}", low * 100.0, percent(high)),
        });
    }
    parts.extend(prediction.capacity());
    if parts.is_empty() {
        return "cannot be predicted here; a trial tells".to_owned();
    }
    parts.join("; ")
}

fn basis(report: &DoctorReport) -> String {
    let day = report
        .taken
        .as_ref()
        .map(|taken| format!(", {} UTC", taken.get(..16).unwrap_or(taken).replace('T', " ")));
    format!(
        "{:.1} s on {}{}; CPU times: {}",
        report.seconds,
        report.identity.hostname,
        day.unwrap_or_default(),
        tier_words(&report.load.tier)
    )
}
