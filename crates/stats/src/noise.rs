//! Simulated noise: slot values with the kinds of noise of real machines, to test a method against a known truth.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::design::{Arm, Phase, Purpose, orders, stream};

/// Length of a piece of it, if slots can be put together from pieces.
pub const PIECE: Duration = Duration::from_millis(100);

/// Persistence of the drift: 0.9 from slot to slot.
const DRIFT_MEMORY: f64 = 0.9;
/// Slots of the noise in seconds: their length, and the time from one to the next.
const SLOT: f64 = 2.0;
const EVERY: f64 = 2.5;
/// Value of a slot without noise or effect.
const LEVEL: f64 = 1000.0;

/// The noise of a simulated machine; every part is in log ratios (0.03 = 3 %) and 0 if absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Noise {
    /// Standard deviation of noise that is new in each slot.
    pub white: f64,
    /// Standard deviation of a slow AR(1) drift with a memory of 0.9 per slot.
    pub drift: f64,
    /// Linear rise from the first to the last slot.
    pub warm_up: f64,
    /// Every even slot is this much above, every odd one this much below.
    pub periodic: f64,
    /// A sine of [`Noise::rhythm_slots`] with this amplitude and a random phase.
    pub rhythm: f64,
    /// Period of the rhythm in slots.
    pub rhythm_slots: f64,
    /// A fast and a slow state, this far above and below.
    pub states: f64,
    /// Mean stay in a state, in slots.
    pub dwell_slots: f64,
    /// Standard deviation of noise with heavy tails: Student's t with 3 degrees of freedom.
    pub heavy: f64,
    /// Loss of a slot in a hundred.
    pub stall: f64,
    /// Values are multiples of this part of the level.
    pub step: f64,
}

impl Noise {
    /// White noise alone, without drift or steps.
    pub fn white(white: f64) -> Self {
        Self { white, ..Self::default() }
    }

    /// White noise and drift of 3 % each.
    pub fn drifting() -> Self {
        Self { drift: 0.03, ..Self::white(0.03) }
    }

    /// The same with a period of two slots, like the noise of real machines.
    pub fn rough() -> Self {
        Self { periodic: 0.03, ..Self::drifting() }
    }

    /// Values of `slots` slots in time order, always the same for the same seed.
    pub fn values(&self, seed: u64, slots: usize) -> Vec<f64> {
        let mut normal = Normal::new(seed);
        let mut wander = self.drift * normal.draw();
        let fresh = self.drift * (1.0 - DRIFT_MEMORY * DRIFT_MEMORY).sqrt();
        let last = slots.saturating_sub(1).max(1) as f64;
        // Another stream, so that these parts do not change the others.
        let mut extra = Normal::new(!seed);
        let phase = extra.uniform();
        let mut is_fast = extra.uniform() < 0.5;
        (0..slots)
            .map(|slot| {
                if slot > 0 {
                    wander = DRIFT_MEMORY * wander + fresh * normal.draw();
                }
                let swing = if slot % 2 == 0 { self.periodic } else { -self.periodic };
                let rise = self.warm_up * slot as f64 / last;
                let turn = slot as f64 / self.rhythm_slots.max(1.0) + phase;
                let rhythm = self.rhythm * (std::f64::consts::TAU * turn).sin();
                is_fast ^= extra.uniform() * self.dwell_slots < 1.0;
                let state = if is_fast { self.states } else { -self.states };
                let stall = if extra.uniform() < 0.01 { -self.stall } else { 0.0 };
                let tail = if self.heavy > 0.0 { self.heavy * extra.heavy() } else { 0.0 };
                let noise = self.white * normal.draw() + wander + rise + swing;
                self.round(LEVEL * (noise + rhythm + state + stall + tail).exp())
            })
            .collect()
    }

    /// The machine in time: its value in each of `count` [`PIECE`]s in time order. The noise is that of slots of 2 s every
    /// 2.5 s, as long as it lasts there: white noise is new in each piece, a stall is 0.8 s long, and a rise ends
    /// after 200 s. Rounding is that of slots, not of pieces.
    pub fn pieces(&self, seed: u64, count: usize) -> Vec<f64> {
        let piece = PIECE.as_secs_f64();
        let (slot, every) = (SLOT / piece, EVERY / piece);
        let mut normal = Normal::new(seed);
        let memory = DRIFT_MEMORY.powf(1.0 / every);
        let fresh = (1.0 - memory * memory).sqrt();
        let mut wander = normal.draw();
        let mut extra = Normal::new(!seed);
        let phase = extra.uniform();
        let mut is_fast = extra.uniform() < 0.5;
        let mut tail = extra.heavy();
        let mut stalled = 0.0;
        // The mean over a slot is this part of a sine.
        let half = std::f64::consts::PI * SLOT / (EVERY * self.rhythm_slots.max(1.0));
        let sine = self.rhythm * half / half.sin();
        (0..count)
            .map(|at| {
                let slots = at as f64 / every;
                wander = memory * wander + fresh * normal.draw();
                let swing = if (slots / 2.0 + phase).fract() < 0.5 { self.periodic } else { -self.periodic };
                let rise = self.warm_up * (slots / 80.0).min(1.0);
                let turn = slots / self.rhythm_slots.max(1.0) + phase;
                is_fast ^= extra.uniform() * every * self.dwell_slots < 1.0;
                let state = if is_fast { self.states } else { -self.states };
                if extra.uniform() * slot < 1.0 {
                    tail = extra.heavy();
                }
                stalled -= 1.0;
                if extra.uniform() * slot < 0.01 {
                    stalled = slot * (1.0 - (-self.stall).exp());
                }
                let noise = self.white * slot.sqrt() * normal.draw() + self.drift * wander + rise + swing;
                // The mean over a slot of levels that last as long as one has 2 / e of their variance.
                let tail = self.heavy * tail / (2.0 / std::f64::consts::E).sqrt();
                let others = sine * (std::f64::consts::TAU * turn).sin() + state + tail;
                // What is left of a stalled piece keeps it above 0.
                let part = if stalled > 0.0 { 0.02 } else { 1.0 };
                part * LEVEL * (noise + others).exp()
            })
            .collect()
    }

    /// The value as it is reported: to whole steps of the noise, as is without one.
    pub fn round(&self, value: f64) -> f64 {
        let step = self.step * LEVEL;
        if step > 0.0 { (value / step).round() * step } else { value }
    }

    /// Values of arm A and of arm B of `pairs` pairs in which a coin chose the order and arm B is `effect`
    /// better (0.03 = 3 %).
    pub fn arms(&self, seed: u64, pairs: usize, effect: f64) -> (Vec<f64>, Vec<f64>) {
        let exact = Self { step: 0.0, ..*self };
        let values = exact.values(seed, 2 * pairs);
        by_arm(&values, seed).map(|(a, b)| (self.round(a), self.round(b * (1.0 + effect)))).unzip()
    }

    /// Log ratios ln(B/A) of `pairs` pairs in which a coin chose the order and arm B is `effect`
    /// better (0.03 = 3 %).
    pub fn pairs(&self, seed: u64, pairs: usize, effect: f64) -> Vec<f64> {
        let (a, b) = self.arms(seed, pairs, effect);
        a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect()
    }
}

/// Values of arm A and of arm B of each pair of slots with these `values`, in the order that the coins of `seed` choose.
/// An odd last value is left out.
pub fn by_arm(values: &[f64], seed: u64) -> impl Iterator<Item = (f64, f64)> {
    let by_pair = values.chunks_exact(2).zip(orders(seed, Phase::Comparison));
    by_pair.map(|(pair, arms)| if arms[0] == Arm::A { (pair[0], pair[1]) } else { (pair[1], pair[0]) })
}

/// Standard normal deviates (Box-Muller).
struct Normal {
    rng: ChaCha8Rng,
    spare: Option<f64>,
}

impl Normal {
    fn new(seed: u64) -> Self {
        Self { rng: stream(seed, Purpose::Noise), spare: None }
    }

    fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // Above 0, so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Student's t with 3 degrees of freedom, scaled to a standard deviation of 1.
    fn heavy(&mut self) -> f64 {
        let top = self.draw();
        let squares: f64 = (0..3).map(|_| self.draw().powi(2)).sum();
        // The variance of t is 3, which the mean of the squares cancels.
        top / squares.sqrt()
    }

    /// From 0 up to but not including 1, in steps of 2^-53.
    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Normal;
    use crate::noise::Noise;
    use crate::{cv, lag1, mean, sd};

    #[test]
    fn deviates_are_standard_normal() {
        let mut normal = Normal::new(1);
        let draws: Vec<f64> = (0..20_000).map(|_| normal.draw()).collect();
        assert!(mean(&draws).expect("draws").abs() < 0.03);
        assert!((sd(&draws).expect("draws") - 1.0).abs() < 0.03);
        let beyond = draws.iter().filter(|draw| draw.abs() > 1.96).count();
        assert!((900..1100).contains(&beyond), "{beyond}");
    }

    #[test]
    fn each_kind_of_noise_looks_as_it_is_called() {
        assert!((cv(&Noise::white(0.03).values(2, 5000)).expect("slots") - 0.03).abs() < 0.002);
        let drift = Noise { drift: 0.03, ..Noise::default() }.values(2, 5000);
        assert!((lag1(&drift).expect("slots") - 0.9).abs() < 0.05);
        assert!((cv(&drift).expect("slots") - 0.03).abs() < 0.006);
        let rise = Noise { warm_up: 0.05, ..Noise::default() }.values(2, 40);
        assert!(((rise[39] / rise[0]).ln() - 0.05).abs() < 1e-12);
        let swing = Noise { periodic: 0.03, ..Noise::default() }.values(2, 4);
        assert!(((swing[0] / swing[1]).ln() - 0.06).abs() < 1e-12);
        assert!((swing[0] - swing[2]).abs() < 1e-9);
        let sine = Noise { rhythm: 0.03, rhythm_slots: 4.0, ..Noise::default() }.values(2, 8);
        assert!((sine[0] - sine[4]).abs() < 1e-9 && (sine[0] - sine[2]).abs() > 1.0, "{sine:?}");
        let states = Noise { states: 0.05, dwell_slots: 8.0, ..Noise::default() }.values(2, 8000);
        let changes = states.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((850..1150).contains(&changes), "{changes}");
        let stalls = Noise { stall: 0.5, ..Noise::default() }.values(2, 10_000);
        assert!((60..140).contains(&stalls.iter().filter(|value| **value < 900.0).count()));
        let steps = Noise { step: 0.05, ..Noise::white(0.03) }.values(2, 100);
        assert!(steps.iter().all(|value| (value / 50.0 - (value / 50.0).round()).abs() < 1e-9));
        let heavy = Noise { heavy: 0.01, ..Noise::default() }.values(2, 20_000);
        let far = heavy.iter().filter(|value| (*value / 1000.0).ln().abs() > 0.04).count();
        assert!((60..200).contains(&far), "{far}: a normal would have 1");
    }

    /// Slots of 2 s every 2.5 s, put together from pieces, have the noise that they are called by.
    #[test]
    fn pieces_make_slots_of_the_same_noise() {
        let slots = |noise: Noise| -> Vec<f64> {
            let pieces = noise.pieces(2, 25 * 4000);
            pieces.chunks_exact(25).map(|slot| mean(&slot[5..]).expect("pieces")).collect()
        };
        let near = |noise: Noise, expected: f64| {
            let cv = cv(&slots(noise)).expect("slots");
            assert!((cv / expected - 1.0).abs() < 0.2, "{noise:?}: {cv}");
        };
        near(Noise::white(0.03), 0.03);
        near(Noise { drift: 0.03, ..Noise::default() }, 0.03);
        near(Noise { rhythm: 0.04, rhythm_slots: 1.9, ..Noise::default() }, 0.04 / 2f64.sqrt());
        near(Noise { states: 0.03, dwell_slots: 8.0, ..Noise::default() }, 0.029);
        near(Noise { heavy: 0.03, ..Noise::default() }, 0.03);
        let drift = slots(Noise { drift: 0.03, ..Noise::default() });
        assert!((lag1(&drift).expect("slots") - 0.9).abs() < 0.05);
        let stalls = slots(Noise { stall: 0.5, ..Noise::default() });
        let stalled = stalls.iter().filter(|value| **value < 900.0).count();
        assert!((30..100).contains(&stalled), "{stalled} of 4000");
        let swing = Noise { periodic: 0.03, ..Noise::default() }.pieces(2, 100);
        assert!((0..50).all(|at| (swing[at] - swing[at + 50]).abs() < 1e-9));
        let rise = Noise { warm_up: 0.05, ..Noise::default() }.pieces(2, 3000);
        assert!(((rise[2999] / rise[0]).ln() - 0.05).abs() < 1e-9 && rise[2000] == rise[2999]);
    }

    #[test]
    fn the_same_seed_gives_the_same_machine() {
        let noise = Noise { drift: 0.03, warm_up: 0.05, periodic: 0.03, ..Noise::white(0.03) };
        assert_eq!(noise.values(9, 50), noise.values(9, 50));
        assert_ne!(noise.values(9, 50), noise.values(10, 50));
    }

    #[test]
    fn the_effect_is_that_of_arm_b_in_either_order() {
        let d = Noise::default().pairs(3, 20, 0.10);
        assert!(d.iter().all(|d| (d - 1.1f64.ln()).abs() < 1e-12), "{d:?}");
    }
}
