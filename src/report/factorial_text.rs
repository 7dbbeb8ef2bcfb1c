//! Factorial trials on a terminal: the verdict in one sentence, the cells, the effects.

use super::number;
use super::text::{Cell, Column, Table, paragraph};
use super::words;
use crate::trial::blocks::{BlocksRecord, End};
use crate::trial::factorial::{Estimate, Factorial};
use crate::trial::record::Call;

/// The whole report, at most 80 columns wide.
pub fn render(record: &BlocksRecord) -> String {
    let mut out = paragraph("", &format!("factorial trial {}: {}", record.name, headline(record)));
    out += &paragraph("  ", &sentence(record));
    if let Some(factorial) = factorial(record) {
        out.push('\n');
        out += &cells(record, factorial).indented(2).render();
        out.push('\n');
        out += &effects(record, factorial).indented(2).render();
        out.push('\n');
    }
    for factor in &record.factors {
        for line in &factor.set {
            out += &paragraph(&format!("  {} sets: ", factor.name), line);
        }
    }
    let (valid, all) = (record.valid().len(), record.slots.len());
    let voids = record.slots.iter().filter(|slot| slot.void.is_some()).count();
    let basis = format!(
        "{} of {} blocks, {all} slots of {:.1} s ({voids} void), seed {}, {}",
        valid, record.blocks, record.measure_s, record.seed, record.workload
    );
    out += &paragraph("  based on: ", &basis);
    out
}

/// The conclusion in a few words.
pub fn headline(record: &BlocksRecord) -> &'static str {
    let Some(conclusion) = &record.conclusion else { return words::UNFINISHED };
    match (&conclusion.end, &conclusion.factorial) {
        (End::ClientLimited { .. }, _) => "client-limited",
        (End::GuardTripped { .. }, _) => "guard tripped",
        (End::NotApplied { .. }, _) => "not applied",
        (End::MachineChanged { .. }, _) => "machine changed",
        (End::Interrupted, _) => "interrupted",
        (End::Complete, Some(factorial)) if factorial.shown().next().is_some() => "factors interact",
        (End::Complete, Some(factorial)) if factorial.main.iter().any(Estimate::is_shown) => "effects found",
        (End::Complete | End::Incomplete, _) => "inconclusive",
    }
}

/// The verdict in one sentence for each fact.
pub fn sentence(record: &BlocksRecord) -> String {
    let Some(conclusion) = &record.conclusion else {
        return "The trial is running, or was killed.".to_owned();
    };
    match &conclusion.end {
        End::Complete => conclusion.factorial.as_ref().map_or(String::new(), |f| verdict(record, f)),
        End::Incomplete => "Too many blocks were void: no effect was judged.".to_owned(),
        End::ClientLimited { reason } => {
            format!(
                "The load generator was at its limit ({reason}): the effects say nothing about the server."
            )
        }
        End::GuardTripped { reason } => format!("A guard tripped, and the change was reverted: {reason}."),
        End::NotApplied { reason } => format!("A combination did not take hold: {reason}."),
        End::MachineChanged { reason } => format!("Changed from outside: {reason}."),
        End::Interrupted => "The trial was interrupted; no effect was judged.".to_owned(),
    }
}

fn factorial(record: &BlocksRecord) -> Option<&Factorial> {
    record.conclusion.as_ref()?.factorial.as_ref()
}

fn verdict(record: &BlocksRecord, factorial: &Factorial) -> String {
    let metric = &record.primary.title;
    let mut sentences = Vec::new();
    for estimate in factorial.shown() {
        let factors = names(record, &estimate.factors, " and ");
        sentences.push(format!("{factors} interact: the effect of one on {metric} depends on the other."));
    }
    for estimate in factorial.simple.iter().chain(&factorial.main) {
        let name = title(record, estimate);
        sentences.push(match estimate.call {
            Call::Helps | Call::Hurts => {
                let call = words::call(estimate.call);
                format!("{name} {call}: {metric} {}.", number::effect(&estimate.effect))
            }
            Call::NoEffect | Call::Negligible => {
                format!("{name}: no effect on {metric} beyond {}.", number::share(record.margin))
            }
            Call::Inconclusive | Call::Unmeasured => format!("{name}: undecided."),
        });
    }
    let open = factorial.interactions.iter().filter(|estimate| estimate.call == Call::Inconclusive);
    let open: Vec<String> = open.map(|estimate| names(record, &estimate.factors, " x ")).collect();
    if !open.is_empty() {
        let open = open.join(", ");
        sentences.push(format!(
            "An interaction above the margin is not excluded ({open}): main effects are averages."
        ));
    }
    sentences.join(" ")
}

fn names(record: &BlocksRecord, factors: &[usize], between: &str) -> String {
    let names: Vec<&str> = factors.iter().map(|factor| record.factors[*factor].name.as_str()).collect();
    names.join(between)
}

/// `rps`, `rps x rfs`, or `rps with rfs`.
fn title(record: &BlocksRecord, estimate: &Estimate) -> String {
    let mut title = names(record, &estimate.factors, " x ");
    for (index, (factor, set)) in estimate.given.iter().enumerate() {
        let with = if *set { "with" } else { "without" };
        let and = if index == 0 { "" } else { "and " };
        title += &format!(" {and}{with} {}", record.factors[*factor].name);
    }
    title
}

fn cells(record: &BlocksRecord, factorial: &Factorial) -> Table {
    let unit = &record.primary.unit;
    let column = match unit.as_str() {
        "" => record.primary.title.to_uppercase(),
        unit => format!("{}, {unit}", record.primary.title.to_uppercase()),
    };
    let mut table = Table::new([Column::left("CELL").wrapping(), Column::right(&column)]);
    for (cell, mean) in factorial.cells.iter().enumerate() {
        let set: Vec<usize> = (0..record.factors.len()).filter(|bit| cell & (1 << bit) != 0).collect();
        let name = if set.is_empty() { "as it was".to_owned() } else { names(record, &set, " + ") };
        table.row([Cell::from(name), Cell::from(number::value(*mean))]);
    }
    table
}

fn effects(record: &BlocksRecord, factorial: &Factorial) -> Table {
    let mut table =
        Table::new([Column::left("EFFECT").wrapping(), Column::right("CHANGE"), Column::left("CALL")]);
    for estimate in factorial.main.iter().chain(&factorial.simple) {
        let change = number::effect(&estimate.effect);
        let call = words::call(estimate.call).to_owned();
        table.row([Cell::from(title(record, estimate)), Cell::from(change), Cell::from(call)]);
    }
    for estimate in &factorial.interactions {
        let call = match estimate.call {
            Call::Helps | Call::Hurts | Call::Negligible => "interact",
            Call::NoEffect => "no interaction",
            Call::Inconclusive | Call::Unmeasured => "inconclusive",
        };
        let name = format!("interaction {}", title(record, estimate));
        table.row([
            Cell::from(name),
            Cell::from(number::effect(&estimate.effect)),
            Cell::from(call.to_owned()),
        ]);
    }
    table
}
