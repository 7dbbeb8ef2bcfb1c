//! The probe of a trial: attached in both arms, or after each slot; read by difference.

use std::collections::BTreeMap;

use rustix::io::Errno;
use thiserror::Error;

use super::probed::{Counted, Probed};
use super::record::{ProbeSlots, ProbeUse};
use super::spec::{Probe, Spec};
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::model::Rates;
use rxlab_probe::{Cost, CostSoFar, Inference, Missing, Programs, Reading, Seen, Spin, named};
use rxlab_sys::Host;

/// A metric cannot be measured.
#[derive(Debug, Error)]
pub enum MeterError {
    #[error("`{metric}` cannot be measured here: {missing}")]
    Missing {
        /// The first requested one.
        metric: String,
        missing: Missing,
    },
    #[error("the probe thread cannot run on CPU {0}: {1}")]
    Pin(CpuId, Errno),
    #[error("cannot read the counters of the eBPF programs: {0}")]
    Read(#[from] rxlab_probe::BpfError),
}

/// Measures the metrics of [`Probed`].
#[derive(Debug)]
pub struct Meter {
    wanted: Vec<(String, Probed)>,
    /// The probe, for the record.
    pub in_use: ProbeUse,
    /// `None` while it is detached.
    tools: Option<Tools>,
}

#[derive(Debug)]
struct Tools {
    programs: Option<Programs>,
    spin: Option<Spin>,
}

/// The counts of one moment.
#[derive(Debug)]
pub struct Mark {
    reading: Option<Reading>,
    cost: Option<CostSoFar>,
    seen: Option<Seen>,
}

/// Measurements between two moments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metered {
    /// Values by the metrics' names.
    pub values: BTreeMap<String, f64>,
    /// CPU time of the programs; `None` if it is not counted.
    pub cost: Option<Cost>,
}

impl Meter {
    /// Attaches the programs for the metrics of `spec`, or reports the missing requirement in one line.
    /// `None` if no metric needs them.
    pub fn start(host: &dyn Host, spec: &Spec) -> Result<Option<Self>, MeterError> {
        let wanted: Vec<(String, Probed)> = spec
            .design
            .primary
            .iter()
            .chain(&spec.design.metrics)
            .filter_map(|name| Some((name.clone(), Probed::parse(name)?)))
            .collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let Probe { slots, spin, ref cpus, .. } = spec.probe;
        let in_use = ProbeUse { slots, spin, cpus: cpus.clone(), limits: Vec::new() };
        let mut meter = Self { wanted, in_use, tools: None };
        // Also if it is to be detached: missing requirements are reported before the trial begins.
        meter.attach(host)?;
        let programs = meter.tools.as_ref().and_then(|tools| tools.programs.as_ref());
        meter.in_use.limits = programs.map(Programs::limits).unwrap_or_default();
        meter.detach();
        Ok(Some(meter))
    }

    /// True if the slots themselves run without it.
    pub fn is_detached(&self) -> bool {
        self.in_use.slots == ProbeSlots::Detached
    }

    /// Starts counting, unless already counting.
    pub fn attach(&mut self, host: &dyn Host) -> Result<(), MeterError> {
        if self.tools.is_some() {
            return Ok(());
        }
        let metric = self.wanted.iter().find(|(_, metric)| metric.needs_programs());
        let programs = metric.map(|(metric, _)| {
            Programs::attach_for_changes(host)
                .map_err(|missing| MeterError::Missing { metric: metric.clone(), missing })
        });
        let programs = programs.transpose()?;
        let pinned = |cpu| Spin::start(cpu).map_err(|errno| MeterError::Pin(cpu, errno));
        self.tools = Some(Tools { programs, spin: self.in_use.spin.map(pinned).transpose()? });
        Ok(())
    }

    /// Stops counting if the slots run without it.
    pub fn detach(&mut self) {
        if self.is_detached() {
            self.tools = None;
        }
    }

    /// The current counts. Nothing while it is detached.
    pub fn mark(&self) -> Result<Mark, MeterError> {
        let programs = self.tools.as_ref().and_then(|tools| tools.programs.as_ref());
        let spin = self.tools.as_ref().and_then(|tools| tools.spin.as_ref());
        Ok(Mark {
            reading: programs.map(Programs::read).transpose()?,
            cost: programs.and_then(|programs| programs.cost_so_far().known().copied()),
            seen: spin.map(Spin::seen),
        })
    }

    /// The metrics between two marks, during which the kernel counted `rates`.
    pub fn metered(&self, host: &dyn Host, first: Mark, last: Mark, rates: &Rates) -> Metered {
        let reading = first.reading.zip(last.reading).map(|(first, last)| {
            let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
            (last.since(&first), seconds)
        });
        let inferred = first.seen.zip(last.seen).zip(self.in_use.spin).map(|((first, last), cpu)| {
            let hypervisor = rates.cpu(cpu).map_or(Fact::Unsupported, |cpu| Fact::Known(cpu.steal));
            Inference::between(&first, &last, hypervisor).inferred
        });
        let victims = self.wanted.iter().filter_map(|(_, metric)| match metric {
            Probed::Victim(name) => Some(name.as_str()),
            _ => None,
        });
        let counted = Counted {
            programs: reading
                .as_ref()
                .filter(|(_, seconds)| *seconds > 0.0)
                .map(|(r, seconds)| (r, *seconds)),
            rates,
            cpus: &self.in_use.cpus,
            named: &named(host, &victims.collect::<Vec<_>>()),
            inferred,
        };
        let value = |(name, metric): &(String, Probed)| Some((name.clone(), metric.value(&counted)?));
        Metered {
            values: self.wanted.iter().filter_map(value).collect(),
            cost: first.cost.zip(last.cost).and_then(|(first, last)| last.since(&first)),
        }
    }
}
