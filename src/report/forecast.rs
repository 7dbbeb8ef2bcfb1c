//! What plans should do to CPUs, before any of them is tried.

use serde::{Deserialize, Serialize};

use super::number::grouped;
use super::text::{Column, STRONG, Table, paragraph, styled};
use crate::diagnose::figures::percent;
use crate::model::{Identity, Model, Rates};
use crate::plan::{Costs, CpuLoad, Plan, Prediction};

/// CPUs of a table; JSON has all.
const ROWS: usize = 12;

/// Plans with their predictions, and what these rest on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Forecast {
    /// `rxlab.forecast/1`.
    pub schema: String,
    /// Which machine.
    pub identity: Identity,
    /// Length of the look in seconds.
    pub seconds: f64,
    /// What was measured to calibrate the predictions.
    pub costs: Costs,
    /// The plans; one without a prediction moves no receive work by the model.
    pub plans: Vec<Plan>,
    /// Why others are not there.
    pub reasons: Vec<String>,
}

impl Forecast {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.forecast/1";

    /// Plans of a look at a machine.
    pub fn new(model: &Model, rates: &Rates, costs: Costs, plans: Vec<Plan>, reasons: Vec<String>) -> Self {
        let schema = Self::SCHEMA.to_owned();
        Self { schema, identity: model.identity.clone(), seconds: rates.seconds, costs, plans, reasons }
    }
}

/// On a terminal of 80 columns.
pub fn text(forecast: &Forecast) -> String {
    let mut out = paragraph("calibration: ", &forecast.costs.basis());
    for missing in forecast.costs.missing.iter().filter(|_| !forecast.costs.cpus.is_empty()) {
        out += &paragraph("  not measured: ", missing);
    }
    for cpu in forecast.costs.cpus.iter().filter(|cpu| cpu.packets >= 1000.0).take(ROWS) {
        let line = format!(
            "{} packets/s in polls of {:.1}, {:.2} us each; {} interrupts/s of {:.1} us",
            grouped(cpu.packets as u64),
            cpu.a_poll,
            cpu.receive * 1e6 / cpu.packets,
            grouped(cpu.interrupts as u64),
            cpu.interrupt_ns / 1e3
        );
        out += &paragraph(&format!("  CPU {}: ", cpu.cpu), &line);
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
            Some(prediction) => out += &loads(plan, prediction),
            None => out += "  no prediction: by the model it moves no receive work\n",
        }
    }
    for reason in &forecast.reasons {
        out += &paragraph("not planned: ", reason);
    }
    out
}

fn loads(plan: &Plan, prediction: &Prediction) -> String {
    let mut table =
        Table::new([Column::right("CPU"), Column::right("receives now"), Column::right("then")]).indented(2);
    let mut cpus: Vec<&CpuLoad> = prediction.cpus.iter().collect();
    cpus.sort_by(|a, b| b.before.max(b.after).total_cmp(&a.before.max(a.after)));
    for load in cpus.iter().take(ROWS) {
        let time = |part: f64| if part > 1.0 { "over 100 %".to_owned() } else { percent(part) };
        table.row([load.cpu.to_string().into(), time(load.before).into(), time(load.after).into()]);
    }
    let more = match cpus.len().saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("  and {more} more CPUs (--json has all)\n"),
    };
    let rates = format!(
        "today {}, at most {} as it is, {} with the plan; receive time of all CPUs {:+.0} %",
        grouped(prediction.packets as u64),
        grouped(prediction.most_before as u64),
        grouped(prediction.most_after as u64),
        prediction.total_change * 100.0
    );
    table.render()
        + &more
        + &paragraph("  packets/s: ", &rates)
        + &paragraph("  ", &prediction.room(&plan.name))
}

#[cfg(test)]
/// What a machine without root is told of field case A.
pub(super) fn sample() -> Forecast {
    use crate::diagnose::sketch::Sketch;
    use crate::plan::{forecast, spread};

    let (model, rates) = Sketch::case_a().build();
    let costs = Costs::unknown("eBPF needs CAP_BPF and CAP_PERFMON, as root has them".to_owned());
    let spread = spread(&model, &rates, None);
    let mut plans: Vec<_> = spread.proposals.into_iter().map(|proposal| proposal.plan).collect();
    for plan in &mut plans {
        plan.prediction = forecast(&model, &rates, plan, &costs);
    }
    Forecast::new(&model, &rates, costs, plans, spread.reasons)
}

#[cfg(test)]
mod tests {
    use super::{Forecast, sample, text};

    #[test]
    fn field_case_a_without_calibration() {
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&sample())).to_string());
    }

    #[test]
    fn json_reads_back() {
        let json = serde_json::to_string(&sample()).expect("JSON");
        let again: Forecast = serde_json::from_str(&json).expect("it reads back");
        assert_eq!((again.plans.len(), again.schema.as_str()), (3, Forecast::SCHEMA));
    }
}
