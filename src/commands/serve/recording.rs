//! The recording of `rxlab record`, for the page.

use serde::Serialize;

use super::Shown;
use crate::commands::Global;
use crate::commands::output::json_line;
use crate::commands::record::{self, ring};
use crate::commands::top::replay::each;
use crate::error::Result;

/// Length of a stretch on the page, in milliseconds: a second takes some milliseconds of CPU time to replay.
const STRETCH_MS: i64 = 120_000;

/// Times of the first and of the last sample, in milliseconds since 1970.
#[derive(Debug, Serialize)]
struct Recorded {
    first_ms: i64,
    last_ms: i64,
}

/// The recorded time as JSON; `null` if nothing is recorded.
pub(super) fn span(global: &Global) -> Result<String> {
    json_line(&record::span(global)?.map(|span| Recorded { first_ms: span.first_ms, last_ms: span.last_ms }))
}

/// The two minutes that end at `to_ms`, as a JSON array of what the page is sent live.
pub(super) fn stretch(global: &Global, to_ms: i64) -> Result<String> {
    let mut shown = Vec::new();
    each(global, &ring(global)?, (to_ms.saturating_sub(STRETCH_MS), to_ms), &mut |frame| {
        shown.push(json_line(&Shown { summary: frame.in_one_line(), frame: &frame })?);
        Ok(false)
    })?;
    Ok(format!("[{}]", shown.join(",")))
}
