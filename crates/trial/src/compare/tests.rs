//! Comparisons of simulated machines with known interference.

use super::{Comparison, MEASURES};
use crate::conclude::conclude;
use crate::metrics;
use crate::record::{Call, TrialRecord, Verdict};
use crate::runner::{Bench, Measured, run};
use crate::simulate;
use rxlab_stats::design::Arm;
use rxlab_stats::noise::Noise;

/// A machine with interference (percent) and a packet rate for each arm.
struct Interrupted {
    noise: Vec<f64>,
    slots: usize,
    lost: [f64; 2],
    packets: [f64; 2],
}

impl Bench<TrialRecord> for Interrupted {
    type Error = std::convert::Infallible;

    fn slot(&mut self, arm: usize) -> Result<Measured, Self::Error> {
        let noise = self.noise[self.slots] / self.noise[0];
        self.slots += 1;
        // At least the smallest reported interference.
        let lost = (self.lost[arm] * noise).max(0.001);
        let packets = self.packets[arm];
        let values = [lost, lost * 1e7 / packets, 900.0 * noise, packets, lost];
        let names = MEASURES.into_iter().map(str::to_owned);
        Ok(Measured { seconds: 1.0, values: names.zip(values).collect(), ..Measured::default() })
    }

    fn save(&mut self, _: &TrialRecord) -> Result<(), Self::Error> {
        Ok(())
    }

    fn stopped(&self) -> bool {
        false
    }
}

fn record(seed: u64) -> TrialRecord {
    TrialRecord {
        name: "compare".to_owned(),
        change: vec!["A: rps eth0/rx-0 = 0".to_owned(), "B: the machine as it was".to_owned()],
        seed,
        min_pairs: 12,
        max_pairs: 12,
        metrics: MEASURES.into_iter().map(|name| metrics::describe(name, "")).collect(),
        ..simulate::record()
    }
}

fn compared(seed: u64, lost: [f64; 2], packets: [f64; 2]) -> Comparison {
    let mut record = record(seed);
    let noise = Noise::rough().values(seed, 100);
    let mut bench = Interrupted { noise, slots: 0, lost, packets };
    let ending = run(&mut record, 0, &mut bench).expect("simulated");
    assert_eq!(record.slots.len(), 24, "all pairs, whatever the first ones say");
    record.analysis = Some(conclude(&record, &ending, true, None));
    Comparison::new(&record).expect("concluded")
}

#[test]
fn the_side_that_interferes_is_named() {
    for (lost, less, verdict) in
        [([30.0, 0.0], Arm::B, Verdict::Helps), ([0.0, 30.0], Arm::A, Verdict::Hurts)]
    {
        let comparison = compared(3, lost, [3e5, 3e5]);
        assert_eq!((comparison.per_second.less, comparison.per_packet.less), (Some(less), Some(less)));
        assert_eq!(comparison.verdict, verdict);
        let share = &comparison.measures[0];
        let difference = share.difference.expect("12 pairs");
        let wanted = lost[1] - lost[0];
        let (low, high) = (difference.low.expect("bound"), difference.high.expect("bound"));
        assert!(low < difference.mid && difference.mid < high, "{difference:?}");
        assert!((difference.mid - wanted).abs() < 5.0 && low * high > 0.0, "{difference:?}");
    }
}

/// Per second and per packet are two questions.
#[test]
fn half_of_the_packets_at_a_higher_price() {
    let comparison = compared(3, [12.0, 8.0], [3e5, 1.5e5]);
    assert_eq!((comparison.per_second.less, comparison.per_packet.less), (Some(Arm::B), Some(Arm::A)));
    let packets = comparison.measures.iter().find(|measure| measure.metric.name == "net_rx.packets");
    let packets = packets.expect("measured");
    assert_eq!((packets.call, packets.difference.expect("12 pairs").mid), (Call::Hurts, -1.5e5));
}

/// The promise of the trial: at most one in twenty claims a difference that does not exist.
#[test]
fn two_equal_setups_are_not_told_apart() {
    let told =
        (100..140).filter(|seed| compared(*seed, [20.0, 20.0], [3e5, 3e5]).per_second.less.is_some()).count();
    // Of 40 trials, 2 are promised; 6 or more would occur by chance in 1.4 %.
    assert!(told <= 5, "{told} of 40");
    let idle = compared(3, [0.0, 0.0], [3e5, 3e5]);
    assert_eq!((idle.per_second.less, idle.per_second.call), (None, Call::NoEffect), "no interference");
}
