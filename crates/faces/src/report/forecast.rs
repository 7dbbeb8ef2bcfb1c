//! Predicted effect of plans on CPUs, before any of them is tried.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{STRONG, Table, paragraph, paragraphs, right, styled};
use rxlab_advise::plan::{basis, forecast};
use rxlab_base::number::grouped;
use rxlab_base::number::percent;
use rxlab_path::model::{Costs, Identity, Model, Rates};
use rxlab_setting::{CpuLoad, Plan, Prediction, predicted_percent};

/// CPUs in a table; JSON has all.
const ROWS: usize = 12;

/// Plans with their predictions, and the basis of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Forecast {
    /// `rxlab.forecast/2`.
    pub schema: String,
    /// The machine.
    pub identity: Identity,
    /// Length of the sample in seconds.
    pub seconds: f64,
    /// Measurements that calibrate the predictions; `None` if nothing could be measured.
    #[serde(default)]
    pub costs: Option<Costs>,
    /// Basis of the predictions, in one line.
    pub basis: String,
    /// The plans.
    pub plans: Vec<Plan>,
    /// Reasons for missing predictions, by name of the plan.
    #[serde(default)]
    pub unpredicted: BTreeMap<String, String>,
    /// Reasons for missing plans.
    pub reasons: Vec<String>,
}

impl Forecast {
    pub const SCHEMA: &'static str = "rxlab.forecast/2";

    /// Predicts the effect of plans from one sample of a machine.
    pub fn new(model: &Model, rates: &Rates, mut plans: Vec<Plan>, reasons: Vec<String>) -> Self {
        let mut unpredicted = BTreeMap::new();
        for plan in &mut plans {
            let prediction = forecast(model, rates, plan);
            plan.prediction = prediction.map_err(|why| unpredicted.insert(plan.name.clone(), why)).ok();
        }
        Self {
            schema: Self::SCHEMA.to_owned(),
            identity: model.identity.clone(),
            seconds: rates.seconds,
            costs: rates.costs.clone(),
            basis: basis(rates),
            plans,
            unpredicted,
            reasons,
        }
    }
}

/// Renders a forecast for a terminal of 80 columns.
pub fn text(forecast: &Forecast) -> String {
    let mut out = paragraph("basis: ", &forecast.basis);
    let costs = forecast.costs.iter();
    let calibrated = costs.clone().filter(|costs| costs.hand_over.is_some());
    out += &paragraphs("  not measured: ", calibrated.flat_map(|costs| &costs.missing));
    for (cpu, work) in costs.flat_map(|costs| &costs.cpus).take(ROWS) {
        let waking = match work.waking {
            Some(part) => format!(", {} wakes readers on other CPUs", percent(part)),
            None => String::new(),
        };
        let line = format!("{} of its receive work can go to another CPU{waking}", percent(work.part));
        out += &paragraph(&format!("  CPU {cpu}: "), &line);
    }
    for plan in &forecast.plans {
        out += &format!("\n{}\n", styled(STRONG, &format!("plan {}", plan.name)));
        for planned in plan.settings.iter().take(4) {
            out += &paragraph("  ", &planned.set.to_string());
        }
        if plan.settings.len() > 4 {
            out += &format!("  and {} more settings\n", plan.settings.len() - 4);
        }
        match &plan.prediction {
            Some(prediction) => out += &loads(forecast, plan, prediction),
            None => {
                let why = forecast.unpredicted.get(&plan.name).map_or("not asked for", String::as_str);
                out += &paragraph("  no prediction: ", why);
            }
        }
    }
    out + &paragraphs("not planned: ", &forecast.reasons)
}

fn loads(forecast: &Forecast, plan: &Plan, prediction: &Prediction) -> String {
    let range = if prediction.range.is_some() { "range" } else { "" };
    let mut table = Table::new(["CPU", "receives now", "then", range].map(right)).indented(2);
    let mut cpus: Vec<&CpuLoad> = prediction.cpus.iter().collect();
    cpus.sort_by(|a, b| b.before.max(b.after).total_cmp(&a.before.max(a.after)));
    for load in cpus.iter().take(ROWS) {
        let time = |part: f64| if part > 1.0 { "over 100 %".to_owned() } else { percent(part) };
        let range =
            load.range.map_or(String::new(), |[low, high]| format!("{:.0} to {}", low * 100.0, time(high)));
        let then = if load.after > 1.0 { time(load.after) } else { predicted_percent(load.after) };
        let cells = [load.cpu.to_string(), time(load.before), then, range];
        table.row(cells.map(Into::into));
    }
    let more = match cpus.len().saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("  and {more} more CPUs (--json has all)\n"),
    };
    let is_left = prediction.cpus.iter().any(|load| predicted_percent(load.after) == predicted_percent(0.0));
    let near = if is_left {
        paragraph("  near 0 %: ", "other softirqs and interrupts stay there")
    } else {
        String::new()
    };
    // Without a figure, the next line says why.
    let fits = prediction.fits().map(|fits| fits.map(|fits| grouped((fits * prediction.packets) as u64)));
    let with_it = match fits {
        Some([low, high]) if low != high => format!(", {low} to {high} with it"),
        Some([low, _]) => format!(", {low} with it"),
        None => String::new(),
    };
    let mut rates = format!("today {}", grouped(prediction.packets as u64));
    // No CPU can be full of packets that a limit keeps away.
    if prediction.limit.is_none() {
        rates += &format!(", at most {} without the plan{with_it}", grouped(prediction.most_before as u64));
    }
    let mut text = table.render()
        + &more
        + &near
        + &paragraph("  packets/s of interfaces: ", &rates)
        + &paragraph("  ", &prediction.room(&plan.name));
    if prediction.basis != forecast.basis {
        text += &paragraph("  based on: ", &prediction.basis);
    }
    text + &paragraphs("  not predicted: ", &prediction.left_out)
}

#[cfg(test)]
/// Forecast for field case A without root.
pub(super) fn sample() -> Forecast {
    use rxlab_advise::plan::spread;
    use rxlab_path::sketch::Sketch;

    let (model, rates) = Sketch::case_a().build();
    let spread = spread(&model, &rates, None);
    let plans = spread.proposals.into_iter().map(|proposal| proposal.plan).collect();
    let reasons = spread.reasons.iter().map(ToString::to_string).collect();
    Forecast::new(&model, &rates, plans, reasons)
}

#[cfg(test)]
mod tests {
    use super::{Forecast, sample, text};
    use crate::report::text::plain;
    use rxlab_advise::plan::spread;
    use rxlab_path::sketch::Sketch;
    use rxlab_setting::Plan;

    #[test]
    fn field_case_a_without_calibration() {
        insta::assert_snapshot!(plain(&text(&sample())));
    }

    /// Regression: settings of a policy that are not predicted were omitted silently.
    #[test]
    fn unpredicted_settings_are_listed() {
        let (model, rates) = Sketch::case_a().build();
        let plan = |name: &str, settings: &[&str]| {
            let settings: Vec<_> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
            Plan::new(name, &settings)
        };
        let plans = vec![
            plan("wide", &["irq_affinity eth0/rx-0 = 4-7", "rps eth0/rx-0 = 5-7", "xps_cpus eth0/tx-0 = 1"]),
            plan("none", &["rps eth0/rx-0 = off"]),
        ];
        let told = plain(&text(&Forecast::new(&model, &rates, plans, Vec::new())));
        assert!(
            told.contains("not predicted: the kernel chooses where interrupts go: irq_affinity"),
            "{told}"
        );
        assert!(told.contains("not predicted: other settings: xps_cpus (1 setting)"), "{told}");
        assert!(told.contains("no prediction: in the model it moves no receive work"), "{told}");
    }

    /// Regression: figures from fixed fractions were shown next to measured ones.
    #[test]
    fn a_plan_has_the_prediction_of_this_sample_or_none() {
        let (model, rates) = Sketch::case_a().build();
        let spread = spread(&model, &rates, None);
        let mut plans: Vec<Plan> = spread.proposals.into_iter().map(|proposal| proposal.plan).collect();
        plans.push(Plan::new("none", &["rps eth0/rx-0 = off".parse().expect("a setting")]));
        let stale = plans[0].prediction.clone();
        plans[3].prediction = stale;
        let (model, rates) = Sketch::case_a().receives(2, 0.5, 4e4).ksoftirqd(2, 0.0).build();
        for plan in Forecast::new(&model, &rates, plans, Vec::new()).plans {
            assert!(plan.prediction.as_ref().is_none_or(|prediction| prediction.before < 0.6), "{plan:?}");
            assert_eq!(plan.prediction.is_none(), plan.name == "none", "{plan:?}");
        }
    }

    #[test]
    fn json_round_trips() {
        let json = serde_json::to_string(&sample()).expect("JSON");
        let again: Forecast = serde_json::from_str(&json).expect("it reads back");
        assert_eq!((again.plans.len(), again.schema.as_str()), (3, Forecast::SCHEMA));
    }
}
