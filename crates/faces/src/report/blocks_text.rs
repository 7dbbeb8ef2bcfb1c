//! Trials in blocks on a terminal: the verdict in one sentence, the cells, the effects.

use super::text::{Cell, Table, left, paragraph, paragraphs, right, wrapping};
use super::words;
use rxlab_base::number::{self, capitalized};
use rxlab_setting::{Setting, set_flags};
use rxlab_stats::mean;
use rxlab_trial::blocks::{BlocksRecord, Effects, End, Search};
use rxlab_trial::choose::Choice;
use rxlab_trial::factorial::{Estimate, Factorial};
use rxlab_trial::record::Call;
use rxlab_trial::spec::Kind;
use rxlab_trial::sweep::Sweep;
use rxlab_trial::tuning;

/// The whole report, at most 80 columns wide.
pub fn render(record: &BlocksRecord) -> String {
    let kind = match record.kind {
        Kind::Pairs | Kind::BeforeAfter | Kind::Factorial => "factorial trial",
        Kind::Search => "search",
        Kind::Sweep => "sweep",
        Kind::Choice => "choice",
    };
    let mut out = paragraph("", &format!("{kind} {}: {}", record.name, headline(record)));
    out += &paragraph("  ", &sentence(record));
    for table in found(record).map_or_else(Vec::new, |found| tables(record, found)) {
        out.push('\n');
        out += &table.indented(2).render();
    }
    if found(record).is_some() {
        out.push('\n');
    }
    for named in &record.settings {
        out += &paragraphs(&format!("  {} sets: ", named.name), &named.set);
    }
    let (valid, all) = (record.valid().len(), record.slots.len());
    let voids = record.slots.iter().filter(|slot| slot.void.is_some()).count();
    let basis = format!(
        "{valid} of {} blocks, {all} slots ({voids} void), seed {}, {}",
        record.blocks, record.seed, record.workload
    );
    out += &paragraph("  based on: ", &basis);
    out
}

/// The conclusion in a few words.
pub fn headline(record: &BlocksRecord) -> &'static str {
    let Some(conclusion) = &record.conclusion else { return words::UNFINISHED };
    match (&conclusion.end, &conclusion.found) {
        (End::ClientLimited { .. }, _) => "client-limited",
        (End::GuardTripped { .. }, _) => "guard tripped",
        (End::NotApplied { .. }, _) => "not applied",
        (End::MachineChanged { .. }, _) => "machine changed",
        (End::Interrupted, _) => "interrupted",
        (End::Complete, Some(Effects::Factorial(factorial))) if factorial.shown().next().is_some() => {
            "factors interact"
        }
        (End::Complete, Some(Effects::Factorial(factorial)))
            if factorial.main.iter().any(Estimate::is_shown) =>
        {
            "effects found"
        }
        (End::Complete, Some(Effects::Search(search))) => match search.confirmed.as_ref().map(|one| one.call)
        {
            Some(Call::Helps) => "the winner helps",
            Some(Call::Hurts) => "even the winner hurts",
            Some(Call::NoEffect | Call::Negligible) => "no measurable effect",
            Some(Call::Inconclusive | Call::Unmeasured) | None => "inconclusive",
        },
        (End::Complete, Some(Effects::Sweep(sweep))) if sweep.bend.is_some() => "better up to a level",
        (End::Complete, Some(Effects::Sweep(sweep))) if sweep.levels.iter().any(Estimate::is_shown) => {
            let helps = sweep.levels.iter().any(|level| level.call == Call::Helps);
            if helps { "effects found" } else { "no level helps" }
        }
        (End::Complete, Some(Effects::Choice(choice))) => match choice.winner {
            Some(0) => "nothing to gain",
            Some(_) => "a candidate leads",
            None => "all candidates stopped",
        },
        (End::Complete, Some(effects)) if all_inside(effects) => "no measurable effect",
        (End::Complete | End::Incomplete, _) => "inconclusive",
    }
}

/// True if every effect is shown to lie inside the margin.
fn all_inside(effects: &Effects) -> bool {
    let inside = |estimate: &Estimate| estimate.call == Call::NoEffect;
    match effects {
        Effects::Factorial(factorial) => factorial.main.iter().chain(&factorial.interactions).all(inside),
        Effects::Sweep(sweep) => sweep.levels.iter().all(inside),
        Effects::Search(_) | Effects::Choice(_) => false,
    }
}

/// The command that tries the confirmed winner of a search; `None` unless it helps.
pub fn next(record: &BlocksRecord, program: &str) -> Option<String> {
    let Effects::Search(search) = found(record)? else { return None };
    search.confirmed.as_ref().filter(|confirmed| confirmed.call == Call::Helps)?;
    let settings: Option<Vec<Setting>> =
        record.settings[search.winner].set.iter().map(|line| line.parse().ok()).collect();
    Some(format!("{program} apply {} --confirm 60s", set_flags(&settings?)))
}

/// The verdict in one sentence for each fact.
pub fn sentence(record: &BlocksRecord) -> String {
    let Some(conclusion) = &record.conclusion else {
        return "The trial is running, or was killed.".to_owned();
    };
    match &conclusion.end {
        End::Complete => match &conclusion.found {
            Some(Effects::Factorial(factorial)) => verdict(record, factorial),
            Some(Effects::Search(search)) => winner(record, search),
            Some(Effects::Sweep(sweep)) => curve(record, sweep),
            Some(Effects::Choice(choice)) => choice_in_words(record, choice),
            None => String::new(),
        },
        End::Incomplete => "Too many blocks were void, or took too long: no effect was judged.".to_owned(),
        End::ClientLimited { reason } => {
            format!(
                "The load generator was at its limit ({reason}): the effects say nothing about the server."
            )
        }
        End::GuardTripped { reason } => format!("A guard tripped, and the change was reverted: {reason}."),
        End::NotApplied { reason } => format!("Some settings did not take hold: {reason}."),
        End::MachineChanged { reason } => format!("Changed from outside: {reason}."),
        End::Interrupted => "The trial was interrupted; no effect was judged.".to_owned(),
    }
}

fn found(record: &BlocksRecord) -> Option<&Effects> {
    record.conclusion.as_ref()?.found.as_ref()
}

fn tables(record: &BlocksRecord, found: &Effects) -> Vec<Table> {
    match found {
        Effects::Factorial(factorial) => vec![cells(record, factorial), effects(record, factorial)],
        Effects::Search(search) => vec![stages(record, search)],
        Effects::Sweep(sweep) => vec![levels(record, sweep)],
        Effects::Choice(choice) => vec![tried(record, choice)],
    }
}

fn winner(record: &BlocksRecord, search: &Search) -> String {
    let (name, metric) = (&record.settings[search.winner].name, &record.primary.title);
    let Some(confirmed) = &search.confirmed else { return format!("{name} won but was not confirmed.") };
    let blocks = number::plural(search.blocks, "fresh block");
    let change = confirmed.effect.in_words();
    let rank = rank(record, search);
    format!("{rank} In {blocks}: {metric} {change}, {}.", words::call(confirmed.call))
}

/// How far the winner is shown to be the best.
fn rank(record: &BlocksRecord, search: &Search) -> String {
    let (name, rivals) = (&record.settings[search.winner].name, search.rivals());
    let of = number::plural(record.settings.len(), "candidate");
    let ahead = search.ahead().map(number::share);
    match (ahead, rivals.is_empty()) {
        (Some(ahead), true) => format!("{name} is the best of {of}, ahead of the others by {ahead} or more."),
        (Some(ahead), false) => {
            let rivals = names(record, &rivals, ", ");
            format!(
                "{name} was chosen from {of}: ahead of the others by {ahead} or more, but not proven better than {rivals}."
            )
        }
        (None, false) => {
            format!(
                "{name} was chosen from {of}, but is not proven better than {}.",
                names(record, &rivals, ", ")
            )
        }
        (None, true) => format!("{name} was chosen from {of}."),
    }
}

/// Candidates shown while a choice runs.
const SHOWN: usize = 12;

/// Widest interval shown while a choice runs, as half of it in log ratios: from half to twice the value. A few blocks can have
/// one of thousands of percent.
const TELLING: f64 = std::f64::consts::LN_2;

/// How far a choice is: the candidates that are left with their distance to the leader, the best first, and those that are out.
pub fn standing(record: &BlocksRecord) -> Vec<String> {
    let standing = record.standing();
    let ranked = record.ranked(&standing.cells);
    let name = |cell: usize| capitalized(&tuning::candidate(record, cell));
    let left = ranked.iter().enumerate().map(|(at, one)| {
        let percent = |log: f64| number::change(log.exp_m1());
        let how = match one.half {
            _ if at == 0 => "leads".to_owned(),
            Some(half) if half <= TELLING => {
                let (low, high) = (percent(one.behind - half), percent(one.behind + half));
                format!("{:>8} [{low}, {high}]", percent(one.behind))
            }
            _ => "too early".to_owned(),
        };
        format!("  {:<44} {how}", name(one.cell))
    });
    let is_out = |cell: &&usize| !ranked.is_empty() && !standing.cells.contains(cell);
    let out = standing.tried.iter().filter(is_out).map(|cell| format!("  {:<44} out", name(*cell)));
    left.chain(out).take(SHOWN).collect()
}

fn choice_in_words(record: &BlocksRecord, choice: &Choice) -> String {
    let Some(winner) = choice.winner else {
        return "No candidate is left: a guard tripped in each, or it did not take hold.".to_owned();
    };
    let rank = tuning::rank(record, choice);
    let best = capitalized(&tuning::candidate(record, winner));
    format!("{best} {rank}. These blocks favour what they chose: only a trial in pairs shows what it gains.")
}

/// The candidates of a choice that were tried, best first, with the stage in which each left.
fn tried(record: &BlocksRecord, choice: &Choice) -> Table {
    let mut table = Table::new([wrapping("CANDIDATE"), right(&heading(record)), left("LEFT")]);
    let stays = |cell: usize| choice.left.iter().filter(|stage| stage.contains(&cell)).count();
    let mut cells = choice.tried.clone();
    cells.extend(choice.tripped.iter().filter(|cell| !choice.tried.contains(cell)));
    cells.sort_by_key(|cell| std::cmp::Reverse(stays(*cell)));
    for cell in cells {
        let values = record.slots.iter().filter(|slot| slot.cell == cell && slot.void.is_none());
        let values: Vec<f64> =
            values.filter_map(|slot| slot.values.get(&record.primary.name).copied()).collect();
        let value = mean(&values).map_or_else(|| "-".to_owned(), number::value);
        let how = match cell {
            _ if choice.winner == Some(cell) => "best",
            _ if choice.tripped.contains(&cell) => "stopped",
            _ if choice.open.contains(&cell) => "may be as good",
            _ => "cannot win",
        };
        table.row([
            Cell::from(tuning::candidate(record, cell)),
            Cell::from(value),
            Cell::from(how.to_owned()),
        ]);
    }
    table
}

fn stages(record: &BlocksRecord, search: &Search) -> Table {
    let mut table = Table::new([left("STAGE"), wrapping("LEFT, BEST FIRST")]);
    for (stage, left) in search.left.iter().enumerate() {
        table.row([Cell::from((stage + 1).to_string()), Cell::from(names(record, left, ", "))]);
    }
    table
}

fn curve(record: &BlocksRecord, sweep: &Sweep) -> String {
    let metric = &record.primary.title;
    let Some(bend) = sweep.bend else {
        return format!(
            "No level is shown to be better on {metric} than the one before it and the baseline."
        );
    };
    let name = &record.settings[bend].name;
    let change = sweep.levels[bend].effect.in_words();
    let later = &sweep.steps[bend..];
    // A later one that helps only makes up for what another one lost.
    let rest = if later.is_empty() || later.iter().any(|step| step.call == Call::Helps) {
        ""
    } else {
        " No step after it is shown to be better."
    };
    format!("The last step that helps is that to {name}: {metric} {change} against the baseline.{rest}")
}

fn levels(record: &BlocksRecord, sweep: &Sweep) -> Table {
    let numbers = [heading(record).as_str(), "CHANGE", "STEP"].map(right);
    let columns = [wrapping("LEVEL")].into_iter().chain(numbers).chain([wrapping("THE STEP")]);
    let mut table = Table::new(columns);
    table.row(["as it was".into(), number::value(sweep.cells[0]).into(), "-".into(), "-".into(), "-".into()]);
    for (level, estimate) in sweep.levels.iter().enumerate() {
        // The step to the first level is its change from the baseline.
        let step = level.checked_sub(1).map_or(estimate, |step| &sweep.steps[step]);
        table.row([
            Cell::from(record.settings[level].name.clone()),
            Cell::from(number::value(sweep.cells[level + 1])),
            Cell::from(estimate.effect.in_words()),
            Cell::from(number::change(step.effect.mid)),
            Cell::from(words::short(words::direction(step.call, &step.effect))),
        ]);
    }
    table
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
                format!("{name} {call}: {metric} {}.", estimate.effect.in_words())
            }
            Call::NoEffect | Call::Negligible => {
                format!("{name}: no effect on {metric} beyond {}.", number::share(record.margin))
            }
            Call::Inconclusive | Call::Unmeasured => format!("{name}: undecided."),
        });
    }
    if let Some(together) = factorial.together.as_ref().filter(|together| together.is_shown()) {
        let change = together.effect.in_words();
        sentences
            .push(format!("Set in one step, they would show {metric} {change}, and not which one did it."));
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
    let names: Vec<&str> = factors.iter().map(|factor| record.settings[*factor].name.as_str()).collect();
    names.join(between)
}

/// `rps`, `rps x rfs`, or `rps with rfs`.
fn title(record: &BlocksRecord, estimate: &Estimate) -> String {
    let mut title = names(record, &estimate.factors, " x ");
    for (index, (factor, set)) in estimate.given.iter().enumerate() {
        let with = if *set { "with" } else { "without" };
        let and = if index == 0 { "" } else { "and " };
        title += &format!(" {and}{with} {}", record.settings[*factor].name);
    }
    title
}

/// The primary metric with its unit, as a column is headed.
fn heading(record: &BlocksRecord) -> String {
    let title = record.primary.title.to_uppercase();
    match record.primary.unit.as_str() {
        "" => title,
        unit => format!("{title}, {unit}"),
    }
}

fn cells(record: &BlocksRecord, factorial: &Factorial) -> Table {
    let mut table = Table::new([wrapping("CELL"), right(&heading(record))]);
    for (cell, mean) in factorial.cells.iter().enumerate() {
        let set: Vec<usize> = (0..record.settings.len()).filter(|bit| cell & (1 << bit) != 0).collect();
        let name = if set.is_empty() { "as it was".to_owned() } else { names(record, &set, " + ") };
        table.row([Cell::from(name), Cell::from(number::value(*mean))]);
    }
    table
}

fn effects(record: &BlocksRecord, factorial: &Factorial) -> Table {
    let mut table = Table::new([wrapping("EFFECT"), right("CHANGE"), left("RESULT")]);
    for estimate in factorial.main.iter().chain(&factorial.simple) {
        table.row(effect(title(record, estimate), estimate, words::call(estimate.call)));
    }
    for estimate in &factorial.interactions {
        let call = match estimate.call {
            Call::Helps | Call::Hurts | Call::Negligible => "interact",
            Call::NoEffect => "no interaction",
            Call::Inconclusive | Call::Unmeasured => "inconclusive",
        };
        table.row(effect(format!("interaction {}", title(record, estimate)), estimate, call));
    }
    if let Some(together) = &factorial.together {
        let call = words::direction(together.call, &together.effect);
        table.row(effect("all in one step".to_owned(), together, call));
    }
    table
}

fn effect(name: String, estimate: &Estimate, call: &str) -> [Cell; 3] {
    [name.into(), estimate.effect.in_words().into(), call.into()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{all_inside, rank, standing};
    use rxlab_trial::blocks::{BlockSlot, Effects, Search};
    use rxlab_trial::factorial::{Estimate, analyse};
    use rxlab_trial::record::{Better, Call, Effect};
    use rxlab_trial::sample_record;
    use rxlab_trial::spec::Kind;

    /// "Best" was once said of a winner among equals.
    #[test]
    fn a_winner_is_the_best_only_as_far_as_shown() {
        let record = sample_record::blocks(Kind::Search, &["a", "b", "c"]);
        let lead = |other: usize, low: f64, high: f64| Estimate {
            factors: vec![other, 1],
            given: Vec::new(),
            effect: Effect { mid: (low + high) / 2.0, low, high },
            call: if low > 0.0 { Call::Helps } else { Call::Inconclusive },
        };
        let said = |leads: Vec<Estimate>| {
            let search =
                Search { left: Vec::new(), winner: 1, leads, confirmed: None, blocks: 0, means: (1.0, 1.0) };
            rank(&record, &search)
        };
        let (clear, clearer) = (lead(0, 0.041, 0.12), lead(2, 0.2, 0.4));
        assert_eq!(
            said(vec![clear.clone(), clearer]),
            "b is the best of 3 candidates, ahead of the others by 4.1 % or more."
        );
        assert_eq!(
            said(vec![clear, lead(2, -0.01, 0.02)]),
            "b was chosen from 3 candidates: ahead of the others by 4.1 % or more, but not proven better than c."
        );
        assert_eq!(
            said(vec![lead(0, -0.2, 0.3), lead(2, -0.01, 0.02)]),
            "b was chosen from 3 candidates, but is not proven better than a, c."
        );
        assert_eq!(said(Vec::new()), "b was chosen from 3 candidates.");
    }

    /// A live table had "leads" above better rows, and [-99 %, +3,529 %].
    #[test]
    fn nothing_stands_above_the_leader_of_a_choice() {
        let mut record = sample_record::blocks(Kind::Choice, &["a", "b"]);
        for (at, named) in record.settings.iter_mut().enumerate() {
            named.set = vec![format!("rps veth0/rx-0 = {}", at + 1)];
        }
        let slot = |(block, cell, value): (usize, usize, f64)| BlockSlot {
            block,
            stage: 0,
            cell,
            start_s: 0.0,
            seconds: 1.0,
            values: [(record.primary.name.clone(), value)].into(),
            net_rx: BTreeMap::new(),
            packets: BTreeMap::new(),
            void: None,
            tripped: false,
        };
        let blocks = [[100.0, 150.0, 10.0], [110.0, 148.0, 300.0]];
        let values = blocks.iter().enumerate().flat_map(|(block, cells)| {
            cells.iter().enumerate().map(move |(cell, value)| (block, cell, *value))
        });
        record.slots = values.map(slot).collect();
        assert_eq!(
            standing(&record),
            [
                "  RPS to CPU 1                                 leads",
                "  The unchanged machine                           -30 % [-65 %, +40 %]",
                "  RPS to CPU 2                                 too early",
            ]
        );
        record.slots.clear();
        assert_eq!(standing(&record), [""; 0]);
    }

    #[test]
    fn effects_are_excluded_only_if_all_of_them_are() {
        // Four cells, the last one `last` times as large, each a little off in turn.
        let found = |last: f64| {
            let cell = |block: usize, cell: usize| 100.0 + ((block + cell) % 3) as f64 * 0.2;
            let block = |block| vec![cell(block, 0), cell(block, 1), cell(block, 2), last * cell(block, 3)];
            let blocks: Vec<Vec<f64>> = (0..12).map(block).collect();
            Effects::Factorial(analyse(&blocks, 0.03, Better::Higher))
        };
        assert!(all_inside(&found(1.0)));
        assert!(!all_inside(&found(1.2)));
    }
}
