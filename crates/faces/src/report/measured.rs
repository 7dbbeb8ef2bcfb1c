//! Common parts of the measurement reports: polls by NAPI, the cost of the measuring programs, and notes.

use super::text::{STRONG, Table, paragraph, paragraphs, right, styled, wrapping};
use rxlab_base::number::{grouped, share};
use rxlab_base::units::Fact;
use rxlab_probe::{Cost, NapiPolls, napi_name};

/// Maximum number of rows of a table; JSON has all.
pub(super) const ROWS: usize = 12;

/// A part of a report under a title.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("\n{}\n{body}", styled(STRONG, title))
}

/// Polls by NAPI; empty if there were none.
pub(super) fn polls(napis: &[NapiPolls]) -> String {
    if napis.is_empty() {
        return String::new();
    }
    let numbers = ["CPU", "polls", "packets", "per poll", "budget used up"].map(right);
    let mut table = Table::new([wrapping("NAPI")].into_iter().chain(numbers)).indented(2);
    for napi in napis.iter().take(ROWS) {
        table.row([
            napi_name(napi.napi, &napi.device, &napi.queues).into(),
            napi.cpu.to_string().into(),
            grouped(napi.polls).into(),
            grouped(napi.packets).into(),
            format!("{:.1}", napi.packets as f64 / napi.polls as f64).into(),
            share(napi.full as f64 / napi.polls as f64).into(),
        ]);
    }
    section("polls", &(table.render() + &more(napis.len(), ROWS)))
}

/// Queue and actions of an interrupt.
pub(super) fn irq_name(queue: Option<&str>, actions: &[String]) -> String {
    let actions = actions.join(", ");
    match queue {
        Some(queue) => format!("{queue} {actions}"),
        None => actions,
    }
}

/// Line for the rows beyond the `shown` ones.
pub(super) fn more(rows: usize, shown: usize) -> String {
    match rows.saturating_sub(shown) {
        0 => String::new(),
        more => format!("  and {more} more (--json has all)\n"),
    }
}

/// End of a report: the cost of the programs, then notes; `part` converts nanoseconds to a share of the sample.
pub(super) fn foot(cost: &Fact<Cost>, part: impl Fn(u64) -> f64, notes: &[String]) -> String {
    let text = match cost {
        Fact::Known(cost) => {
            let each = cost.ns.checked_div(cost.runs).unwrap_or_default();
            let missed = match cost.missed {
                0 => String::new(),
                1 => "; 1 event was missed".to_owned(),
                missed => format!("; {} events were missed", grouped(missed)),
            };
            format!(
                "the eBPF programs took {} of one CPU, {} runs of {each} ns, excluding call overhead{missed}",
                share(part(cost.ns)),
                grouped(cost.runs),
            )
        }
        Fact::NotAsked => "two readings of /proc".to_owned(),
        Fact::Denied(need) => format!("unknown: its statistics need {need}"),
        Fact::Unsupported => "unknown".to_owned(),
        Fact::Broken(why) => format!("unknown: {why}"),
    };
    format!("\n{}{}", paragraph("cost: ", &text), paragraphs("note: ", notes))
}
