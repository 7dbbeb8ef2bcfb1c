//! One sample from beginning to end: attach programs, take two readings, compare them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use thiserror::Error;

use super::counted::{Moment, coarse, hypervisor_ns};
use super::exact::exact;
use super::inference::{Inference, Method, Seen};
use super::interference::{Interference, Tier};
use super::raw::Reading;
use super::{IrqOverhead, Missing, NoIrqOverhead, Openssl, OpensslError, Programs, Spin, irq_overhead};
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::Host;

#[derive(Debug, Clone, Default)]
pub struct SampleOptions {
    /// Tier to use; `None`: eBPF if available.
    pub tier: Option<Tier>,
    /// Second witness of lost time, its CPU, and its seconds if it cannot be stopped.
    pub witness: Option<(Method, CpuId, u64)>,
}

#[derive(Debug, Error)]
pub enum LookError {
    /// eBPF was requested, and is not available.
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("cannot read the counters of the eBPF programs: {0}")]
    Read(#[from] libbpf_rs::Error),
    /// The witness cannot run.
    #[error("cannot run on CPU {0}: {1}")]
    Pin(CpuId, Errno),
    #[error(transparent)]
    Openssl(#[from] OpensslError),
}

enum Witness {
    Spin(Spin),
    Openssl(Openssl),
}

impl Witness {
    fn start(method: Method, cpu: CpuId, seconds: u64) -> Result<Self, LookError> {
        Ok(match method {
            Method::Spin => Self::Spin(Spin::start(cpu).map_err(|errno| LookError::Pin(cpu, errno))?),
            Method::Openssl => Self::Openssl(Openssl::start(cpu, seconds)?),
        })
    }

    fn pid(&self) -> u32 {
        match self {
            Witness::Spin(_) => std::process::id(),
            Witness::Openssl(openssl) => openssl.pid(),
        }
    }

    /// Waits until it ends by itself, if it does.
    fn wait(&mut self, host: &dyn Host, stop: &AtomicBool) {
        if let Witness::Openssl(openssl) = self {
            while openssl.runs(host) && !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn stop(self) -> Result<Seen, OpensslError> {
        match self {
            Witness::Spin(spin) => Ok(spin.stop()),
            Witness::Openssl(openssl) => openssl.stop(),
        }
    }
}

/// Samples while `wait` lasts, or less when `stop` is set.
pub fn look(
    host: &dyn Host,
    options: &SampleOptions,
    wait: impl FnOnce(),
    stop: &AtomicBool,
) -> Result<Interference, LookError> {
    let (programs, missing) = match options.tier {
        Some(Tier::Procfs) => (None, None),
        Some(Tier::Ebpf) => (Some(Programs::attach(host)?), None),
        None => Programs::attach(host)
            .map_or_else(|missing| (None, Some(missing.to_string())), |programs| (Some(programs), None)),
    };
    let inventory = Moment::inventory(host);
    let witness = options.witness.map(|(method, cpu, seconds)| Witness::start(method, cpu, seconds));
    let mut witness = witness.transpose()?;
    let before = Moment::take(host, &inventory);
    let first = programs.as_ref().map(Programs::read).transpose()?;
    std::thread::scope(|scope| {
        // The kernel's figures for openssl can be read only until it ends, and on a busy machine `wait` may take longer.
        if let Some(witness) = &mut witness {
            scope.spawn(|| witness.wait(host, stop));
        }
        wait();
    });
    let last = programs.as_ref().map(Programs::read).transpose()?;
    let after = Moment::take(host, &inventory);
    let mut sample;
    let mut between = None;
    match (first, last, &programs) {
        (Some(first), Some(last), Some(programs)) => {
            let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
            let counted = last.since(&first);
            sample = exact(host, &inventory, (&before, &after), (&counted, seconds), programs);
            between = Some(counted);
        }
        _ => sample = coarse(&inventory, &before, &after, missing),
    }
    if let (Some(witness), Some((_, cpu, _))) = (witness, options.witness) {
        if stop.load(Ordering::SeqCst) && matches!(witness, Witness::Openssl(_)) {
            sample.notes.push("interrupted: openssl reported no result".to_owned());
            return Ok(sample);
        }
        let pid = witness.pid();
        let mut seen = witness.stop()?;
        if let (Fact::NotAsked, Some(between)) = (&seen.interruptions, &between) {
            let interrupts = between.cpus.get(&cpu).map_or(0, |cpu| cpu.irqs + cpu.ipis + cpu.others);
            seen.interruptions = Fact::Known(interrupts);
        }
        let hypervisor = hypervisor_ns(cpu, &before, &after).map(|ns| sample.share(ns));
        let measured = |of: &dyn Fn(&Reading) -> u64| {
            between.as_ref().map_or(Fact::Unsupported, |between| Fact::Known(sample.share(of(between))))
        };
        let exact = measured(&|between| taken(between, cpu, pid));
        let others = measured(&|between| other_ns(between, cpu));
        let irq_overhead = interrupt_cost(&seen, programs.as_ref(), stop).unwrap_or_else(|why| {
            sample.notes.push(format!("cost of an interrupt not measured: {why}"));
            Fact::Unsupported
        });
        sample.inference.push(Inference::new(&seen, hypervisor, (exact, others), irq_overhead));
    }
    Ok(sample)
}

/// Cost of an interrupt at the observed rate, with the programs still attached, since they are part of
/// it. Not measured if interrupts were not counted, or time is up.
fn interrupt_cost(
    seen: &Seen,
    programs: Option<&Programs>,
    stop: &AtomicBool,
) -> Result<Fact<IrqOverhead>, NoIrqOverhead> {
    let Fact::Known(count @ 1..) = seen.interruptions else { return Ok(Fact::NotAsked) };
    if stop.load(Ordering::SeqCst) {
        return Ok(Fact::NotAsked);
    }
    let measured = || {
        let reading = programs.and_then(|programs| programs.read().ok()).unwrap_or_default();
        taken(&reading, seen.cpu, std::process::id()) + other_ns(&reading, seen.cpu)
    };
    irq_overhead(seen.cpu, count as f64 * 1e9 / seen.wall_ns as f64, &measured).map(Fact::Known)
}

/// Time of interrupts on a CPU that brought no packets.
fn other_ns(between: &Reading, cpu: CpuId) -> u64 {
    between.cpus.get(&cpu).map_or(0, |cpu| cpu.other_ns)
}

/// Time a process lost on a CPU, its own system calls included: a witness makes no system calls.
fn taken(between: &Reading, cpu: CpuId, pid: u32) -> u64 {
    between.lost(cpu, pid).map_or(0, |victim| victim.irq_ns + victim.ns.iter().sum::<u64>())
}
