//! The recording of `rxlab record`, for the page.

use std::collections::VecDeque;

use serde::Serialize;

use super::Shown;
use crate::commands::Global;
use crate::commands::output::json_line;
use crate::commands::record::{self, ring};
use crate::commands::top::replay::each;
use crate::error::Result;
use rxlab_faces::web::{Computed, Shared};

/// Length of a stretch on the page, in milliseconds: a second takes some milliseconds of CPU time to replay.
const STRETCH_MS: i64 = 120_000;

/// Times of the first and of the last sample, in milliseconds since 1970.
#[derive(Debug, Serialize)]
struct Recorded {
    first_ms: i64,
    last_ms: i64,
}

/// Longest stretch in bytes: of a large machine it has fewer intervals, the newest.
const STRETCH_BYTES: usize = 16 << 20;

/// What is read from the recording, shared by all who ask for the same.
pub(super) struct Recordings<'a> {
    global: &'a Global,
    spans: Shared<()>,
    /// Stretches by the second in which they end.
    stretches: Shared<i64>,
}

impl<'a> Recordings<'a> {
    pub(super) fn new(global: &'a Global) -> Self {
        Self { global, spans: Shared::default(), stretches: Shared::default() }
    }

    /// The recorded time as JSON; `null` if nothing is recorded. `None` as for [`Shared::get`].
    pub(super) fn span(&self) -> Option<Computed> {
        self.spans.get(&(), || said(span(self.global)))
    }

    /// The two minutes that end with the second of `to_ms`, as a JSON array of what the page is sent live. `None` as for
    /// [`Shared::get`].
    pub(super) fn stretch(&self, to_ms: i64) -> Option<Computed> {
        let second = to_ms.saturating_add(999).div_euclid(1_000);
        self.stretches.get(&second, || said(stretch(self.global, second.saturating_mul(1_000))))
    }
}

fn said(text: Result<String>) -> Result<String, String> {
    text.map_err(|error| error.message)
}

fn span(global: &Global) -> Result<String> {
    json_line(&record::span(global)?.map(|span| Recorded { first_ms: span.first_ms, last_ms: span.last_ms }))
}

fn stretch(global: &Global, to_ms: i64) -> Result<String> {
    let (mut shown, mut bytes) = (VecDeque::new(), 0);
    each(global, &ring(global)?, (to_ms.saturating_sub(STRETCH_MS), to_ms), &mut |frame| {
        let line = json_line(&Shown { host: None, summary: frame.in_one_line(), frame: &frame })?;
        bytes += line.len();
        shown.push_back(line);
        while bytes > STRETCH_BYTES && shown.len() > 1 {
            bytes -= shown.pop_front().map_or(0, |first| first.len());
        }
        Ok(false)
    })?;
    Ok(format!("[{}]", Vec::from(shown).join(",")))
}
