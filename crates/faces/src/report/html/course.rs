//! The course of a tuning in time order: sample, search, proof, setting, checkpoints.

use super::markup::Markup;
use crate::report::document::{Document, Part};
use crate::report::findings::Answer;
use crate::report::{blocks_text, words};
use rxlab_base::number::{capitalized, plural};
use rxlab_trial::tuning::Tuning;

/// A step: when it began, its kind, and its result.
struct Step {
    when: String,
    kind: &'static str,
    result: String,
}

/// The steps, each with its time and its result.
pub(super) fn article(m: &mut Markup, tuning: &Tuning, document: &Document) {
    m.element("ol", &[("class", "course")], |m| {
        for step in steps(tuning, document) {
            m.element("li", &[], |m| {
                m.inline("strong", &[], step.kind);
                m.text(" ");
                m.inline("small", &[], &step.when);
                m.sentence("p", &[], &capitalized(&step.result));
            });
        }
    });
}

/// `10:00:05 UTC` of an RFC 3339 time, after its day.
fn moment(time: &str) -> String {
    time.get(..19).map_or_else(|| time.to_owned(), |time| format!("{} UTC", time.replace('T', " ")))
}

fn steps(tuning: &Tuning, document: &Document) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in &document.parts {
        match part {
            Part::Doctor(report) => steps.push(Step {
                when: report.taken.as_deref().map(moment).unwrap_or_default(),
                kind: "Sample",
                result: format!("{:.0} s: {}", report.seconds, Answer::new(report).headline),
            }),
            Part::Blocks(record) if tuning.choice.as_ref() == Some(&record.id) => steps.push(Step {
                when: moment(&record.started),
                kind: "Search",
                result: format!(
                    "{} compared in {}. {}",
                    plural(record.settings.len() + 1, "candidate"),
                    plural(record.slots.len(), "slot"),
                    blocks_text::sentence(record)
                ),
            }),
            Part::Trial(trial) if tuning.trial.as_ref() == Some(&trial.record.id) => {
                steps.push(Step {
                    when: moment(&trial.record.started),
                    kind: "Proof",
                    result: format!("{}: {}", words::headline(&trial.record), words::figure(&trial.record)),
                });
                steps.extend(set(tuning));
                steps.extend(trial.checkpoints.iter().map(|checkpoint| Step {
                    when: moment(&checkpoint.taken),
                    kind: "Checkpoint",
                    result: words::state(checkpoint.state).to_owned(),
                }));
            }
            _ => {}
        }
    }
    steps
}

fn set(tuning: &Tuning) -> Option<Step> {
    let transaction = tuning.transaction.as_ref()?;
    let until = tuning.confirm_within_s.map_or_else(
        || "kept".to_owned(),
        |seconds| format!("reverts after {seconds:.0} s unless it was confirmed"),
    );
    let best = tuning.best.as_deref().unwrap_or("the best");
    Some(Step {
        when: String::new(),
        kind: "Set",
        result: format!("{best}, transaction {transaction}; {until}"),
    })
}

#[cfg(test)]
mod tests {
    use super::steps;
    use crate::report::document::{Document, Part, Trial};
    use rxlab_advise::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;
    use rxlab_trial::sample_record;
    use rxlab_trial::spec::Kind;
    use rxlab_trial::tuning::Tuning;

    #[test]
    fn every_step_of_a_tuning_is_there_in_order() {
        let (search, trial) = (sample_record::blocks(Kind::Choice, &["rps-4"]), sample_record::rps());
        let tuning = Tuning {
            best: Some("RPS to CPU 1".to_owned()),
            choice: Some(search.id.clone()),
            trial: Some(trial.id.clone()),
            transaction: Some("000001-092e".to_owned()),
            confirm_within_s: Some(60.0),
            ..Tuning::new("eth0".parse().expect("a name"))
        };
        let checkpoint = sample_record::checkpoint(&trial.id, "2026-05-02T10:00:00Z");
        let trial = Trial { record: trial, checkpoints: vec![checkpoint] };
        let document = Document::new(vec![
            Part::Doctor(Box::new(diagnosed(Sketch::case_a()))),
            Part::Blocks(Box::new(search)),
            Part::Trial(Box::new(trial)),
        ]);
        let kinds: Vec<&str> = steps(&tuning, &document).iter().map(|step| step.kind).collect();
        assert_eq!(kinds, ["Sample", "Search", "Proof", "Set", "Checkpoint"]);
        let set = steps(&tuning, &document).remove(3).result;
        assert_eq!(set, "RPS to CPU 1, transaction 000001-092e; reverts after 60 s unless it was confirmed");
        let none = Tuning::new("eth0".parse().expect("a name"));
        assert_eq!(steps(&none, &document).len(), 1, "other trials are not its steps");
    }
}
