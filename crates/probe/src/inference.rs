//! The cost seen from user space: time missed by a process that should have had its CPU to itself.

use serde::{Deserialize, Serialize};

use super::IrqOverhead;
use rxlab_base::units::{CpuId, Fact};

/// Kind of witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A thread of this process: integer work in pieces of a microsecond; a piece that took longer was
    /// interrupted.
    Spin,
    /// `openssl speed`: wall time minus the user time that it reports.
    Openssl,
}

/// Observed since the witness began.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub(super) method: Method,
    pub(super) cpu: CpuId,
    /// Wall time that the observation covers.
    pub(super) wall_ns: u64,
    /// Time that the witness did not have.
    pub(super) missing_ns: u64,
    /// Pieces of that time, if counted.
    pub(super) interruptions: Fact<u64>,
    /// Time that others had by the scheduler's choice.
    pub(super) waiting_ns: Fact<u64>,
    /// Time it had according to the kernel.
    pub(super) believed_ns: Fact<u64>,
}

impl Seen {
    /// Observed since `earlier`, which must be of the same witness.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let less = |now: &Fact<u64>, before: &Fact<u64>| {
            now.clone().and_then(|now| before.clone().map(|before| now.saturating_sub(before)))
        };
        Self {
            method: self.method,
            cpu: self.cpu,
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns).max(1),
            missing_ns: self.missing_ns.saturating_sub(earlier.missing_ns),
            interruptions: less(&self.interruptions, &earlier.interruptions),
            waiting_ns: less(&self.waiting_ns, &earlier.waiting_ns),
            believed_ns: less(&self.believed_ns, &earlier.believed_ns),
        }
    }
}

/// Lost time as inferred, next to the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inference {
    /// Kind of witness.
    pub method: Method,
    /// CPU it ran on.
    pub cpu: CpuId,
    /// Seconds it covers.
    pub seconds: f64,
    /// Fraction of that time that the process had according to the kernel, as `top` shows it.
    pub believed: Fact<f64>,
    /// Fraction that it did not have.
    pub missing: f64,
    /// Interruptions, counted by the witness or else by the programs on its CPU.
    pub interruptions: Fact<u64>,
    /// Fraction that other tasks had by the scheduler's choice.
    pub waiting: Fact<f64>,
    /// Fraction that the hypervisor took from the process itself, not from other tasks or from lost time.
    pub hypervisor: Fact<f64>,
    /// Rest of `missing` without these two as far as they are known: lost to receive work.
    pub inferred: f64,
    /// Fraction measured as lost to receive work, if measured.
    pub exact: Fact<f64>,
    /// Measured fraction for timers and inter-processor interrupts on its CPU that brought no packets.
    pub other_interrupts: Fact<f64>,
    /// Cost of an interrupt that does no work on its CPU.
    pub irq_overhead: Fact<IrqOverhead>,
}

impl Inference {
    /// `hypervisor` and the measured fractions refer to the whole sample, which is about as long.
    ///
    /// The hypervisor takes from whatever has the CPU: other tasks, whose time already includes it, lost
    /// time, as measured, and the process itself. Only the last is subtracted. All three are assumed to be
    /// hit alike.
    pub(super) fn new(
        seen: &Seen,
        hypervisor: Fact<f64>,
        (exact, other_interrupts): (Fact<f64>, Fact<f64>),
        irq_overhead: Fact<IrqOverhead>,
    ) -> Self {
        let wall = seen.wall_ns as f64;
        let waiting = seen.waiting_ns.clone().map(|ns| ns as f64 / wall);
        let missing = seen.missing_ns as f64 / wall;
        let others = waiting.known().copied().unwrap_or_default();
        let taken = hypervisor.known().copied().unwrap_or_default().clamp(0.0, 0.99);
        // missing = others + inferred + taken * (1 - others - inferred)
        let inferred = ((missing - others - taken * (1.0 - others)) / (1.0 - taken)).max(0.0);
        Self {
            method: seen.method,
            cpu: seen.cpu,
            seconds: wall / 1e9,
            believed: seen.believed_ns.clone().map(|ns| ns as f64 / wall),
            missing,
            interruptions: seen.interruptions.clone(),
            waiting,
            hypervisor: hypervisor.map(|_| (missing - others - inferred).max(0.0)),
            inferred,
            exact,
            other_interrupts,
            irq_overhead,
        }
    }

    /// Inference between two readings of one witness. `hypervisor` is a fraction of that time.
    pub fn between(first: &Seen, last: &Seen, hypervisor: Fact<f64>) -> Self {
        let seen = last.since(first);
        Self::new(&seen, hypervisor, (Fact::NotAsked, Fact::NotAsked), Fact::NotAsked)
    }

    /// Missing time that no program in the kernel sees: the way into and out of an interrupt, what the
    /// hypervisor does for it without counting it as lost, other softirqs, and the measuring itself.
    pub fn unseen(&self) -> Option<f64> {
        Some((self.inferred - self.exact.known()? - self.other_interrupts.known()?).max(0.0))
    }

    /// Fraction taken by the ways into and out of that many interrupts, from the cost of one that does no
    /// work.
    pub fn entries(&self) -> Option<f64> {
        let irq_overhead = self.irq_overhead.known()?;
        Some(irq_overhead.ns as f64 * *self.interruptions.known()? as f64 / (self.seconds * 1e9))
    }

    /// Missing time that nothing explains; below zero when more was explained than is missing.
    pub fn unexplained(&self) -> Option<f64> {
        Some(self.inferred - self.exact.known()? - self.other_interrupts.known()? - self.entries()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Inference, IrqOverhead, Method, Seen};
    use rxlab_base::units::{CpuId, Fact};

    #[test]
    fn others_and_the_hypervisor_are_subtracted() {
        let seen = Seen {
            method: Method::Spin,
            cpu: CpuId(0),
            wall_ns: 1_000,
            missing_ns: 500,
            interruptions: Fact::Known(2),
            waiting_ns: Fact::Known(100),
            believed_ns: Fact::Known(900),
        };
        let inference = Inference::new(
            &seen,
            Fact::Known(0.05),
            (Fact::Known(0.30), Fact::Known(0.01)),
            Fact::Known(IrqOverhead { ns: 15, sender_ns: 9, rate: 9 }),
        );
        // Of the 1,000 others had 100, including the hypervisor's part of that. Of the 900 that are left it
        // took 45, partly from lost time.
        let lost = (0.5 - 0.1 - 0.05 * 0.9) / 0.95;
        assert!((inference.inferred - lost).abs() < 1e-9, "{inference:?}");
        let own = inference.hypervisor.known().expect("known");
        assert!((own - 0.05 * (0.9 - lost)).abs() < 1e-9 && (0.1 + own + lost - 0.5).abs() < 1e-9);
        assert_eq!(inference.believed, Fact::Known(0.9));
        assert!((inference.unseen().expect("all known") - (lost - 0.31)).abs() < 1e-9);
        assert!((inference.unexplained().expect("all known") - (lost - 0.31 - 0.03)).abs() < 1e-9);
        let later = Seen { wall_ns: 2_000, missing_ns: 700, waiting_ns: Fact::Known(150), ..seen.clone() };
        let between = Inference::between(&seen, &later, Fact::Known(0.05));
        assert!((between.inferred - (0.2 - 0.05 - 0.05 * 0.95) / 0.95).abs() < 1e-9, "{between:?}");
        assert_eq!((between.seconds, between.believed), (1e-6, Fact::Known(0.0)));
        let unknown = Seen { waiting_ns: Fact::Unsupported, ..seen };
        let unknown = Inference::new(
            &unknown,
            Fact::Unsupported,
            (Fact::Unsupported, Fact::Unsupported),
            Fact::NotAsked,
        );
        assert!((unknown.inferred - 0.5).abs() < 1e-9 && unknown.unseen().is_none());
    }
}
