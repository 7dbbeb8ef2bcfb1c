//! Table and question of `rxlab apply` on a terminal before it changes anything.

use std::io::{self, BufRead, Write};

use crate::commands::answer::discard_earlier;
use crate::commands::output;
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::Change;
use rxlab_faces::report::text::{Cell, Table, left, wrapping};
use rxlab_path::model::Model;
use rxlab_setting::{Plan, PlannedSetting, Risk};

/// Prints the values to be written with their risk and upkeep, and asks before anything riskier than safe unless
/// `is_agreed`. An error if the answer is not yes.
pub(super) fn obtain(changes: &[Change], plan: &Plan, model: &Model, is_agreed: bool) -> Result {
    let planned: Vec<(&Change, PlannedSetting)> = changes
        .iter()
        .filter(|change| change.needed)
        .map(|change| (change, planned(change, plan, model)))
        .collect();
    let mut out = output::text_stdout();
    write!(out, "{}", table(&planned).render())?;
    let Some(risk) = planned.iter().filter_map(|(_, planned)| planned.risk).max() else { return Ok(()) };
    if risk == Risk::Safe || is_agreed {
        return Ok(());
    }
    drop(out);
    ask(&format!("{}: {}. Apply?", risk, effect(risk)))
}

/// Asks on the terminal. An error if the answer is not yes.
pub(in crate::commands) fn ask(question: &str) -> Result {
    let mut out = output::plain_stdout();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    drop(out);
    discard_earlier();
    let mut answer = String::new();
    // An unreadable answer is not a yes.
    let _ = io::stdin().lock().read_line(&mut answer);
    if is_yes(&answer) { Ok(()) } else { Err(CommandError::new(Kind::Interrupted, "nothing was changed")) }
}

/// Returns the setting with the greater of the plan's risk and that of its knob with its interface's driver.
fn planned(change: &Change, plan: &Plan, model: &Model) -> PlannedSetting {
    let setting = &change.setting;
    let nic = setting.target.nic().and_then(|name| model.nic(name));
    let driver = nic.and_then(|nic| nic.driver.as_deref());
    let known = PlannedSetting::new(setting.clone(), "", None).with_driver(driver);
    let is_it =
        |planned: &&PlannedSetting| planned.set.knob == setting.knob && planned.set.target == setting.target;
    let said = plan.settings.iter().find(is_it);
    PlannedSetting {
        risk: known.risk.max(said.and_then(|said| said.risk)),
        upkeep: known.upkeep.max(said.and_then(|said| said.upkeep)),
        ..known
    }
}

fn table(planned: &[(&Change, PlannedSetting)]) -> Table {
    let mut table = Table::new([wrapping("SETTING"), wrapping("NOW"), left("RISK"), left("UPKEEP")]);
    for (change, planned) in planned {
        let now = change.before.clone().unwrap_or_else(|| "not there yet".to_owned());
        let [risk, upkeep] = [Cell::or_dash(planned.risk), Cell::or_dash(planned.upkeep)];
        table.row([planned.set.to_string().into(), now.into(), risk, upkeep]);
    }
    table
}

fn effect(risk: Risk) -> &'static str {
    match risk {
        Risk::Safe => "packets keep flowing",
        Risk::BriefStall => "traffic stops for milliseconds",
        Risk::LinkReset => "the link goes down and up",
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::{is_yes, planned, table};
    use rxlab_change::apply::Change;
    use rxlab_change::knob::testbed::model;
    use rxlab_faces::report::text::plain;
    use rxlab_setting::{Plan, Risk, Setting};

    fn change(text: &str) -> Change {
        Change { setting: text.parse().expect("a setting"), before: Some("1".to_owned()), needed: true }
    }

    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("y\n") && is_yes("Yes\n") && is_yes(" YES "));
        assert!(!is_yes("") && !is_yes("\n") && !is_yes("n\n") && !is_yes("yess"));
    }

    #[test]
    fn a_plan_cannot_call_a_link_reset_safe() {
        let setting: Setting = "ring_rx eth0 = 512".parse().expect("a setting");
        let mut plan = Plan::new("x", std::slice::from_ref(&setting));
        plan.settings[0].risk = Some(Risk::Safe);
        assert_eq!(planned(&change("ring_rx eth0 = 512"), &plan, &model()).risk, Some(Risk::LinkReset));
        let mut plan = Plan::new("x", &["rps eth0/rx-0 = 1".parse().expect("a setting")]);
        plan.settings[0].risk = Some(Risk::BriefStall);
        assert_eq!(planned(&change("rps eth0/rx-0 = 1"), &plan, &model()).risk, Some(Risk::BriefStall));
    }

    #[test]
    fn each_setting_has_risk_and_upkeep() {
        let plan = Plan::new("x", &[]);
        let changes = [change("rps eth0/rx-0 = 1"), change("ring_rx eth0 = 512")];
        let rows: Vec<_> = changes.iter().map(|change| (change, planned(change, &plan, &model()))).collect();
        insta::assert_snapshot!(plain(&table(&rows).render()), @r"
        SETTING             NOW  RISK        UPKEEP
        rps eth0/rx-0 = 1   1    safe        medium
        ring_rx eth0 = 512  1    link reset  low
        ");
    }
}
