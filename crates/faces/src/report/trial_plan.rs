//! The plan of a trial that is not run, as text.

use std::time::Duration;

use super::text::paragraph;
use super::words;
use rxlab_base::number;
use rxlab_base::units::format_duration;
use rxlab_trial::blocks::NamedSettings;
use rxlab_trial::prior::TrialPlan;
use rxlab_trial::spec::Kind;

/// Duration and pairs that the trial would take.
pub fn render(plan: &TrialPlan) -> String {
    let mut out = paragraph("", &format!("plan of {}: {}", words::title(&plan.name), provable(plan)));
    out += "  nothing was changed\n";
    if !plan.design.is_usual() {
        out += &paragraph("  design: ", plan.design.in_words());
    }
    for named in &plan.arms {
        out += &arm(named);
    }
    let why = plan.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    out += &paragraph("  deciding metric: ", &format!("{}{why}", plan.primary.title));
    let (slot, washout) = (seconds(plan.measure_s), seconds(plan.washout_s));
    let slots =
        format!("at most {}, {slot} each, after a washout of {washout}", number::grouped(plan.slots as u64));
    out += &paragraph("  slots: ", &slots);
    out += &paragraph("  noise: ", &noise(plan));
    if let Some(lengths) = plan.planned.as_ref().and_then(|planned| words::lengths(planned, plan.margin)) {
        out += &paragraph("  compared: ", &lengths);
    }
    let looks: Vec<String> = plan.looks.iter().map(usize::to_string).collect();
    if !looks.is_empty() {
        out += &paragraph("  looks: ", &format!("at {} pairs", looks.join(", ")));
    }
    if let Some(ceiling) = plan.ceiling {
        let (most, margin) = (number::share(ceiling), number::share(plan.margin));
        let text =
            format!("cannot matter: it gains at most {most} of throughput, below the margin of {margin}");
        out += &paragraph("  steering: ", &text);
    }
    out
}

/// The longest time, and the smallest change that is shown in it: `at most about 6 min, can show changes of 17 % or more (3 %
/// would take about 168 min)`.
fn provable(plan: &TrialPlan) -> String {
    let most = format!("at most {}", number::about(plan.seconds(plan.slots)));
    if plan.design == Kind::BeforeAfter {
        return format!("{most}, not randomised: it proves nothing");
    }
    let Some(planned) = &plan.planned else { return format!("{most}; what it can show is unknown") };
    let margin = number::share(plan.margin);
    let longer = match planned.pairs {
        Some(pairs) => format!("{margin} would take {}", number::about(plan.seconds(2 * pairs))),
        None => format!("no amount of time would show {margin}: too much varies"),
    };
    match planned.detectable {
        Some(least) if least <= plan.margin => {
            format!("{most}, can show changes of {} or more", number::share(least))
        }
        Some(least) => format!("{most}, can show changes of {} or more ({longer})", number::share(least)),
        None => format!("{most}, cannot show even a change of 100 % ({longer})"),
    }
}

/// A factor, candidate or level with its settings.
pub fn arm(named: &NamedSettings) -> String {
    paragraph(&format!("  {} sets: ", named.name), &named.set.join("; "))
}

fn noise(plan: &TrialPlan) -> String {
    let Some(planned) = &plan.planned else {
        return "unknown before the trial: this metric cannot be sampled beforehand".to_owned();
    };
    let takes = planned.pairs.map(|pairs| format!(", {}", number::about(plan.seconds(2 * pairs))));
    words::planned(planned, plan.margin) + &takes.unwrap_or_default()
}

fn seconds(seconds: f64) -> String {
    format_duration(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::render;
    use rxlab_trial::prior::{Length, Planned, TrialPlan};
    use rxlab_trial::spec::Spec;

    fn plan(planned: Option<Planned>) -> String {
        let text = "name = \"rps\"\nchange = { set = [\"rps eth0/rx-0 = 1\"] }\nworkload.live = true";
        let spec = Spec::parse(text).expect("a specification");
        let why = Some("CPU 2 receives packets and is full".to_owned());
        render(&TrialPlan::new(&spec, why, Some(0.012), planned))
    }

    #[test]
    fn the_text() {
        let planned = Planned {
            sampled_s: 19.0,
            noise: 0.0212,
            measure_s: 2.0,
            pairs: Some(14),
            detectable: Some(0.0123),
            lengths: [(0.5, None), (1.0, Some(84.0)), (2.0, Some(57.5))]
                .map(|(measure_s, takes_s)| Length { measure_s, noise: 0.03, takes_s })
                .to_vec(),
        };
        let noisy =
            Planned { pairs: None, noise: 4.0, detectable: None, lengths: Vec::new(), ..planned.clone() };
        insta::assert_snapshot!([Some(planned), Some(noisy), None].map(plan).join("\n"));
    }
}
