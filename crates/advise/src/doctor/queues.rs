//! Receive queues of an interface with the CPUs that their packets pass, now and with other settings.

use serde::{Deserialize, Serialize};

use rxlab_base::units::{CpuMask, Fact, NicName, QueueId};
use rxlab_path::model::{Nic, RxQueue};
use rxlab_setting::{Setting, Target, set_of};

/// An interface and its receive queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NicQueues {
    /// The interface.
    pub nic: NicName,
    /// Its receive queues, by number.
    pub queues: Vec<QueuePath>,
}

/// One receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuePath {
    /// The queue.
    pub queue: QueueId,
    /// CPUs that its interrupts land on; empty = it has none, or they are not known.
    pub irq_cpus: CpuMask,
    /// CPUs that RPS hands its packets to; empty = RPS off.
    pub rps_cpus: Fact<CpuMask>,
}

impl QueuePath {
    /// A queue whose interrupts land on `irq_cpus`.
    pub fn new(queue: &RxQueue, irq_cpus: CpuMask) -> Self {
        Self { queue: QueueId::rx(queue.index), irq_cpus, rps_cpus: queue.rps_cpus.clone() }
    }
}

impl NicQueues {
    /// The queues as they are set, without counts of where interrupts land.
    pub fn new(nic: &Nic) -> Self {
        let queues = nic.rx.iter().map(|queue| QueuePath::new(queue, set_cpus(queue)));
        Self { nic: nic.name.clone(), queues: queues.collect() }
    }

    /// The same with `settings`. Those of other knobs and interfaces change nothing here.
    #[must_use]
    pub fn with(&self, settings: &[Setting]) -> Self {
        let mut path = self.clone();
        for setting in settings {
            let Target::Queue { nic, queue } = &setting.target else { continue };
            let found = path.queues.iter_mut().find(|one| *nic == self.nic && one.queue == *queue);
            let (Some(found), Some(cpus)) = (found, set_of(&setting.value)) else { continue };
            match setting.knob.as_str() {
                "rps" => found.rps_cpus = Fact::Known(cpus),
                "irq_affinity" => found.irq_cpus = cpus,
                _ => {}
            }
        }
        path
    }
}

/// CPUs that the interrupts of a queue go to, else those that they may go to.
fn set_cpus(queue: &RxQueue) -> CpuMask {
    let cpus = queue.irqs.iter().filter_map(|irq| irq.effective.known().or(irq.affinity.known()));
    cpus.fold(CpuMask::new(), |all, one| all.union(one))
}

#[cfg(test)]
mod tests {
    use super::NicQueues;
    use rxlab_base::units::{CpuMask, Fact};
    use rxlab_path::sketch::{Sketch, cpus};

    #[test]
    fn settings_change_the_queue_that_they_name() {
        let (model, _) = Sketch::new(8).device("eth0", &[0, 1]).rps("eth0", "4-7").build();
        let before = NicQueues::new(&model.nics[0]);
        assert_eq!(before.queues[1].irq_cpus, cpus("1"));
        let settings =
            ["rps eth0/rx-1 = off", "irq_affinity eth0/rx-0 = 3", "rps eth1/rx-0 = 2", "rfs eth0/rx-0 = 64"];
        let settings = settings.map(|text| text.parse().expect("a setting"));
        let after = before.with(&settings);
        assert_eq!(
            (after.queues[0].irq_cpus.clone(), after.queues[1].irq_cpus.clone()),
            (cpus("3"), cpus("1"))
        );
        assert_eq!(after.queues[0].rps_cpus, Fact::Known(cpus("4-7")));
        assert_eq!(after.queues[1].rps_cpus, Fact::Known(CpuMask::new()));
        assert_eq!(before.with(&[]), before);
    }
}
