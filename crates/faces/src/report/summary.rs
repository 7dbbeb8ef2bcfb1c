//! The result of each part of a report: one plain sentence, for the top of a page and of a ticket.

use super::document::Part;
use super::findings::Answer;
use super::printed::StatusReport;
use super::words::{self, Tone};
use super::{action, blocks_text, compare, interference, trace, tune_text};
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::number::{self, capitalized, grouped, share};
use rxlab_base::units::Fact;
use rxlab_path::model::Identity;
use rxlab_probe::Interference;
use rxlab_probe::trace::Trace;
use rxlab_trial::blocks::{BlocksRecord, End};
use rxlab_trial::tuning::{End as Ended, Tuning};

/// A result in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub heading: String,
    /// Name of the trial, or kind of the part.
    pub name: String,
    /// The result in a few words.
    pub call: String,
    /// The result in one or two sentences with figures.
    pub sentence: String,
    pub tone: Tone,
}

impl Summary {
    pub fn new(part: &Part) -> Self {
        match part {
            Part::Trial(trial) => Self {
                heading: action::heading(&trial.record),
                name: trial.record.name.clone(),
                call: words::headline(&trial.record).to_owned(),
                sentence: words::sentence(&trial.record),
                tone: words::tone(&trial.record),
            },
            Part::Blocks(record) => Self {
                heading: format!("Trial {}", record.name),
                name: record.name.clone(),
                call: blocks_text::headline(record).to_owned(),
                sentence: blocks_text::sentence(record),
                tone: tone_of_blocks(record),
            },
            Part::Comparison(comparison) => Self {
                heading: "Which setup disturbs less".to_owned(),
                name: "comparison".to_owned(),
                call: compare::headline(comparison).to_owned(),
                sentence: compare::sentence(comparison),
                tone: Tone::Neutral,
            },
            Part::Doctor(report) => doctor(report),
            Part::Interference(sample) => lost(sample),
            Part::Trace(trace) => traced(trace),
            Part::Tune(tuning) => tuned(tuning),
            Part::Status(report) => applied(report),
        }
    }
}

/// The machine of a part, if its record names it.
pub fn machine(part: &Part) -> Option<&Identity> {
    match part {
        Part::Trial(trial) => Some(&trial.record.host),
        Part::Blocks(record) => Some(&record.host),
        Part::Doctor(report) => Some(&report.identity),
        Part::Status(report) => report.host.as_ref(),
        Part::Comparison(_) | Part::Interference(_) | Part::Trace(_) | Part::Tune(_) => None,
    }
}

fn tone_of_blocks(record: &BlocksRecord) -> Tone {
    match record.conclusion.as_ref().map(|conclusion| &conclusion.end) {
        Some(End::Complete) => Tone::Neutral,
        Some(End::GuardTripped { .. }) => Tone::Bad,
        _ => Tone::Caution,
    }
}

fn tuned(tuning: &Tuning) -> Summary {
    let (call, tone) = match &tuning.end {
        Ended::Helps => ("helps", Tone::Good),
        Ended::Limited | Ended::NothingToGain => ("nothing to gain", Tone::Neutral),
        Ended::Planned => ("planned", Tone::Neutral),
        Ended::Unmeasurable => ("cannot tell", Tone::Caution),
        Ended::Unproven { .. } => ("nothing proven", Tone::Caution),
        Ended::Stopped { .. } => ("stopped", Tone::Caution),
    };
    let sentence = tune_text::sentence(tuning);
    Summary {
        heading: format!("Tuning of {}", tuning.nic),
        name: "tune".to_owned(),
        call: call.to_owned(),
        sentence: format!("{}.", capitalized(sentence.trim_end_matches('.'))),
        tone,
    }
}

fn doctor(report: &DoctorReport) -> Summary {
    let answer = Answer::new(report);
    Summary {
        heading: format!("Findings on {}", report.identity.hostname),
        name: "doctor".to_owned(),
        call: number::plural(report.findings.len(), "finding"),
        sentence: format!("{}.", capitalized(&answer.headline)),
        tone: answer.tone,
    }
}

fn applied(report: &StatusReport) -> Summary {
    let hostname = report.host.as_ref().map_or("an unknown host", |host| host.hostname.as_str());
    let open = number::plural(report.transactions.len(), "open transaction");
    let (sentence, tone) = if report.transactions.is_empty() && report.is_fine() {
        (format!("Nothing is applied on {hostname}."), Tone::Neutral)
    } else if report.is_fine() {
        (format!("{open} on {hostname}; every value holds."), Tone::Neutral)
    } else {
        let fine = report.transactions.iter().filter(|one| one.is_fine()).count();
        (format!("{open} on {hostname}; {fine} hold."), Tone::Bad)
    };
    Summary {
        heading: format!("What is applied on {hostname}"),
        name: "status".to_owned(),
        call: open,
        sentence,
        tone,
    }
}

fn lost(sample: &Interference) -> Summary {
    let over = format!("{:.1} s", sample.seconds);
    let (call, sentence, tone) = match &sample.victims {
        Fact::Known(victims) => match interference::losers(sample, victims).first() {
            Some(worst) => {
                let (who, by) = (interference::who(worst), interference::by(sample, worst));
                let lost = share(sample.share(worst.lost_ns()));
                ("time was lost", format!("{who} lost {lost} of a CPU over {over}: {by}."), Tone::Caution)
            }
            None => {
                let sentence = format!("No task lost more than 0.05 % of {over} to received packets.");
                ("nothing lost", sentence, Tone::Neutral)
            }
        },
        _ => {
            let busiest = sample.cpus.iter().filter_map(|cpu| Some((cpu.cpu, *cpu.net_rx_ns.known()?)));
            let busiest = busiest.max_by_key(|(_, ns)| *ns);
            let sentence = busiest.map_or("The receive time is unknown.".to_owned(), |(cpu, ns)| {
                let spent = share(sample.share(ns));
                format!("CPU {cpu} spent {spent} of {over} in softirqs; who paid is unknown.")
            });
            ("processes unknown", sentence, Tone::Caution)
        }
    };
    Summary {
        heading: "Who lost time to received packets".to_owned(),
        name: "interference".to_owned(),
        call: call.to_owned(),
        sentence,
        tone,
    }
}

fn traced(trace: &Trace) -> Summary {
    let longest = trace.longest.first().map_or("no run of NET_RX".to_owned(), |run| {
        format!("the longest run of NET_RX took {} on CPU {}", trace::time(run.ns), run.cpu)
    });
    let lost = match trace.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost", grouped(lost)),
    };
    Summary {
        heading: "Timeline of receive work".to_owned(),
        name: "trace".to_owned(),
        call: format!(
            "{} in {} s",
            number::plural(trace.events as usize, "event"),
            number::decimal(trace.seconds)
        ),
        sentence: format!("{} events in {:.1} s, {lost}; {longest}.", grouped(trace.events), trace.seconds),
        tone: if trace.lost > 0 { Tone::Caution } else { Tone::Neutral },
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::report::document::{Part, Trial};
    use crate::report::{sample_compare, sample_fleet, sample_interference, sample_trace};
    use rxlab_advise::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;
    use rxlab_trial::sample_record;

    #[test]
    fn each_part_in_one_sentence() {
        let parts = [
            Part::Trial(Box::new(Trial::new(sample_record::rps()))),
            Part::Doctor(Box::new(diagnosed(Sketch::case_a()))),
            Part::Doctor(Box::new(diagnosed(Sketch::new(4).device("eth0", &[1])))),
            Part::Comparison(Box::new(sample_compare::steered())),
            Part::Interference(Box::new(sample_interference::measured())),
            Part::Interference(Box::new(sample_interference::counted())),
            Part::Trace(Box::new(sample_trace::traced())),
            Part::Status(Box::new(sample_fleet::status("web1"))),
        ];
        let lines = parts.iter().map(Summary::new).map(|summary| {
            assert!(summary.sentence.ends_with('.') && !summary.sentence.contains('\n'), "{summary:?}");
            format!("{}: {}\n  {:?}: {}\n", summary.name, summary.call, summary.tone, summary.sentence)
        });
        insta::assert_snapshot!(lines.collect::<String>());
    }
}
