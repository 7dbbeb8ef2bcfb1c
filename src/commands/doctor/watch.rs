//! `rxlab doctor --watch`: prints a line when a finding appears, changes its severity or clears.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::commands::{Global, look, output, place};
use crate::diagnose::diagnose;
use crate::doctor::Alerts;
use crate::error::{CommandError, Kind};
use crate::host::LiveHost;
use crate::probe::Budget;
use crate::report::text::clean;
use crate::units::NicName;

/// Takes samples of `length` until interrupted; the exit code is that of the last complete sample.
pub(super) fn run(
    global: &Global,
    host: &LiveHost,
    (length, budget): (Duration, Budget),
    nic: Option<&NicName>,
) -> Result<(), CommandError> {
    look::long_enough(length)?;
    let stop = place::stop_flag()?;
    let mut alerts = Alerts::default();
    loop {
        let looked = look::for_a_while(host, length, budget, &stop);
        // An interrupted sample does not count: its figures are of a shorter time than asked for.
        if stop.load(Ordering::SeqCst) {
            return verdict(&alerts);
        }
        let (model, rates) = looked?;
        let mut findings = diagnose(&model, &rates);
        if let Some(nic) = nic.and_then(|name| model.nic(name)) {
            let carriers = model.carriers(nic);
            let concerns =
                |name: &NicName| std::iter::once(&nic).chain(&carriers).any(|one| one.name == *name);
            findings.retain(|finding| finding.nic.as_ref().is_none_or(concerns));
        }
        let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut out = output::stdout(global);
        for alert in alerts.look(&findings, &time) {
            if global.json {
                let text = serde_json::to_string(&alert)
                    .map_err(|error| CommandError::failed(format!("cannot write JSON: {error}")))?;
                writeln!(out, "{text}")?;
            } else {
                writeln!(out, "{}", clean(&alert.in_one_line()))?;
            }
        }
        out.flush()?;
        if out.is_closed() {
            return verdict(&alerts);
        }
    }
}

fn verdict(alerts: &Alerts) -> Result<(), CommandError> {
    if alerts.calls() { Err(CommandError::silent(Kind::Findings)) } else { Ok(()) }
}
