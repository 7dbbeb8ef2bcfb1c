//! Interrupts that a target stands for.

use super::Target;
use crate::model::{Irq, Nic};
use crate::units::Direction;

/// The interrupts of a queue of `nic`, or those of a name, in the order of their numbers; none if the target
/// has none or is not such a part of an interface.
pub fn interrupts<'m>(nic: &'m Nic, target: &Target) -> Vec<&'m Irq> {
    let mut irqs: Vec<&Irq> = match target {
        Target::Queue { queue, .. } if queue.direction == Direction::Rx => {
            nic.rx.iter().filter(|rx| rx.index == queue.index).flat_map(|rx| &rx.irqs).collect()
        }
        Target::Queue { queue, .. } => nic.tx_irqs(queue.index).collect(),
        Target::Irq { name, .. } => nic.queueless_irqs().filter(|irq| irq.action == *name).collect(),
        _ => Vec::new(),
    };
    irqs.sort_by_key(|irq| irq.number);
    irqs
}
