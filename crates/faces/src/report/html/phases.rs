//! Trials and checkpoints of one machine on one time line: each slot, and each value of a checkpoint, is a column.

use crate::report::document::Trial;
use crate::report::words;
use rxlab_base::number;
use rxlab_stats::design::Arm;
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::record::{Metric, Slot, TrialRecord};

use super::figure;
use super::markup::{Markup, percent, px, typeset};

/// Height of a panel, pixels.
const HEIGHT: f64 = 130.0;
/// Height of the lane below the dots that marks failed checks.
const FAILED: f64 = 14.0;
/// Maximum number of dots of a phase; with more slots, neighbours are averaged.
const MAX_DOTS: usize = 250;

/// A trial, or one of its checkpoints, with the columns that it takes.
struct Block<'a> {
    record: &'a TrialRecord,
    checkpoint: Option<&'a Checkpoint>,
    first: usize,
    columns: usize,
}

impl Block<'_> {
    /// Start time in RFC 3339.
    fn start(&self) -> &str {
        self.checkpoint.map_or(&self.record.started, |checkpoint| &checkpoint.taken)
    }

    /// Purpose and result of the phase.
    fn label(&self) -> String {
        let name = &self.record.name;
        match self.checkpoint {
            None => format!("{name}: {}", words::headline(self.record)),
            Some(checkpoint) => {
                let later = words::later(self.record, checkpoint);
                format!("{name}, {later}: {}", words::state(checkpoint.state))
            }
        }
    }
}

/// The time line of trials on one machine; nothing for one trial, trials of several machines, or without slots.
pub(super) fn section(m: &mut Markup, trials: &[&Trial]) {
    let is_one_machine =
        trials.windows(2).all(|pair| pair[0].record.host.hostname == pair[1].record.host.hostname);
    let is_measured = trials.iter().any(|trial| trial.record.compared().next().is_some());
    if trials.len() < 2 || !is_one_machine || !is_measured {
        return;
    }
    let caption = "Each slot of each phase, in time order; the time between phases is not to scale. Ring: arm A, disc: \
                   arm B, triangle: checkpoint.";
    let caption = [caption, &answered(trials)].concat();
    figure(m, "All phases", &caption, |m| plot(m, trials));
}

/// Phases in the order of their start, and the number of all columns.
fn blocks<'a>(trials: &[&'a Trial]) -> (Vec<Block<'a>>, usize) {
    let block = |trial: &'a Trial, checkpoint: Option<&'a Checkpoint>| {
        let columns =
            checkpoint.map_or_else(|| trial.record.compared().count(), |checkpoint| checkpoint.values.len());
        Block { record: &trial.record, checkpoint, first: 0, columns: columns.max(1) }
    };
    let phases = trials.iter().flat_map(|trial| {
        [None].into_iter().chain(trial.checkpoints.iter().map(Some)).map(|phase| block(trial, phase))
    });
    let mut blocks: Vec<Block<'a>> = phases.collect();
    // A checkpoint was taken when it ended, a trial is as old as its start: of the same second, the checkpoint is first.
    blocks.sort_by_key(|block| (block.start().to_owned(), block.checkpoint.is_none()));
    let gap = (blocks.iter().map(|block| block.columns).sum::<usize>() / 40).max(1);
    let mut next = 0;
    for block in &mut blocks {
        block.first = next;
        next += block.columns + gap;
    }
    (blocks, next.saturating_sub(gap).max(1))
}

/// Metrics that decided a trial, each once.
fn primaries<'a>(trials: &[&'a Trial]) -> Vec<&'a Metric> {
    let mut primaries: Vec<&Metric> = Vec::new();
    for metric in trials.iter().filter_map(|trial| trial.record.metrics.first()) {
        if primaries.iter().all(|other| other.name != metric.name) {
            primaries.push(metric);
        }
    }
    primaries
}

/// Checks of all trials in one sentence; empty if none had any.
fn answered(trials: &[&Trial]) -> String {
    let of_slot = |record: &TrialRecord, slot: &Slot| -> Vec<(u64, u64)> {
        record.checks.iter().filter_map(|check| check.counts(&slot.values)).collect()
    };
    let counts = trials
        .iter()
        .flat_map(|trial| trial.record.slots.iter().flat_map(move |slot| of_slot(&trial.record, slot)));
    let (all, failed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if all == 0 {
        return String::new();
    }
    let (all, failed) = (number::grouped(all), number::grouped(failed));
    format!(" Checks from outside: {failed} of {all} requests failed; \u{d7}: a slot with a failed one.")
}

/// A panel for each metric that decided a trial, then the phases in words.
fn plot(m: &mut Markup, trials: &[&Trial]) {
    let (blocks, columns) = blocks(trials);
    m.element("div", &[("class", "phases")], |m| {
        for metric in primaries(trials) {
            panel(m, metric, &blocks, columns);
        }
        m.element("ol", &[], |m| {
            for block in &blocks {
                m.element("li", &[], |m| {
                    m.inline("small", &[], block.start());
                    m.text(&typeset(&format!(" {}", block.label())));
                });
            }
        });
    });
}

/// Positions and values of the dots of a block, with their kind.
fn dots(block: &Block<'_>, metric: &str) -> Vec<(f64, f64, &'static str)> {
    let kinds: Vec<(&'static str, Vec<(f64, f64)>)> = match block.checkpoint {
        None => {
            let of_arm = |arm: Arm| {
                let columns = block.record.compared().enumerate().filter(|(_, slot)| slot.arm == arm);
                let values = columns.filter_map(|(at, slot)| Some((at as f64, *slot.values.get(metric)?)));
                values.collect::<Vec<_>>()
            };
            vec![("a", of_arm(Arm::A)), ("b", of_arm(Arm::B))]
        }
        Some(checkpoint) => {
            let is_same = block.record.metrics.first().is_some_and(|primary| primary.name == metric);
            let values = checkpoint.values.iter().enumerate().filter(|_| is_same);
            vec![("later", values.map(|(at, value)| (at as f64, *value)).collect())]
        }
    };
    let mut dots = Vec::new();
    for (kind, values) in kinds {
        for group in values.chunks(values.len().div_ceil(MAX_DOTS).max(1)) {
            let mean =
                |pick: fn(&(f64, f64)) -> f64| group.iter().map(pick).sum::<f64>() / group.len() as f64;
            let (at, value) = (mean(|dot| dot.0), mean(|dot| dot.1));
            if value.is_finite() {
                dots.push((block.first as f64 + at, value, kind));
            }
        }
    }
    dots
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(value)
}

fn panel(m: &mut Markup, metric: &Metric, blocks: &[Block<'_>], columns: usize) {
    let dots: Vec<_> = blocks.iter().flat_map(|block| dots(block, &metric.name)).collect();
    let top = round_up(dots.iter().map(|(_, value, _)| *value).fold(0.0, f64::max));
    let x = |column: f64| percent((column + 0.5) / columns as f64);
    let title = words::metric(metric);
    m.element("div", &[("class", "panel")], |m| {
        m.leaf("div", &[("class", "title")], &title);
        m.element("div", &[("class", "gutter")], |m| {
            let labels = [(0.0, top), (0.5, top / 2.0), (1.0, 0.0)];
            m.scale(HEIGHT, labels.into_iter().map(|(at, value)| (at, number::value(value))));
            let title = typeset(&format!("{title}: each slot of {} phases, in time order", blocks.len()));
            m.drawing("plot", HEIGHT + FAILED, &title, |m| {
                m.leaf("title", &[], &title);
                for (number, block) in (1..).zip(blocks) {
                    background(m, number, block, columns);
                }
                for (class, at) in [("zero", 1.0), ("grid", 0.5), ("grid", 0.0)] {
                    m.rule(class, at * HEIGHT);
                }
                for (column, value, kind) in &dots {
                    let y = px(HEIGHT * (1.0 - value / top));
                    dot(m, kind, &x(*column), &y, &number::value(*value));
                }
                for block in blocks {
                    failures(m, block, &x);
                }
            });
        });
    });
}

/// The area of a phase, with its number in the list of phases.
fn background(m: &mut Markup, number: usize, block: &Block<'_>, columns: usize) {
    let share = |columns_from_left: usize| percent(columns_from_left as f64 / columns as f64);
    let (left, width) = (share(block.first), share(block.columns));
    let area = [("class", "band"), ("x", left.as_str()), ("width", width.as_str()), ("height", &px(HEIGHT))];
    m.hinted("rect", &area, &typeset(&block.label()));
    let place = [("x", left.as_str()), ("y", "13"), ("dx", "5")];
    m.leaf("text", &place, &number.to_string());
}

/// Arm A is a ring, arm B a disc, a checkpoint a triangle.
fn dot(m: &mut Markup, kind: &str, x: &str, y: &str, value: &str) {
    if kind == "later" {
        let place = [("class", "later"), ("x", x), ("y", y), ("dy", "4"), ("text-anchor", "middle")];
        m.element("text", &place, |m| {
            m.inline("title", &[], value);
            m.text("\u{25b2}");
        });
    } else {
        let class = format!("arm {kind}");
        m.hinted("circle", &[("class", &class), ("cx", x), ("cy", y), ("r", "3")], value);
    }
}

/// A mark below each slot in which a check failed.
fn failures(m: &mut Markup, block: &Block<'_>, x: &impl Fn(f64) -> String) {
    if block.checkpoint.is_some() {
        return;
    }
    let record = block.record;
    for (at, slot) in record.compared().enumerate() {
        let failed: u64 = record
            .checks
            .iter()
            .filter_map(|check| check.counts(&slot.values))
            .map(|(_, failed)| failed)
            .sum();
        if failed > 0 {
            let place = x((block.first + at) as f64);
            m.classed_label("void", (&place, &px(HEIGHT + 12.0)), "middle", "\u{d7}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{answered, blocks, dots, primaries, round_up};
    use crate::report::document::Trial;
    use rxlab_trial::checkpoint::Checkpoint;
    use rxlab_trial::record::TrialRecord;
    use rxlab_trial::sample_record;

    /// RPS with a checkpoint after 30 minutes, and RFS after an hour.
    fn two_phases() -> [Trial; 2] {
        let first = sample_record::rps();
        let start: jiff::Timestamp = first.started.parse().expect("a time");
        let after = |minutes: i64| (start + jiff::SignedDuration::from_mins(minutes)).to_string();
        let second = TrialRecord { id: "0002-rfs".to_owned(), started: after(60), ..sample_record::rfs() };
        let between =
            Checkpoint { values: vec![50.0, 51.0], ..sample_record::checkpoint(&first.id, &after(30)) };
        [Trial::new(second), Trial { record: first, checkpoints: vec![between] }]
    }

    #[test]
    fn phases_are_in_time_order_without_overlap() {
        let trials = two_phases();
        let trials: Vec<&Trial> = trials.iter().collect();
        let (blocks, columns) = blocks(&trials);
        let names: Vec<String> = blocks.iter().map(super::Block::label).collect();
        assert!(names[0].starts_with("rps: ") && names[2].starts_with("rfs: "), "{names:?}");
        assert_eq!(names[1], "rps, 30 min later: the effect holds");
        assert!(blocks.windows(2).all(|pair| pair[0].first + pair[0].columns < pair[1].first));
        assert_eq!(blocks[2].first + blocks[2].columns, columns);
        // `primaries` starts with the one of the first trial given, which is not the first in time.
        let primary = primaries(&trials[1..])[0];
        let middle: Vec<_> = dots(&blocks[1], &primary.name).iter().map(|dot| (dot.1, dot.2)).collect();
        assert_eq!(middle, [(50.0, "later"), (51.0, "later")]);
        assert!(dots(&blocks[1], "another").is_empty());
    }

    #[test]
    fn a_checkpoint_precedes_a_trial_of_the_same_second() {
        let mut trials = two_phases();
        trials[1].checkpoints[0].taken = trials[0].record.started.clone();
        let (blocks, _) = blocks(&trials.each_ref());
        assert!(blocks[1].label().contains("later") && blocks[2].label().starts_with("rfs: "));
    }

    #[test]
    fn failed_checks_are_counted_over_all_trials() {
        let mut trials = two_phases();
        assert_eq!(answered(&trials.each_ref()), "");
        for (trial, failed) in trials.iter_mut().zip([0.0, 20.0]) {
            trial.record.checks =
                vec![toml::from_str("name = 'front'\nurl = 'http://10.0.0.1/'").expect("a check")];
            let values = [("check.front.requests", 10.0), ("check.front.failed", failed)];
            trial.record.slots[0].values.extend(values.map(|(name, value)| (name.to_owned(), value)));
        }
        let text = answered(&trials.each_ref());
        assert!(text.contains("2 of 20 requests failed"), "{text}");
    }

    #[test]
    fn an_axis_ends_at_a_round_value() {
        assert_eq!([0.03, 1.0, 1.2, 48.5, 0.0, f64::NAN].map(round_up), [0.05, 1.0, 2.0, 50.0, 1.0, 1.0]);
    }
}
