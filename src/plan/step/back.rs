//! Load of the CPUs of interrupts if no queue handed packets on.

use std::collections::BTreeMap;

use crate::diagnose::evidence::{queue_packets, receive_time};
use crate::model::NicKind;
use crate::plan::share::{HIGH_LOAD, Machine};
use crate::units::{CpuId, CpuMask};

/// How much busier than today's busiest a CPU may get: the attribution of a CPU's receive time is an
/// estimate.
pub(in crate::plan) const SLACK: f64 = 1.1;

pub(super) struct Back {
    /// For each CPU that takes interrupts: its receive time then, and the most that it or a CPU of a mask of
    /// its queues has now.
    homes: BTreeMap<CpuId, (f64, f64)>,
}

impl Back {
    /// Queues share the receive time of a CPU by the packets that they bring there: all of them where the
    /// interrupt lands, an equal part to each CPU of the mask. A mask with unusable CPUs does not count: it
    /// is removed in any case.
    pub(super) fn new(machine: &Machine<'_>) -> Self {
        let width = machine.model.cpus.iter().map(|cpu| cpu.id.0 as usize + 1).max().unwrap_or_default();
        let mut now = vec![0.0; width];
        for cpu in &machine.rates.cpus {
            if let Some(time) = now.get_mut(cpu.cpu.0 as usize) {
                *time = receive_time(cpu);
            }
        }
        let none = CpuMask::new();
        let mut queues: Vec<(CpuId, &CpuMask, f64)> = Vec::new();
        for nic in machine.model.nics.iter().filter(|nic| nic.kind == NicKind::Device) {
            for queue in &nic.rx {
                let Some(home) = machine.home(queue) else { continue };
                // Queues without packets have no work; 1 keeps the sums above 0.
                let packets = queue_packets(nic, queue, machine.rates).max(1.0);
                let may = |mask: &&CpuMask| mask.difference(&machine.topology.usable).is_empty();
                queues.push((home, queue.rps_cpus.known().filter(may).unwrap_or(&none), packets));
            }
        }
        let mut claims = vec![0.0; width];
        let each = |claim: &mut dyn FnMut(CpuId, CpuId, f64)| {
            for (home, mask, packets) in &queues {
                claim(*home, *home, *packets);
                // As without the interrupt's CPU, which leaves a mask that stays.
                let others: Vec<CpuId> = mask.iter().filter(|cpu| cpu != home).collect();
                let to = packets / others.len().max(1) as f64;
                others.into_iter().for_each(|cpu| claim(*home, cpu, to));
            }
        };
        each(&mut |_, cpu, weight| {
            if let Some(all) = claims.get_mut(cpu.0 as usize) {
                *all += weight;
            }
        });
        let mut homes: BTreeMap<CpuId, (f64, f64)> = BTreeMap::new();
        each(&mut |home, cpu, weight| {
            let at = cpu.0 as usize;
            if let (Some(time), Some(all)) = (now.get(at), claims.get(at)) {
                let (then, most) = homes.entry(home).or_default();
                (*then, *most) = (*then + time * weight / all, most.max(*time));
            }
        });
        Self { homes }
    }

    /// True if the CPU of interrupts can do without the masks of its queues: it has time, or is then no
    /// busier than one of them is now.
    pub(super) fn is_bearable(&self, home: CpuId) -> bool {
        let (then, most) = self.homes.get(&home).copied().unwrap_or_default();
        then < HIGH_LOAD || then <= most * SLACK
    }
}
