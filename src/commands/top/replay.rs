//! Recorded intervals as frames.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::sampler::surroundings;
use super::{Args, print, screen};
use crate::commands::machine::{self, Source};
use crate::commands::record::{recorded, ring, unreadable};
use crate::commands::{Global, output};
use crate::doctor::{Alerts, doctor};
use crate::error::CommandError;
use crate::recorder::{Intervals, WindowError};
use crate::report::live::{Applied, LiveFrame};
use crate::sample::{Inventory, Scope};

/// Length of the stretch without `--for`.
const LENGTH: Duration = Duration::from_secs(600);
/// Before the stretch: settings and programs come from a full sample, and those are ten seconds apart.
const LEAD_MS: i64 = 20_000;

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let ring = ring(global)?;
    let span = ring.span().map_err(|error| unreadable(global, error))?;
    let span = span.ok_or_else(|| unreadable(global, WindowError::Empty))?;
    let to_ms = args.from.at.map_or(span.last_ms, Timestamp::as_millisecond);
    let length = args.length.unwrap_or(LENGTH);
    let from_ms = to_ms.saturating_sub(i64::try_from(length.as_millis()).unwrap_or(i64::MAX));
    // Settings to try a plan on, and an error if nothing is recorded at this time.
    let at = Timestamp::from_millisecond(to_ms).unwrap_or_default();
    let source = Source::from(recorded(global, at, Duration::ZERO)?);
    if let Some(name) = &args.nic {
        machine::nic(&machine::describe(&Inventory::take(source.host(), Scope::Path))?, name)?;
    }
    let mut intervals = Intervals::new(ring.replay(from_ms.saturating_sub(LEAD_MS), to_ms));
    let (mut alerts, mut frames) = (Alerts::default(), Vec::new());
    let is_screen = !global.json && output::is_interactive();
    while let Some(interval) = intervals.next() {
        let (at_ms, rates) = interval.map_err(|error| unreadable(global, error))?;
        if at_ms <= from_ms {
            continue;
        }
        let model = &intervals.model;
        let report = doctor(model, &rates, &global.program());
        let time = Timestamp::from_millisecond(at_ms).unwrap_or_default();
        let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let changes = alerts.update(&report.findings, &time);
        let applied =
            Applied { unknown: vec!["a recording does not have it".to_owned()], ..Applied::default() };
        let frame = LiveFrame::new(
            model,
            &rates,
            report,
            surroundings(time, &alerts, changes, Arc::new(applied), None),
        );
        if is_screen {
            frames.push(frame);
        } else if print(global, &frame)? {
            return Ok(());
        }
    }
    match is_screen {
        true => screen::run(global, args, &source, Some(frames)),
        false => Ok(()),
    }
}
