//! One trial: what was compared, the picture, effects, pairs, latency, what the result rests on, and how to repeat it.

use super::markup::{Markup, typeset};
use super::{commands, effects, figure, heatmap, latency, pairs, path, tables};
use crate::report::document::Trial;
use crate::report::validity;
use rxlab_base::grammar::sh;
use rxlab_base::number;
use rxlab_setting::Setting;
use rxlab_trial::record::{AS_IS, MetricResult, TrialRecord};
use rxlab_trial::spec::Kind;

/// The article below its heading. `cells`: most cells of the heatmap.
pub(super) fn article(m: &mut Markup, trial: &Trial, cells: usize, program: Option<&str>) {
    let record = &trial.record;
    m.leaf("p", &[("class", "basis")], &format!("Trial {}", record.name));
    arms_compared(m, record);
    figure(m, "Receive work by CPU, before and after", &before_and_after(record), |m| {
        heatmap::plot(m, record, cells);
    });
    let results = record.analysis.as_ref().map_or(&[][..], |analysis| &analysis.metrics);
    if !results.is_empty() {
        let margin = number::share(record.margin);
        let caption = format!(
            "Change from A to B. Bars are intervals; the shaded band is the margin of \u{b1}{margin}."
        );
        figure(m, "Effects", &caption, |m| {
            effects::plot(m, results, record.margin);
            tables::behind(m, "Metrics as a table", |m| tables::metrics(m, results, record.margin));
        });
    }
    later(m, trial);
    ratios(m, record, results);
    latency::section(m, record);
    receive_path(m, record);
    m.element("section", &[("class", "validity")], |m| {
        m.leaf("h3", &[], "What this rests on");
        tables::terms(m, validity::rows(record));
    });
    m.element("div", &[("class", "columns")], |m| {
        m.element("section", &[], |m| {
            m.leaf("h3", &[], "Settings");
            tables::settings(m, record);
        });
        m.element("section", &[], |m| tables::notes(m, record));
    });
    if let Some(program) = program {
        m.leaf("h3", &[], "Repeat it");
        let id = sh::word(&record.id);
        let mut lines = vec![format!("{program} trial show {id}")];
        if record.design == Kind::Pairs {
            lines.push(format!("{program} trial run --again {id}"));
        }
        commands(m, &lines);
    }
}

fn before_and_after(record: &TrialRecord) -> String {
    let order = match record.design {
        Kind::BeforeAfter => "in time order",
        _ => "each arm in time order; the arms alternated at random",
    };
    format!("Each column is a slot: on the left those with arm A, on the right those with arm B, {order}.")
}

/// Settings or commands of both arms.
fn arms_compared(m: &mut Markup, record: &TrialRecord) {
    m.element("dl", &[("class", "arms")], |m| {
        m.leaf("dt", &[("class", "a")], "A");
        let [a, b] = record.arms();
        match a.as_slice() {
            [words] if words == AS_IS => m.leaf("dd", &[], words),
            lines => m.element("dd", &[], |m| lines.iter().for_each(|line| m.leaf("code", &[], line))),
        }
        m.leaf("dt", &[("class", "b")], "B");
        m.element("dd", &[], |m| b.iter().for_each(|line| m.leaf("code", &[], line)));
    });
}

/// The receive path with the settings of each arm.
fn receive_path(m: &mut Markup, record: &TrialRecord) {
    let arm = |title, class, lines: &[String]| {
        let settings: Vec<Setting> = lines.iter().filter_map(|line| line.parse().ok()).collect();
        path::Side { title, class, nics: record.paths.iter().map(|nic| nic.with(&settings)).collect() }
    };
    let caption = "Interface, queues, CPUs of their interrupts, CPUs that RPS hands packets to. What the change moves is \
                   drawn thick.";
    let sides = [arm("Arm A", "a", &record.against), arm("Arm B", "b", &record.change)];
    path::section(m, caption, &sides);
}

fn later(m: &mut Markup, trial: &Trial) {
    if trial.checkpoints.is_empty() {
        return;
    }
    let primary = trial.record.metrics.first().map_or("the primary metric", |primary| &primary.title);
    let caption = format!(
        "Change of {primary} from arm A in the trial. Checkpoints are not randomised: other traffic is in them too."
    );
    figure(m, "Checkpoints", &caption, |m| {
        effects::timeline(m, &trial.record, &trial.checkpoints);
        tables::behind(m, "Checkpoints as a table", |m| tables::checkpoints(m, trial));
    });
}

fn ratios(m: &mut Markup, record: &TrialRecord, results: &[MetricResult]) {
    if record.design != Kind::Pairs || results.iter().all(|result| result.ratios.is_empty()) {
        return;
    }
    let caption =
        "B against A in each pair, in time order. Line and tint: estimate and interval; \u{d7}: void pair.";
    figure(m, "Pairs", &typeset(caption), |m| {
        pairs::panels(m, record, results);
        tables::behind(m, "Pairs as a table", |m| tables::ratios(m, results));
    });
}
