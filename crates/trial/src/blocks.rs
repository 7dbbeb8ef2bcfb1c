//! The loop of a trial with more than two arms: randomised blocks, each of which holds every arm that is left once. It
//! drives the same [`Bench`] as a trial of pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use serde::{Deserialize, Serialize};

use super::choose::{Candidate, Choice, Rule, Standing};
use super::factorial::{self, Contrast, Estimate, Factorial, estimates, means};
use super::halving;
use super::monitor::judge;
use super::record::{Better, Call, Metric};
use super::runner::{Bench, Ending, VOIDS_IN_A_ROW, standstill};
use super::spec::{Kind, Named};
use super::sweep::{self, Sweep};
use rxlab_base::units::CpuId;
use rxlab_path::model::Identity;
use rxlab_stats::interval::t_quantile;
use rxlab_stats::{design, sd};

/// A factor, a candidate or a level as recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedSettings {
    /// One word, such as `rps`.
    pub name: String,
    /// Its settings.
    pub set: Vec<String>,
    /// Of a candidate of a choice: a scale with one optimum, and the position on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(usize, usize)>,
    /// Of a candidate of a choice: tried only if its neighbours on the scale lead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

impl From<&Named> for NamedSettings {
    fn from(named: &Named) -> Self {
        Self {
            name: named.name.clone(),
            set: named.set.iter().map(ToString::to_string).collect(),
            size: named.size,
            later: named.later,
        }
    }
}

/// One slot: an unmeasured washout, then a measured interval, with one cell set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSlot {
    /// Block number, from 0.
    pub block: usize,
    /// Stage of a search, from 0; the last one confirms the winner. 0 in other designs.
    #[serde(default)]
    pub stage: usize,
    /// The cell that was set; 0 = the machine as it was. In a factorial design bit `i` says whether factor `i` was set; else
    /// it is the position of the arm, from 1.
    pub cell: usize,
    /// Start of the measured interval, seconds since the trial began.
    pub start_s: f64,
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Value of each metric by name. Unavailable metrics are absent.
    pub values: BTreeMap<String, f64>,
    /// NET_RX softirq runs per second by CPU.
    pub net_rx: BTreeMap<CpuId, f64>,
    /// Packets per second that went up the stack, by CPU.
    pub packets: BTreeMap<CpuId, f64>,
    /// Reason why the slot does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// A guard tripped, or the candidate did not take hold: that of a choice is not tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tripped: bool,
}

/// How a trial in blocks ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// It has all its blocks.
    Complete,
    /// Too many blocks were void, or slots took so long that the time was over.
    Incomplete,
    /// The load generator was the limit in most slots: the effects say nothing about the server.
    ClientLimited {
        /// The sign observed.
        reason: String,
    },
    /// A guard tripped and the change was reverted immediately.
    GuardTripped {
        /// The guard and its figures.
        reason: String,
    },
    /// A cell did not take hold.
    NotApplied {
        /// Observation of the manipulation check.
        reason: String,
    },
    /// A value of the trial was set from outside.
    MachineChanged {
        /// The value, with the expected and the found one.
        reason: String,
    },
    /// Stopped by the user.
    Interrupted,
}

/// The conclusion of a trial in blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conclusion {
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// The effects; `None` unless it has all its blocks, which were fixed beforehand.
    pub found: Option<Effects>,
}

/// What a trial in blocks found, by its design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// The effects of factors.
    Factorial(Factorial),
    /// The best of several candidates.
    Search(Search),
    /// The curve of one factor.
    Sweep(Sweep),
    /// The best of several candidates and the unchanged machine.
    Choice(Choice),
}

/// The winner of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// The candidates that each stage left, best first, by position from 0.
    pub left: Vec<Vec<usize>>,
    /// The winner, by position from 0.
    pub winner: usize,
    /// Change from each other candidate to the winner, as their positions say, in the blocks that chose it; all
    /// intervals together are wrong in at most 5 % of searches. Empty in records of earlier versions.
    #[serde(default)]
    pub leads: Vec<Estimate>,
    /// Its effect against the baseline in fresh blocks; `None` below two of them.
    pub confirmed: Option<Estimate>,
    /// Fresh blocks.
    pub blocks: usize,
    /// Means of the baseline and of the winner in them, in the metric's unit.
    pub means: (f64, f64),
}

impl Search {
    /// Candidates from which the winner is not told apart, by position from 0.
    pub fn rivals(&self) -> Vec<usize> {
        let open = self.leads.iter().filter(|lead| lead.call != Call::Helps);
        open.map(|lead| lead.factors[0]).collect()
    }

    /// Fraction by which the winner is at least ahead of each candidate from which it is told apart; `None` if there is
    /// no such candidate.
    pub fn ahead(&self) -> Option<f64> {
        let told = self.leads.iter().filter(|lead| lead.call == Call::Helps);
        // The end that is nearer to no change, whichever direction is better.
        told.map(|lead| lead.effect.low.abs().min(lead.effect.high.abs())).reduce(f64::min)
    }
}

/// The record of a trial in blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlocksRecord {
    /// `rxlab.trial-blocks/1`.
    pub schema: String,
    /// Directory name of the trial, unique on this machine.
    pub id: String,
    /// Version of rxlab that ran it.
    pub version: String,
    /// One word for the trial.
    pub name: String,
    /// The design.
    pub kind: Kind,
    /// The factors of a factorial design, the candidates of a search, or the levels of a sweep.
    pub settings: Vec<NamedSettings>,
    /// The workload, in one line.
    pub workload: String,
    /// The host.
    pub host: Identity,
    /// Online CPUs at that time.
    pub cpus: usize,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of the order within the blocks.
    pub seed: u64,
    /// Margin of equivalence (0.03 = 3 %).
    pub margin: f64,
    /// Valid blocks at which the trial ends; those that confirm the winner of a search.
    pub blocks: usize,
    /// Washout before each measured interval, seconds.
    pub washout_s: f64,
    /// Measured interval, seconds.
    pub measure_s: f64,
    /// The metric that is judged.
    pub primary: Metric,
    /// Softirq times were measured in windows by eBPF programs, not by the kernel.
    pub softirq_timed: bool,
    /// Every slot in time order, including void ones.
    pub slots: Vec<BlockSlot>,
    /// The conclusion; `None` while the trial runs or after it was killed.
    pub conclusion: Option<Conclusion>,
}

/// A cell of a choice among those that are left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    pub cell: usize,
    /// Log ratio to the leader's value; 0 for the leader, negative where a cell is worse.
    pub behind: f64,
    /// Half of its 95 % interval.
    pub half: Option<f64>,
}

impl BlocksRecord {
    pub const SCHEMA: &'static str = "rxlab.trial-blocks/1";

    /// Number of cells in a block.
    pub fn cells(&self) -> usize {
        match self.kind {
            Kind::Factorial => 1 << self.settings.len(),
            _ => 1 + self.settings.len(),
        }
    }

    /// Value of the primary metric in each of `cells`, for each block of `stages` in which all of them count and have one
    /// above 0.
    fn values(&self, cells: &[usize], stages: impl RangeBounds<usize>) -> Vec<Vec<f64>> {
        // Every slot of a search asks for this: no map within the map.
        let mut blocks: BTreeMap<usize, Vec<Option<f64>>> = BTreeMap::new();
        for slot in self.slots.iter().filter(|slot| slot.void.is_none() && stages.contains(&slot.stage)) {
            let value = slot.values.get(&self.primary.name).copied();
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            let cell = cells.iter().position(|cell| *cell == slot.cell);
            if let (Some(value), Some(cell)) = (value, cell) {
                blocks.entry(slot.block).or_insert_with(|| vec![None; cells.len()])[cell] = Some(value);
            }
        }
        blocks.into_values().filter_map(|block| block.into_iter().collect()).collect()
    }

    /// Value of the primary metric in each cell, for each block in which all of them count; for a search those of the
    /// baseline and the winner in fresh blocks.
    pub fn valid(&self) -> Vec<Vec<f64>> {
        match (self.kind, self.left()) {
            (Kind::Search, (stage, left)) => match left.last().map(Vec::as_slice) {
                Some([winner]) => self.values(&[0, winner + 1], stage..),
                _ => Vec::new(),
            },
            _ => self.values(&(0..self.cells()).collect::<Vec<_>>(), ..),
        }
    }

    /// The running stage of a search, and the candidates that each finished stage left.
    fn left(&self) -> (usize, Vec<Vec<usize>>) {
        let mut left: Vec<Vec<usize>> = Vec::new();
        let stages = halving::stages(self.settings.len(), self.blocks);
        for (stage, behind) in stages.into_iter().enumerate() {
            let now = left.last().cloned().unwrap_or_else(|| (0..self.settings.len()).collect());
            let cells: Vec<usize> = now.iter().map(|candidate| candidate + 1).collect();
            // Later blocks have no part in this choice.
            let blocks: Vec<Vec<f64>> = self.values(&cells, ..).into_iter().take(behind).collect();
            if blocks.len() < behind {
                return (stage, left);
            }
            left.push(halving::better_half(&now, &blocks, self.primary.better));
        }
        (left.len(), left)
    }

    /// How far a choice is.
    pub fn standing(&self) -> Standing {
        let candidate = |one: &NamedSettings| Candidate { size: one.size, later: one.later };
        let own = std::iter::once(Candidate::default());
        let candidates: Vec<Candidate> = own.chain(self.settings.iter().map(candidate)).collect();
        let tripped = self.tripped();
        let (blocks, margin, better) = (self.blocks, self.margin, self.primary.better);
        let rule = Rule { candidates: &candidates, tripped: &tripped, blocks, margin, better };
        rule.standing(|cells| self.values(cells, ..))
    }

    /// Some cells of a choice by their blocks that have all of them, the best first: each with the log ratio of its value to that of
    /// the first, never above 0, and half of its 95 % interval, `None` below two blocks. Empty without such a block.
    pub fn ranked(&self, cells: &[usize]) -> Vec<Ranked> {
        let sign = if self.primary.better == Better::Higher { 1.0 } else { -1.0 };
        let blocks = self.values(cells, ..);
        let score = |at: usize| sign * blocks.iter().map(|block| block[at].ln()).sum::<f64>();
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        let Some(leader) = order.first().copied().filter(|_| !blocks.is_empty()) else { return Vec::new() };
        let one = |at: usize| {
            let ratios: Vec<f64> =
                blocks.iter().map(|block| sign * (block[at] / block[leader]).ln()).collect();
            let count = ratios.len() as f64;
            let half = sd(&ratios).map(|sd| t_quantile(0.975, count - 1.0) * sd / count.sqrt());
            Ranked { cell: cells[at], behind: ratios.iter().sum::<f64>() / count, half }
        };
        order.into_iter().map(one).collect()
    }

    /// Candidates of a choice in which a guard tripped, or that did not take hold.
    fn tripped(&self) -> Vec<usize> {
        let cells: BTreeSet<usize> =
            self.slots.iter().filter(|slot| slot.tripped && slot.cell > 0).map(|slot| slot.cell).collect();
        cells.into_iter().collect()
    }

    /// The stage and the cells of the next block; `None` if the trial has all its blocks.
    fn due(&self) -> Option<(usize, Vec<usize>)> {
        if self.kind == Kind::Choice {
            let standing = self.standing();
            return (!standing.is_over()).then_some((standing.left.len(), standing.cells));
        }
        if self.kind != Kind::Search {
            return (self.valid().len() < self.blocks).then(|| (0, (0..self.cells()).collect()));
        }
        let (stage, left) = self.left();
        let all = (0..self.settings.len()).collect();
        let candidates = left.last().unwrap_or(&all);
        let is_over = candidates.len() == 1 && self.valid().len() >= self.blocks;
        let cells = std::iter::once(0).chain(candidates.iter().map(|candidate| candidate + 1));
        (!is_over).then(|| (stage, cells.collect()))
    }

    /// Blocks of the trial if none is void.
    fn planned(&self) -> usize {
        let stages = match self.kind {
            Kind::Search => halving::stages(self.settings.len(), self.blocks),
            // Each new candidate of a scale begins with fresh blocks.
            Kind::Choice => vec![self.blocks * 2],
            _ => Vec::new(),
        };
        stages.last().unwrap_or(&0) + self.blocks
    }

    fn effects(&self, valid: &[Vec<f64>]) -> Effects {
        let (margin, better) = (self.margin, self.primary.better);
        match self.kind {
            Kind::Pairs | Kind::BeforeAfter | Kind::Factorial => {
                Effects::Factorial(factorial::analyse(valid, margin, better))
            }
            Kind::Sweep => Effects::Sweep(sweep::analyse(valid, margin, better)),
            Kind::Choice => {
                let Standing { left, cells, open, tried } = self.standing();
                let winner = cells.first().copied();
                Effects::Choice(Choice { left, winner, open, tripped: self.tripped(), tried })
            }
            Kind::Search => {
                let left = self.left().1;
                let winner = left.last().map_or(0, |left| left[0]);
                let effect = (vec![winner], Contrast::between(0, 1, 2));
                let confirmed = estimates(valid, vec![effect], margin, better).pop();
                let cells = means(valid);
                let means = (cells[0], cells[1]);
                let leads = self.leads(&left);
                Effects::Search(Search { left, winner, leads, confirmed, blocks: valid.len(), means })
            }
        }
    }

    /// The leads of the winner of a search, whose stages kept `left`.
    fn leads(&self, left: &[Vec<usize>]) -> Vec<Estimate> {
        let mut ran: Vec<usize> = (0..self.settings.len()).collect();
        let mut stages = Vec::new();
        for (stage, kept) in left.iter().enumerate() {
            let cells: Vec<usize> = ran.iter().map(|candidate| candidate + 1).collect();
            let blocks = self.values(&cells, stage..=stage);
            let blocks = blocks.iter().map(|block| block.iter().map(|value| value.ln()).collect()).collect();
            stages.push(halving::Stage { ran, blocks, kept: kept.clone() });
            ran = kept.clone();
        }
        let winner = left.last().map_or(0, |left| left[0]);
        let estimate = |(other, interval)| {
            let (call, shown) = judge(interval, interval, self.margin, self.primary.better);
            // A lead below the margin is one too.
            let is_ahead = match self.primary.better {
                Better::Higher => interval.low > 0.0,
                Better::Lower => interval.high < 0.0,
            };
            let call = if is_ahead { Call::Helps } else { call };
            Estimate { factors: vec![other, winner], given: Vec::new(), effect: shown.into(), call }
        };
        halving::leads(&stages).into_iter().map(estimate).collect()
    }

    pub fn conclude(&mut self, ending: Ending) {
        let valid = self.valid();
        let is_complete = self.due().is_none();
        let end = match ending {
            Ending { changed: Some(reason), .. } => End::MachineChanged { reason },
            Ending { guard: Some(reason), .. } => End::GuardTripped { reason },
            Ending { not_applied: Some(reason), .. } => End::NotApplied { reason },
            Ending { interrupted: true, .. } => End::Interrupted,
            _ if !is_complete => End::Incomplete,
            Ending { client_limited: Some(reason), .. } => End::ClientLimited { reason },
            _ => End::Complete,
        };
        let is_judged = matches!(end, End::Complete | End::ClientLimited { .. });
        let found = is_judged.then(|| self.effects(&valid));
        self.conclusion = Some(Conclusion { end, found });
    }
}

/// Runs or resumes the trial of `record`, which holds the request and the finished slots, until it has all its valid
/// blocks. A block with a void slot, or that a kill cut short, does not count and is repeated in a new order; after as
/// many blocks again the trial ends without them.
pub fn run<B: Bench<BlocksRecord>>(record: &mut BlocksRecord, bench: &mut B) -> Result<Ending, B::Error> {
    let first = record.slots.iter().map(|slot| slot.block + 1).max().unwrap_or(0);
    let cells = record.cells();
    let (mut voids, mut limited, mut run) = (vec![0; cells], Vec::new(), 0);
    for block in first..2 * record.planned() {
        let Some((stage, due)) = record.due().filter(|_| !bench.is_late()) else { break };
        for at in design::block(record.seed, block, due.len()) {
            let cell = due[at];
            if bench.stopped() {
                return Ok(Ending { interrupted: true, ..Ending::default() });
            }
            let measured = bench.slot(cell)?;
            let interrupted = bench.stopped();
            let void = measured.reason(interrupted);
            let (changed, guard) = (measured.changed, measured.guard);
            let is_void = void.is_some();
            limited.extend(measured.client_limited.filter(|_| !is_void));
            run += usize::from(!is_void);
            record.slots.push(BlockSlot {
                block,
                stage,
                cell,
                start_s: measured.start_s,
                seconds: measured.seconds,
                values: measured.values,
                net_rx: measured.net_rx,
                packets: measured.packets,
                void: void.clone(),
                tripped: false,
            });
            let works = record.slots.iter().map(|slot| (slot.cell, &slot.values, &slot.void));
            let guard = guard.or_else(|| standstill(works));
            voids[cell] = if is_void { voids[cell] + 1 } else { 0 };
            let not_applied = void.filter(|_| !interrupted && voids[cell] >= VOIDS_IN_A_ROW);
            let may_leave = record.kind == Kind::Choice && cell > 0 && changed.is_none() && !interrupted;
            let leaves =
                guard.as_ref().map(|why| format!("guard tripped: {why}")).or_else(|| not_applied.clone());
            if let (Some(why), Some(slot), true) = (leaves, record.slots.last_mut(), may_leave) {
                (slot.tripped, slot.void) = (true, Some(why));
                bench.save(record)?;
                // What the candidate has caused is over before another one is blamed for it.
                bench.slot(0)?;
                break;
            }
            bench.save(record)?;
            if changed.is_some() || guard.is_some() || interrupted || not_applied.is_some() {
                return Ok(Ending { changed, guard, not_applied, interrupted, client_limited: None });
            }
        }
    }
    // A single slot may hit a hiccup of the machine; most of them do not.
    let client_limited = (2 * limited.len() > run).then(|| limited.pop()).flatten();
    Ok(Ending { client_limited, ..Ending::default() })
}

#[cfg(test)]
mod tests;
