//! `rxlab status --watch`: prints a line when something changes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{of_machine, output, place, verdict};
use crate::commands::Global;
use crate::error::{CommandError, Result};
use rxlab_base::units::rfc3339;
use rxlab_change::apply::{News, StatusDiff, in_words};
use rxlab_faces::report::status::{asks_who, now, standing};
use rxlab_faces::report::text::clean;

/// One line of JSON output.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    time: &'a str,
    #[serde(flatten)]
    news: &'a News,
}

/// Samples every `every` until interrupted, or for `length`; the exit code is that of the last sample.
pub(super) fn run(global: &Global, every: Duration, length: Option<Duration>) -> Result {
    if every.is_zero() {
        return Err(CommandError::usage("--every needs a time above 0"));
    }
    let stop = place::stop_flag()?;
    let start = Instant::now();
    let mut diff = StatusDiff::default();
    loop {
        let (all, unreadable) = of_machine(global)?;
        let time = rfc3339(jiff::Timestamp::now());
        for news in diff.update(&all) {
            let line = Line { schema: "rxlab.news/1", time: &time, news: &news };
            if output::line(global, &line, || format!("{time}  {}\n", clean(&in_one_line(&news))))? {
                return verdict(&all, &unreadable);
            }
        }
        let left = length.map(|length| length.saturating_sub(start.elapsed()));
        place::sleep(left.unwrap_or(every).min(every), &stop);
        let over = length.is_some_and(|length| start.elapsed() >= length);
        if over || stop.load(Ordering::Relaxed) {
            return verdict(&all, &unreadable);
        }
    }
}

fn in_one_line(news: &News) -> String {
    match news {
        News::Transaction { id, state } => format!("transaction {id}  {}", standing(state)),
        News::Closed { id } => {
            format!("transaction {id}  no longer listed: reverted, given up or unreadable")
        }
        News::Value { id, knob, target, wanted, live, suspects } => {
            let who =
                if asks_who(live, suspects) { format!("; {}", in_words(suspects)) } else { String::new() };
            format!("transaction {id}  {knob} {target} = {wanted}  {}{who}", now(live))
        }
    }
}
