//! Recorded intervals as frames.

use std::time::Duration;

use jiff::Timestamp;

use super::{Args, print, screen};
use crate::commands::machine::Source;
use crate::commands::record::{recorded, ring, unreadable};
use crate::commands::{Global, output};
use crate::error::Result;
use rxlab_advise::doctor::Alerts;
use rxlab_base::units::rfc3339;
use rxlab_faces::report::live::{Applied, LiveFrame};
use rxlab_record::recorder::{Disk, Intervals, Ring, WindowError};

/// Length of the stretch without `--for`.
const LENGTH: Duration = Duration::from_secs(600);
/// Before the stretch: settings and programs come from a full sample, and those are ten seconds apart.
const LEAD_MS: i64 = 20_000;

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let ring = ring(global)?;
    let span = ring.span().map_err(|error| unreadable(global, error))?;
    let span = span.ok_or_else(|| unreadable(global, WindowError::Empty))?;
    let to_ms = args.from.at.map_or(span.last_ms, Timestamp::as_millisecond);
    let length = args.length.unwrap_or(LENGTH);
    let from_ms = to_ms.saturating_sub(i64::try_from(length.as_millis()).unwrap_or(i64::MAX));
    // Settings to try a plan on, and an error if nothing is recorded at this time.
    let at = Timestamp::from_millisecond(to_ms).unwrap_or_default();
    let source = Source::from(recorded(global, at, Duration::ZERO)?);
    source.check_nic(args.nic())?;
    let is_screen = !global.json && output::is_interactive();
    let mut frames = Vec::new();
    each(global, &ring, (from_ms, to_ms), &mut |frame| {
        if is_screen {
            frames.push(frame);
            Ok(false)
        } else {
            print(global, &frame)
        }
    })?;
    if is_screen { screen::run(global, args, &source, Some(frames)) } else { Ok(()) }
}

/// Passes on the intervals that end in the time after `from_ms` and up to `to_ms`, in milliseconds since 1970, until
/// `show` returns true.
pub(in crate::commands) fn each(
    global: &Global,
    ring: &Ring<Disk>,
    (from_ms, to_ms): (i64, i64),
    show: &mut dyn FnMut(LiveFrame) -> Result<bool>,
) -> Result {
    let mut intervals = Intervals::new(ring.replay(from_ms.saturating_sub(LEAD_MS), to_ms));
    let mut alerts = Alerts::default();
    while let Some(interval) = intervals.next() {
        let (at_ms, rates) = interval.map_err(|error| unreadable(global, error))?;
        if at_ms <= from_ms {
            continue;
        }
        let model = &intervals.model;
        let time = rfc3339(Timestamp::from_millisecond(at_ms).unwrap_or_default());
        let applied =
            Applied { unknown: vec!["a recording does not have it".to_owned()], ..Applied::default() };
        if show(LiveFrame::new(model, &rates, &global.program(), &mut alerts, time, applied.into()))? {
            break;
        }
    }
    Ok(())
}
