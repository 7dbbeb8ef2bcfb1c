//! Interrupts of a device that belong to no receive queue: those of transmit queues and of the device itself.

use super::irq_names;
use super::topology::Nic;
use crate::sample::Irq;

impl Nic {
    /// The interrupts that, by their names, belong only to transmit queue `index`.
    pub fn tx_irqs(&self, index: u32) -> impl Iterator<Item = &Irq> {
        self.other_irqs.iter().filter(move |irq| self.sends(irq) == Some(index))
    }

    /// The interrupts of no queue: of the link, of the configuration, and those whose names contain no queue.
    /// Not the interrupts of unused queues, which drivers keep for when the queues come back.
    pub fn queueless_irqs(&self) -> impl Iterator<Item = &Irq> {
        self.other_irqs.iter().filter(|irq| self.sends(irq).is_none() && !self.is_of_idle_queue(irq))
    }

    fn sends(&self, irq: &Irq) -> Option<u32> {
        irq_names::sends(&irq.action, self.driver.as_deref())
    }

    fn is_of_idle_queue(&self, irq: &Irq) -> bool {
        let queue = irq_names::receives(&irq.action, self.driver.as_deref());
        queue.is_some_and(|index| self.rx.iter().all(|rx| rx.index != index))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{DeviceAddress, Irq, Nic, NicKind, RxQueue};

    /// A virtio device with four pairs of queues, of which two are in use.
    #[test]
    fn each_interrupt_has_one_place() {
        let mut nic =
            Nic::new("eth0".parse().expect("a name"), DeviceAddress("pci:0".into()), NicKind::Device);
        nic.driver = Some("virtio_net".to_owned());
        nic.rx = (0..2).map(|index| RxQueue { index, ..RxQueue::default() }).collect();
        let actions = [
            "virtio0-config",
            "virtio0-output.0",
            "virtio0-output.1",
            "virtio0-input.2",
            "virtio0-output.2",
            "virtio0-input.3",
            "virtio0-output.3",
        ];
        let irq = |action: &str| Irq { action: action.to_owned(), ..Irq::default() };
        nic.other_irqs = actions.map(irq).into();
        let names = |irqs: Vec<&Irq>| irqs.iter().map(|irq| irq.action.clone()).collect::<Vec<_>>();
        assert_eq!(names(nic.tx_irqs(1).collect()), ["virtio0-output.1"]);
        assert_eq!(names(nic.queueless_irqs().collect()), ["virtio0-config"]);
    }
}
