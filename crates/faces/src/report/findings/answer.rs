//! What a doctor's report says first: the answer, a picture, what to do. The terminal, the page and the ticket are made
//! from it, so that they say the same.

use super::bars::{Bar, bars};
use super::{nothing, worst_first};
use crate::report::action::short;
use crate::report::words::{Tone, severity_tone};
use rxlab_advise::diagnose::regime::FamilyGain;
use rxlab_advise::diagnose::{Finding, Severity};
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::family::Family;
use rxlab_advise::plan::Proposal;
use rxlab_base::number::{count, cpus_text, percent, times};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{FULL, TRAFFIC, room, tier_words};
use rxlab_path::ledger::{Ledger, Verdict};
use rxlab_setting::{CpuLoad, Plan, Prediction, Risk, Setting, predicted_percent};

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
    pub others: Vec<Other>,
    /// Length, place, time and accuracy of the sample.
    pub basis: String,
}

/// A line of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub label: &'static str,
    pub text: String,
    pub rank: Rank,
}

/// Importance of what is shown, the most important first. Where there is no room, the last is left out first; the headline
/// stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Headline,
    Action,
    Command,
    Picture,
    Cause,
    /// Another finding that calls for attention, and the effect of an earlier change.
    Worst,
    /// A prediction, and why there is no verdict.
    Prediction,
    /// A further fix, and the room that is left.
    Alternative,
    Evidence,
    /// A finding that asks for nothing, and where the sample is from.
    Note,
    Remark,
    Gap,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    pub action: String,
    pub risk: Option<Risk>,
    /// What is predicted, or that a trial has to tell.
    pub rough: Option<String>,
    /// The command that tries it, or shows more of the cause.
    pub command: Option<Command>,
}

/// The next command of a fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `try`, or `run` if it only shows something.
    pub label: &'static str,
    pub line: String,
    /// Where to run it, or what it takes.
    pub about: Option<String>,
}

impl Command {
    fn trial(report: &DoctorReport, line: &str) -> Self {
        let about = if report.recorded {
            format!("on {}", report.identity.hostname)
        } else {
            "a few minutes; restores itself".to_owned()
        };
        Self { label: "try", line: line.to_owned(), about: Some(about) }
    }

    fn look(report: &DoctorReport, line: &str) -> Self {
        let about = report.recorded.then(|| format!("on {}", report.identity.hostname));
        Self { label: "run", line: line.to_owned(), about }
    }
}

/// A finding in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    pub severity: Severity,
    pub title: String,
    pub id: String,
    /// The command that shows more of its cause.
    pub command: Option<Command>,
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
            command: finding.inspect.as_ref().map(|line| Command::look(report, line)),
        });
        let fixes = fixes(report, first);
        let is_calm = report.refused.is_none() && fixes.is_empty();
        let calm = || if is_calm { Tone::Neutral } else { Tone::Caution };
        Self {
            severity: first.map(|finding| finding.severity),
            headline: first.map_or_else(|| nothing(report), |finding| finding.title.clone()),
            id: first.map(|finding| finding.id.clone()),
            tone: first.map_or_else(calm, |finding| severity_tone(finding.severity)),
            cpus: bars(&report.load.cpus),
            packets: report.load.packets_in_words(),
            facts: facts(report, first),
            fixes,
            others: others.collect(),
            basis: basis(report),
        }
    }
}

fn facts(report: &DoctorReport, first: Option<&Finding>) -> Vec<Fact> {
    let fact = |label, text: String, rank| Fact { label, text, rank };
    let mut facts = Vec::new();
    facts.extend(report.since.iter().map(|since| fact("note", since.in_words(), Rank::Worst)));
    if let Some(finding) = first {
        facts.extend(finding.seen().first().map(|seen| fact("seen", (*seen).to_owned(), Rank::Evidence)));
        facts.push(fact("why", finding.why.clone(), Rank::Cause));
        facts.extend(
            report
                .refused
                .iter()
                .map(|why| fact("note", format!("no further verdict: {why}"), Rank::Prediction)),
        );
        facts.push(fact("drops", drops(&report.load.ledger), Rank::Evidence));
    }
    match rooms(report) {
        Some(text) => facts.push(fact("room", text, Rank::Alternative)),
        None if first.is_some() && report.refused.is_none() => {
            let why = format!("unknown: the interfaces receive fewer than {} packets/s", count(TRAFFIC));
            facts.push(fact("room", why, Rank::Alternative));
        }
        None => {}
    }
    let notes = report.notes.iter().filter(|note| !note.starts_with(NOT_PLANNED));
    facts.extend(notes.map(|note| fact("note", note.clone(), Rank::Remark)));
    // A gap that is the reason for the refusal is in the headline.
    let is_told = |gap: &String| {
        let why = gap.split_once(": ").map_or(gap.as_str(), |(_, why)| why);
        report.refused.as_ref().is_some_and(|refused| refused.contains(why))
    };
    facts.extend(
        report.gaps.iter().filter(|gap| !is_told(gap)).map(|gap| fact("gap", gap.clone(), Rank::Gap)),
    );
    facts
}

/// Lost packets, by counter.
fn drops(ledger: &Ledger) -> String {
    match ledger.verdict() {
        Verdict::Lost(_) => ledger.counters().join("; "),
        Verdict::None => "none".to_owned(),
        Verdict::Unknown => ledger.maybe().map_or_else(
            || "none counted, but not every counter was read (`gap` in -v)".to_owned(),
            |maybe| format!("maybe: {maybe}, whose meaning is not known"),
        ),
    }
}

/// Start of notes about plans that were not made, which answer a question that only -v raises.
pub(super) const NOT_PLANNED: &str = "not planned: ";

/// Multiple of today's packets up to which there is no room for more: that of a CPU which is full.
pub(super) const NO_ROOM: f64 = 1.0 / FULL;

/// How many times today's packets fit: `CPU 2: none. Whole machine: 5.3x today's packets`. `None` without traffic.
fn rooms(report: &DoctorReport) -> Option<String> {
    let hot = report.regime.as_ref()?.cpus.first()?;
    if let Some(limit) = &report.load.host_limit {
        return Some(format!("none: {limit}"));
    }
    let machine = report.load.headroom.map(|headroom| headroom.machine);
    let thread = report.load.thread.as_ref();
    let thread =
        thread.map(|thread| (format!("One thread of {}", thread.program), thread.headroom, thread.headroom));
    // The other work of a full CPU may have to stay, as what the hypervisor takes does.
    let most = room(hot.receive);
    let least = if hot.busy >= FULL { room(hot.busy).min(most) } else { most };
    // A CPU with more room than the machine is not what fills up first.
    let cpu = Some((format!("CPU {}", hot.cpu), least, most));
    let cpu = cpu.filter(|(.., most)| machine.is_none_or(|machine| *most < machine));
    let machine = machine.map(|machine| ("Whole machine".to_owned(), machine, machine));
    let mut unit = " today's packets";
    let parts = thread.into_iter().chain(cpu).chain(machine).map(|(what, least, most)| {
        if most <= NO_ROOM {
            return format!("{what}: none");
        }
        let (least, most) = (times(least), times(most));
        let range = if least == most { most } else { format!("{least} to {most}") };
        format!("{what}: {range}{}", std::mem::take(&mut unit))
    });
    Some(parts.collect::<Vec<_>>().join(". "))
}

fn fixes(report: &DoctorReport, first: Option<&Finding>) -> Vec<Fix> {
    let Some(finding) = first else {
        return there(report).map_or_else(|| worth_a_trial(report), |fix| vec![fix]);
    };
    let (of_first, rest): (Vec<&Proposal>, Vec<&Proposal>) =
        report.plans.iter().partition(|proposal| proposal.addresses(finding));
    let mut fixes = Vec::new();
    if of_first.is_empty() {
        // Work that no interface here brings is examined where it comes from.
        let there = there(report).filter(|_| finding.nic.is_none());
        fixes.push(there.unwrap_or_else(|| Fix {
            action: finding.remedy.clone(),
            risk: None,
            rough: None,
            command: finding.inspect.as_ref().map(|line| Command::look(report, line)),
        }));
    }
    // What answers another finding is a story of its own, unless nothing else can be tried.
    let is_other = |one: &Proposal| {
        report.findings.iter().any(|finding| finding.severity > Severity::Note && one.addresses(finding))
    };
    let rest = rest.into_iter().filter(|one| of_first.is_empty() && is_other(one));
    let tried: Vec<&Proposal> = of_first.iter().copied().chain(rest).collect();
    let (fixes_tried, mut shared) = (tried.len(), 0);
    for proposal in tried {
        let mut fix = fix(report, finding, proposal);
        // One search tries several of them.
        if fix.command.is_some() && fixes.iter().any(|earlier| earlier.command == fix.command) {
            fix.command = None;
            shared += 1;
        }
        fixes.push(fix);
    }
    let command = fixes.first_mut().and_then(|first| first.command.as_mut()).filter(|_| !report.recorded);
    if let Some(command) = command.filter(|_| shared > 0 && shared + 1 == fixes_tried) {
        let all = if shared == 1 { "both" } else { "all of them" };
        command.about = Some(format!("tries {all}; a few minutes, restores itself"));
    }
    fixes
}

fn fix(report: &DoctorReport, finding: &Finding, proposal: &Proposal) -> Fix {
    let settings: Vec<Setting> = proposal.plan.settings.iter().map(|planned| planned.set.clone()).collect();
    let skips =
        report.left_out.iter().filter(|left| left.nic == proposal.nic && left.plan == proposal.plan.name);
    let skips: Vec<String> = skips.map(|left| format!("{} {}", cpus_text(&left.cpus), left.why)).collect();
    let skips = if skips.is_empty() { String::new() } else { format!(" ({})", skips.join(", ")) };
    Fix {
        action: short(&settings) + &skips,
        risk: proposal.plan.settings.iter().filter_map(|planned| planned.risk).max(),
        rough: Some(match &proposal.plan.prediction {
            Some(prediction) => rough(prediction, finding.cpu, report.load.host_limit.is_some()),
            None => unpredicted(&proposal.plan),
        }),
        command: proposal.next.as_ref().map(|line| Command::trial(report, line)),
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
        command: elsewhere.next.as_ref().map(|line| Command::look(report, line)),
    })
}

/// Families of settings that are worth a trial although there is no finding.
fn worth_a_trial(report: &DoctorReport) -> Vec<Fix> {
    let knobs = report.regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial);
    let mut fixes: Vec<Fix> =
        knobs.map(|gain| Fix { action: family(gain), risk: None, rough: None, command: None }).collect();
    if let Some(first) = fixes.first_mut() {
        first.command = report.tune.as_ref().map(|line| Command::trial(report, line));
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

/// A prediction as far as it excludes that nothing changes: of the CPU that a finding is about, if any, and of capacity unless
/// the host or the link limits the traffic.
fn rough(prediction: &Prediction, cpu: Option<CpuId>, is_limited: bool) -> String {
    let of_finding = prediction.cpus.iter().find(|load| Some(load.cpu) == cpu);
    let of_finding = of_finding.map(|load| (load.cpu, load.before, load.range.unwrap_or([load.after; 2])));
    let of_plan = || prediction.loads().into_iter().find(|(cpu, ..)| *cpu == prediction.cpu);
    let mut parts = Vec::new();
    if let Some((cpu, now, [low, high])) = of_finding.or_else(of_plan)
        && (high < now - CLEAR || low > now + CLEAR)
        && high <= 1.0
    {
        let [low, high] = if high < low + f64::EPSILON {
            [high; 2].map(predicted_percent)
        } else {
            [low, high].map(percent)
        };
        let range = if low == high { high } else { format!("{}-{high}", low.trim_end_matches(" %")) };
        parts.push(format!("CPU {cpu} at {range}"));
    }
    parts.extend(prediction.capacity().filter(|_| !is_limited));
    // One that the plan may fill is a loss, whatever it does elsewhere.
    let may_fill =
        |load: &&CpuLoad| load.range.is_some_and(|[_, high]| high >= 1.0 && high > load.before + CLEAR);
    let filled: CpuMask = prediction.cpus.iter().filter(may_fill).map(|load| load.cpu).collect();
    if !filled.is_empty() && !parts.is_empty() {
        parts.push(format!("may fill {}", cpus_text(&filled)));
    }
    if parts.is_empty() { UNPREDICTED.to_owned() } else { parts.join("; ") }
}

/// Said where a range includes that nothing changes.
const UNPREDICTED: &str = "cannot be predicted here; a trial tells";

/// Why a plan has no prediction, if that is known.
fn unpredicted(plan: &Plan) -> String {
    let why = plan.notes.iter().find_map(|note| note.strip_prefix("no prediction: "));
    why.map_or_else(|| UNPREDICTED.to_owned(), |why| format!("cannot be predicted: {why}"))
}

fn basis(report: &DoctorReport) -> String {
    let mut text = format!("{:.1} s on {}", report.seconds, report.identity.hostname);
    if let Some(taken) = &report.taken {
        text += &format!(", {} UTC", taken.get(..16).unwrap_or(taken).replace('T', " "));
    }
    if !report.load.cpus.is_empty() {
        text += &format!(", {}", tier_words(&report.load.tier));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Answer, rough};
    use rxlab_advise::doctor::diagnosed;
    use rxlab_base::units::CpuId;
    use rxlab_path::sketch::Sketch;
    use rxlab_setting::Overfull;

    /// `1.0x to 1.9x` says nothing that a reader can act on.
    #[test]
    fn a_range_that_includes_no_change_is_not_shown() {
        let mut report = diagnosed(Sketch::case_a());
        let prediction = report.plans[0].plan.prediction.as_mut().expect("predicted");
        assert_eq!(rough(prediction, Some(CpuId(2)), false), "CPU 2 at 26-59 %; adds little capacity");
        prediction.headroom_before.machine = 6.0;
        let range = prediction.range.as_mut().expect("uncertain");
        range.fits = [1.7, 3.8];
        assert_eq!(
            rough(prediction, Some(CpuId(2)), false),
            "CPU 2 at 26-59 %; room for 1.7-3.8x today's packets"
        );
        let other = prediction.cpus.iter_mut().find(|load| load.cpu.0 == 0).expect("it gets work");
        let narrow = other.range.replace([0.55, 1.1]);
        let said = "CPU 2 at 26-59 %; room for 1.7-3.8x today's packets; may fill CPU 0";
        assert_eq!(rough(prediction, Some(CpuId(2)), false), said);
        prediction.cpus.iter_mut().find(|load| load.cpu.0 == 0).expect("it gets work").range = narrow;
        prediction.overfull = Some(Overfull { cpu: CpuId(3), busy: 1.26 });
        let said = "CPU 2 at 26-59 %; fills CPU 3 unless its other work moves";
        assert_eq!(rough(prediction, Some(CpuId(2)), false), said);
        prediction.overfull = None;
        prediction.range.as_mut().expect("uncertain").fits = [0.9, 3.8];
        assert_eq!(rough(prediction, Some(CpuId(2)), false), "CPU 2 at 26-59 %");
        let load = prediction.cpus.iter_mut().find(|load| load.cpu.0 == 2).expect("it receives");
        load.range = Some([0.4, 0.96]);
        assert_eq!(rough(prediction, Some(CpuId(2)), false), "cannot be predicted here; a trial tells");
    }

    /// "Whole machine: 5x today's packets" was promised where the host let none more through.
    #[test]
    fn no_room_is_promised_above_a_limit_of_the_host() {
        let host = |rate| {
            let host = Sketch::new(8).device("eth0", &[2]).driver("eth0", "ena").traffic("eth0", 9e4);
            let host = host.receives(2, 0.97, 9e4).limited("eth0", "pps_allowance_exceeded", rate);
            let answer = Answer::new(&diagnosed(host));
            let room = answer.facts.into_iter().find(|fact| fact.label == "room").expect("there is traffic");
            (room.text, answer.fixes.into_iter().filter_map(|fix| fix.rough).collect::<String>())
        };
        let (room, rough) = host(2_400.0);
        assert_eq!(room, "none: the host limits eth0 (pps_allowance_exceeded grows by 2,400/s)");
        assert!(!rough.contains("room for"), "{rough}");
        let (room, rough) = host(0.0);
        assert!(room.contains("Whole machine: ") && rough.contains("room for"), "{room}; {rough}");
    }

    /// A CPU of which the hypervisor took 44 % and 1 % was idle had "1.9x" next to "99 % busy".
    #[test]
    fn other_work_of_a_full_cpu_may_have_to_stay() {
        let room = |other| {
            let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 6e4).receives(0, 0.52, 6e4);
            let answer = Answer::new(&diagnosed(host.works(0, other)));
            answer.facts.into_iter().find(|fact| fact.label == "room").expect("there is traffic").text
        };
        assert_eq!(room(0.47), "CPU 0: 1.0x to 1.9x today's packets. Whole machine: 3.8x");
        assert_eq!(room(0.1), "CPU 0: 1.9x today's packets. Whole machine: 5.8x");
    }

    #[test]
    fn a_healthy_host_gets_no_advice() {
        let host =
            Sketch::new(4).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 2e4).all_receive("0-3", 0.05, 5e3);
        let answer = Answer::new(&diagnosed(host));
        assert_eq!((answer.fixes.len(), answer.severity), (0, None), "{answer:?}");
        assert_eq!(answer.headline, "nothing to do: busiest CPU 5 % receiving, no drops");
    }

    /// It was "nothing to do".
    #[test]
    fn without_traffic_there_is_nothing_to_judge() {
        let mut report = diagnosed(Sketch::new(4).device("eth0", &[1]));
        assert_eq!(
            Answer::new(&report).headline,
            "no traffic to judge: interfaces other than lo receive 10 packets/s"
        );
        report.recorded = true;
        assert_eq!(Answer::new(&report).headline, "no traffic in this recording: nothing to judge");
        let elsewhere = diagnosed(Sketch::new(4).device("eth0", &[1]).receives(1, 0.1, 4e4));
        let answer = Answer::new(&elsewhere);
        let said = "nothing to judge here: no interface of this network namespace receives the ";
        assert!(answer.headline.starts_with(said), "{answer:?}");
        assert_eq!(answer.fixes[0].action, "examine another network namespace");
    }
}
