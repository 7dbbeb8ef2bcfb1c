//! Packets that no queue counts: shares of them that explain what comes to each CPU.

use std::collections::{BTreeMap, BTreeSet};

use super::{CORRECTIONS, EXACT, Part, Path, Source, devices};
use crate::plan::step::rfs;
use rxlab_base::units::{CpuId, CpuMask, IrqId};
use rxlab_path::evidence::{TRAFFIC, is_counted};
use rxlab_path::model::{CpuRates, Model, Nic, Rates};
use rxlab_setting::simulation;

/// The place that gets most of the packets that are not counted by queue, as far as the packets of CPUs allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Most {
    /// A queue, by the indices of its interface and of itself in the model, and those that no source tells apart from it.
    Queue(usize, usize),
    /// The interrupts of other network namespaces.
    Foreign,
}

/// Factor of the first estimate for [`Most`].
const MOST: f64 = 16.0;

/// Shares out the packets of devices that count none by queue, so that they explain best how many go up the stack on each
/// CPU. Queues whose CPUs are the same keep the same number. Not with RFS, which sends packets to other CPUs. What interrupts of
/// other network namespaces bring explains the rest of what comes to their CPUs.
///
/// Only simulations use it: what it tells apart is lost once interrupts share a CPU, and the next plan would differ.
pub(super) fn infer(
    model: &Model,
    rates: &Rates,
    sources: &mut [Source],
    parts: &[Vec<Part>],
    most: Option<Most>,
) {
    let mut uncounted = uncounted(model, rates, sources);
    uncounted.retain(|at| !rfs::is_on(model, &model.nics[*at]));
    let measured = by_cpu(rates, |cpu| cpu.packets);
    let all: f64 = sources.iter().map(|source| source.packets).sum();
    let surplus = (measured.iter().sum::<f64>() - all).max(0.0);
    let cpus = foreign_cpus(model, rates);
    let mut strangers: Vec<(usize, f64)> =
        cpus.iter().map(|cpu| (cpu.0 as usize, surplus / cpus.len() as f64)).collect();
    strangers.retain(|(at, _)| *at < measured.len());
    match most {
        Some(Most::Queue(nic, queue)) => {
            let first = sources.iter().find(|source| (source.nic, source.queue) == (nic, queue));
            let path = first.map(|source| source.path.clone());
            let alike =
                sources.iter_mut().filter(|source| source.nic == nic && Some(&source.path) == path.as_ref());
            alike.for_each(|source| source.packets *= MOST);
            let own = || sources.iter().filter(|source| source.nic == nic).map(|source| source.packets);
            let part = rates.rx_packets(&model.nics[nic].name) / own().sum::<f64>().max(1.0);
            sources.iter_mut().filter(|source| source.nic == nic).for_each(|source| source.packets *= part);
        }
        Some(Most::Foreign) => strangers.iter_mut().for_each(|(_, packets)| *packets *= MOST),
        None => {}
    }
    for _ in 0..CORRECTIONS {
        let mut explained = sums(sources, parts, &measured, |source, part| source.packets * part.packets);
        strangers.iter().for_each(|(at, packets)| explained[*at] += packets);
        for (at, packets) in &mut strangers {
            *packets *= measured[*at] / explained[*at].max(f64::MIN_POSITIVE);
        }
        let mut of_nics: BTreeMap<usize, f64> = BTreeMap::new();
        let mut before = Vec::new();
        let of_nic = |source: &Source| uncounted.contains(&source.nic);
        for (source, parts) in sources.iter_mut().zip(parts).filter(|(source, _)| of_nic(source)) {
            before.push(source.packets);
            source.packets *= off(parts, &measured, &explained, |part| part.packets);
            *of_nics.entry(source.nic).or_default() += source.packets;
        }
        let mut most = 0.0f64;
        for (source, before) in sources.iter_mut().filter(|source| of_nic(source)).zip(before) {
            let all = rates.rx_packets(&model.nics[source.nic].name);
            let of_nic = of_nics[&source.nic];
            source.packets = if of_nic > 0.0 { source.packets * all / of_nic } else { before };
            most = most.max((source.packets - before).abs() / all.max(1.0));
        }
        if most < EXACT {
            break;
        }
    }
}

/// The devices that count no packets by queue, by their index in the model. Without those of which packets come to an unknown CPU.
pub(super) fn uncounted(model: &Model, rates: &Rates, sources: &[Source]) -> BTreeSet<usize> {
    let is_uncounted = |nic: &Nic| !nic.rx.iter().any(|queue| is_counted(nic, queue, rates));
    let mut uncounted: BTreeSet<usize> =
        devices(model).filter(|(_, nic)| is_uncounted(nic)).map(|(at, _)| at).collect();
    let online = model.online();
    let is_hidden = |source: &&Source| source.path.parts(&online).is_empty();
    for source in sources.iter().filter(is_hidden) {
        uncounted.remove(&source.nic);
    }
    uncounted
}

/// A rate of each CPU, by its number.
pub(super) fn by_cpu(rates: &Rates, rate: impl Fn(&CpuRates) -> f64) -> Vec<f64> {
    let width = rates.cpus.iter().map(|cpu| cpu.cpu.0 as usize + 1).max().unwrap_or_default();
    let mut values = vec![0.0; width];
    rates.cpus.iter().for_each(|cpu| values[cpu.cpu.0 as usize] = rate(cpu));
    values
}

/// Sum of the estimates of all sources on each measured CPU.
pub(super) fn sums(
    sources: &[Source],
    parts: &[Vec<Part>],
    measured: &[f64],
    value: impl Fn(&Source, &Part) -> f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; measured.len()];
    for (source, part) in
        sources.iter().zip(parts).flat_map(|(source, parts)| parts.iter().map(move |part| (source, part)))
    {
        if let Some(sum) = sums.get_mut(part.cpu.0 as usize) {
            *sum += value(source, part);
        }
    }
    sums
}

/// Measured values of the CPUs of a source relative to the estimates, by its parts there.
pub(super) fn off(parts: &[Part], measured: &[f64], sums: &[f64], value: impl Fn(&Part) -> f64) -> f64 {
    let at = |values: &[f64], part: &Part| values.get(part.cpu.0 as usize).copied().unwrap_or_default();
    parts.iter().map(|part| value(part) * at(measured, part) / at(sums, part).max(f64::MIN_POSITIVE)).sum()
}

/// Work that interrupts of other network namespaces bring, and that never moves: what else goes up the stack on their CPUs.
pub(super) fn foreign(model: &Model, rates: &Rates, sources: &[Source], parts: &[Vec<Part>]) -> Vec<Source> {
    let measured = by_cpu(rates, |cpu| cpu.packets);
    let own = sums(sources, parts, &measured, |source, part| source.packets * part.packets);
    let rest = |home: CpuId| {
        let packets = (measured.get(home.0 as usize)? - own.get(home.0 as usize)?).max(0.0);
        let path = Path { home: Some(home), mask: CpuMask::new() };
        Some(Source { nic: usize::MAX, queue: 0, path, packets, time: 0.0 })
    };
    foreign_cpus(model, rates).iter().filter_map(rest).collect()
}

/// CPUs where interrupts of no interface here fire.
pub(super) fn foreign_cpus(model: &Model, rates: &Rates) -> CpuMask {
    let own: BTreeSet<IrqId> = model.nics.iter().flat_map(simulation::all_irqs).collect();
    let others = rates.irqs.iter().filter(|irq| !own.contains(&irq.irq)).flat_map(|irq| &irq.per_cpu);
    others.filter(|(_, rate)| **rate >= TRAFFIC).map(|(cpu, _)| *cpu).collect()
}
