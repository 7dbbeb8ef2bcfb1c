//! Receive work by CPU and slot as a grid of limited size: the data of the heatmap.

use std::collections::{BTreeMap, BTreeSet};

use rxlab_base::number;
use rxlab_base::units::CpuId;
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::mean;
use rxlab_trial::record::{Slot, TrialRecord};

/// Measure of a cell: the most exact one that the slots of a record have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Softirq time, measured by eBPF programs, as a fraction of wall time.
    Time,
    /// Packets a second that went up the stack.
    Packets,
    /// NET_RX runs a second, for records without the others.
    Runs,
}

impl Measure {
    /// The most exact measure in a record.
    fn new(record: &TrialRecord) -> Self {
        if record.softirq_timed && record.slots.iter().any(|slot| !slot.softirq.is_empty()) {
            Self::Time
        } else if record.slots.iter().any(|slot| !slot.packets.is_empty()) {
            Self::Packets
        } else {
            Self::Runs
        }
    }

    fn values(self, slot: &Slot) -> &BTreeMap<CpuId, f64> {
        match self {
            Self::Time => &slot.softirq,
            Self::Packets => &slot.packets,
            Self::Runs => &slot.net_rx,
        }
    }

    /// `softirq time of each CPU`.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Time => "softirq time of each CPU, measured by eBPF",
            Self::Packets => "packets received by each CPU",
            Self::Runs => "NET_RX softirq runs of each CPU",
        }
    }

    /// A value with its unit: `97 %`, `820 k/s`.
    pub(super) fn value(self, value: f64) -> String {
        match self {
            Self::Time => number::share(value),
            Self::Packets | Self::Runs => number::rate(value),
        }
    }

    /// Name of the sum over all CPUs, after a share of it.
    fn whole(self) -> &'static str {
        match self {
            Self::Time => "of softirq time",
            Self::Packets => "of packets",
            Self::Runs => "of NET_RX",
        }
    }
}

/// Maximum number of rows; with more CPUs, neighbours share a row, which shows the hottest of them.
const ROWS: usize = 128;

#[derive(Debug)]
pub(super) struct Grid {
    pub(super) measure: Measure,
    /// From the lowest CPU.
    pub(super) rows: Vec<Row>,
    /// Calibration, then arm A, then arm B; each in time order.
    pub(super) columns: Vec<Column>,
    /// Largest value of all cells; above 0.
    pub(super) max: f64,
    /// Pairs that one column averages; 1 = every slot has its own column.
    pub(super) merged: usize,
}

/// One CPU, or a few neighbours.
#[derive(Debug)]
pub(super) struct Row {
    /// `CPU 3` or `CPU 4-7`.
    pub(super) label: String,
    /// Number of the first CPU, for short labels.
    pub(super) first: CpuId,
    /// Mean over the valid comparison slots of arm A, and of arm B.
    pub(super) means: [Option<f64>; 2],
}

/// One slot, or the slots of one arm of a few neighbouring pairs.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) arm: Arm,
    pub(super) phase: Phase,
    /// True if all of its slots are void.
    pub(super) void: bool,
    /// Start of the first slot, seconds since the trial began.
    pub(super) start_s: f64,
    pub(super) title: String,
    /// The measure by row; `None` = not known.
    pub(super) cells: Vec<Option<f64>>,
}

impl Grid {
    /// The grid of a record with at most about `cells` cells; `None` if no slot has figures by CPU.
    pub(super) fn new(record: &TrialRecord, cells: usize) -> Option<Self> {
        let (measure, slots) = (Measure::new(record), &record.slots[..]);
        let cpus: BTreeSet<CpuId> =
            slots.iter().flat_map(|slot| measure.values(slot).keys().copied()).collect();
        let cpus: Vec<CpuId> = cpus.into_iter().collect();
        if cpus.is_empty() {
            return None;
        }
        let groups: Vec<&[CpuId]> = cpus.chunks(cpus.len().div_ceil(ROWS)).collect();
        let most = (cells / groups.len()).clamp(16, 240);
        let merged = if slots.len() <= most { 1 } else { slots.len().div_ceil(most) };
        let mut columns: Vec<Column> = Vec::new();
        for phase in slots.chunk_by(|a, b| a.phase == b.phase) {
            for chunk in phase.chunks(2 * merged) {
                if merged == 1 {
                    columns.extend(chunk.iter().map(|slot| column(measure, &[slot], &groups)));
                } else {
                    for arm in [Arm::A, Arm::B] {
                        let slots: Vec<&Slot> = chunk.iter().filter(|slot| slot.arm == arm).collect();
                        if !slots.is_empty() {
                            columns.push(column(measure, &slots, &groups));
                        }
                    }
                }
            }
        }
        // Before and after: stable, so that the slots of an arm stay in time order.
        columns.sort_by_key(|column| (column.phase == Phase::Comparison).then_some(column.arm));
        let max =
            columns.iter().flat_map(|column| column.cells.iter().flatten()).copied().fold(0.0, f64::max);
        let rows = groups.iter().map(|group| row(measure, group, record)).collect();
        Some(Self { measure, rows, columns, max: if max > 0.0 { max } else { 1.0 }, merged })
    }
}

fn row(measure: Measure, group: &[CpuId], record: &TrialRecord) -> Row {
    let mean = |arm: Arm| {
        let slots = record.compared().filter(|slot| slot.arm == arm);
        average(slots.filter_map(|slot| hottest(measure, group, slot)))
    };
    let (first, last) = (group[0], group[group.len() - 1]);
    let label = if first == last { format!("CPU {first}") } else { format!("CPU {first}-{last}") };
    Row { label, first, means: [mean(Arm::A), mean(Arm::B)] }
}

/// `slots` is not empty.
fn column(measure: Measure, slots: &[&Slot], groups: &[&[CpuId]]) -> Column {
    let valid: Vec<&Slot> = slots.iter().copied().filter(|slot| slot.void.is_none()).collect();
    let void = valid.is_empty();
    let counted = if void { slots } else { &valid };
    let cells: Vec<Option<f64>> = groups
        .iter()
        .map(|group| average(counted.iter().filter_map(|slot| hottest(measure, group, slot))))
        .collect();
    let first = slots[0];
    Column {
        arm: first.arm,
        phase: first.phase,
        void,
        start_s: first.start_s,
        title: title(measure, slots, counted),
        cells,
    }
}

/// `pair 3, arm B: 98 % of packets on CPU 0`.
fn title(measure: Measure, slots: &[&Slot], counted: &[&Slot]) -> String {
    let (first, last) = (slots[0].pair + 1, slots[slots.len() - 1].pair + 1);
    let pairs = if first == last { format!("pair {first}") } else { format!("pairs {first} to {last}") };
    let arm = match (slots[0].phase, slots[0].arm) {
        (Phase::Calibration, _) => "calibration",
        (_, Arm::A) => "arm A",
        (_, Arm::B) => "arm B",
    };
    let slot = counted[0];
    let total: f64 = measure.values(slot).values().sum();
    let hottest = measure.values(slot).iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| total > 0.0);
    let hottest = hottest.map_or_else(String::new, |(cpu, rate)| {
        format!(": {} {} on CPU {cpu}", number::share(rate / total), measure.whole())
    });
    let void = slots[0].void.as_ref().map_or_else(String::new, |reason| format!(" (void: {reason})"));
    let many =
        if slots.len() > 1 { format!(", {}", number::plural(slots.len(), "slot")) } else { String::new() };
    format!("{pairs}, {arm}{many}{hottest}{void}")
}

fn hottest(measure: Measure, group: &[CpuId], slot: &Slot) -> Option<f64> {
    let rates =
        group.iter().filter_map(|cpu| measure.values(slot).get(cpu)).copied().filter(|rate| rate.is_finite());
    rates.reduce(f64::max)
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    mean(&values.collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::{Grid, Measure};
    use rxlab_base::units::CpuId;
    use rxlab_stats::design::{Arm, Phase};
    use rxlab_trial::record::TrialRecord;
    use rxlab_trial::sample_record;

    #[test]
    fn every_slot_has_its_column_while_there_is_room() {
        let record = sample_record::rps();
        let grid = Grid::new(&record, 40_000).expect("rates");
        assert_eq!((grid.columns.len(), grid.rows.len(), grid.merged), (58, 2, 1));
        assert_eq!(grid.columns[0].title, "pair 1, calibration: 100 % of NET_RX on CPU 0");
        assert!(
            grid.columns.iter().any(|column| column.void && column.title.contains("void: NET_RX stayed"))
        );
        let [a, b] = grid.rows[0].means;
        assert!(a.expect("A") > 1.8 * b.expect("B"));
    }

    #[test]
    fn the_most_exact_measure_is_drawn() {
        let measure = |record: &TrialRecord| Grid::new(record, 40_000).expect("figures").measure;
        let mut record = sample_record::rps();
        assert_eq!(measure(&record), Measure::Runs);
        for slot in &mut record.slots {
            slot.packets = slot.net_rx.iter().map(|(cpu, rate)| (*cpu, 2.0 * rate)).collect();
        }
        assert_eq!(measure(&record), Measure::Packets);
        record.softirq_timed = true;
        let grid = Grid::new(&record, 40_000).expect("figures");
        assert_eq!(grid.measure, Measure::Time);
        assert_eq!(grid.columns[0].title, "pair 1, calibration: 100 % of softirq time on CPU 0");
        assert!(grid.max < 1.1, "a fraction of time: {}", grid.max);
    }

    #[test]
    fn too_many_slots_are_averaged_by_arm_and_too_many_cpus_by_neighbourhood() {
        let mut record = sample_record::wide();
        let rates = record.slots[0].net_rx.clone();
        record.slots[0].net_rx.extend(rates.iter().map(|(cpu, rate)| (CpuId(cpu.0 + 128), *rate)));
        let grid = Grid::new(&record, 4_000).expect("rates");
        assert_eq!(grid.rows.len(), 128);
        assert_eq!(grid.rows[1].label, "CPU 2-3");
        assert!(grid.columns.len() * grid.rows.len() <= 4_500, "{}", grid.columns.len());
        let compared: Vec<_> =
            grid.columns.iter().filter(|column| column.phase == Phase::Comparison).collect();
        let columns = |arm| compared.iter().filter(|column| column.arm == arm).count();
        assert_eq!(columns(Arm::A), columns(Arm::B));
        let hot = |column: &&&super::Column| column.cells[0].expect("CPU 0") > 700_000.0;
        assert!(compared.iter().filter(hot).all(|column| column.arm == Arm::A));
    }

    #[test]
    fn no_rates_no_grid() {
        let mut record = sample_record::rfs();
        record.slots.iter_mut().for_each(|slot| slot.net_rx.clear());
        assert!(Grid::new(&record, 40_000).is_none());
        let empty = TrialRecord { slots: Vec::new(), ..sample_record::rps() };
        assert!(Grid::new(&empty, 40_000).is_none());
    }
}
