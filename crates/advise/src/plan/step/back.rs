//! Load of the CPUs of interrupts if no queue handed packets on.

use std::collections::BTreeMap;

use crate::plan::machine::{HIGH_LOAD, Machine};
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::evidence::{is_counted, queue_packets, receive_time};
use rxlab_path::model::{Nic, NicKind};

/// Factor by which a CPU may get busier than today's busiest: the attribution of a CPU's receive time is an
/// estimate.
pub(in crate::plan) const SLACK: f64 = 1.1;

pub(super) struct Back {
    /// For each CPU that takes interrupts: its receive time then, and the most that it or a CPU of a mask of
    /// its queues has now.
    homes: BTreeMap<CpuId, (f64, f64)>,
}

impl Back {
    /// Queues share the receive time of a CPU by the packets that they bring there: all of them where the
    /// interrupt lands, an equal part to each CPU of the mask. If an interface counts no packets by queue, and the
    /// masks of its queues differ, any of them may bring all that they bring to a CPU together. A mask with unusable
    /// CPUs does not count: it is removed in any case.
    pub(super) fn new(machine: &Machine<'_>) -> Self {
        let width = machine.model.cpus.iter().map(|cpu| cpu.id.0 as usize + 1).max().unwrap_or_default();
        let mut now = vec![0.0; width];
        for cpu in &machine.rates.cpus {
            if let Some(time) = now.get_mut(cpu.cpu.0 as usize) {
                *time = receive_time(cpu);
            }
        }
        let mut all = vec![0.0; width];
        // Claims on CPUs of queues that are not told apart, and the CPUs of those with the same home.
        let mut claims: BTreeMap<(&NicName, Option<u32>), Vec<f64>> = BTreeMap::new();
        let mut used: BTreeMap<(CpuId, &NicName, Option<u32>), CpuMask> = BTreeMap::new();
        for nic in machine.model.nics.iter().filter(|nic| nic.kind == NicKind::Device) {
            let are_alike = have_one_mask(nic);
            for queue in &nic.rx {
                let Some(home) = machine.home(queue) else { continue };
                // Queues without packets have no work; 1 keeps the sums above 0.
                let packets = queue_packets(nic, queue, machine.rates).max(1.0);
                let may = |mask: &&CpuMask| mask.difference(&machine.topology.usable).is_empty();
                let mask = queue.rps_cpus.known().filter(may).cloned().unwrap_or_default();
                let home_only = CpuMask::from(home);
                // As without the interrupt's CPU, which leaves a mask that stays.
                let others = mask.difference(&home_only);
                let is_told = are_alike || is_counted(nic, queue, machine.rates);
                let index = is_told.then_some(queue.index);
                let own = claims.entry((&nic.name, index)).or_insert_with(|| vec![0.0; width]);
                let to = packets / others.len().max(1) as f64;
                for (cpu, weight) in others.iter().map(|cpu| (cpu, to)).chain([(home, packets)]) {
                    if let (Some(own), Some(all)) = (own.get_mut(cpu.0 as usize), all.get_mut(cpu.0 as usize))
                    {
                        *own += weight;
                        *all += weight;
                    }
                }
                let used = used.entry((home, &nic.name, index)).or_default();
                *used = used.union(&others).union(&home_only);
            }
        }
        let mut homes: BTreeMap<CpuId, (f64, f64)> = BTreeMap::new();
        for ((home, nic, index), cpus) in used {
            let claims = &claims[&(nic, index)];
            for at in cpus.iter().map(|cpu| cpu.0 as usize).filter(|at| *at < width) {
                let (then, most) = homes.entry(home).or_default();
                (*then, *most) = (*then + now[at] * claims[at] / all[at], most.max(now[at]));
            }
        }
        Self { homes }
    }

    /// True if the CPU of interrupts can do without the masks of its queues: it has time, or is then no
    /// busier than one of them is now.
    pub(super) fn is_bearable(&self, home: CpuId) -> bool {
        let (then, most) = self.homes.get(&home).copied().unwrap_or_default();
        then < HIGH_LOAD || then <= most * SLACK
    }
}

fn have_one_mask(nic: &Nic) -> bool {
    nic.rx.iter().all(|queue| Some(&queue.rps_cpus) == nic.rx.first().map(|first| &first.rps_cpus))
}
