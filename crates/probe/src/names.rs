//! Names for the kernel's numbers: interrupts and NAPIs joined to NICs and queues.

use std::collections::BTreeMap;

use rxlab_base::units::QueueId;
use rxlab_path::model::Model;
use rxlab_path::sample::Inventory;

/// Interrupts and NAPIs of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    actions: BTreeMap<u32, Vec<String>>,
    irq_queues: BTreeMap<u32, String>,
    queues: BTreeMap<u32, Vec<QueueId>>,
}

impl Names {
    /// Joins the data of `inventory`.
    pub fn new(inventory: &Inventory) -> Self {
        let mut names = Self::default();
        for irq in inventory.irqs.known().into_iter().flatten() {
            names.actions.insert(irq.number.0, irq.actions().map(str::to_owned).collect());
        }
        for queue in inventory.queues.known().into_iter().flatten() {
            if let Some(napi) = queue.napi {
                names.queues.entry(napi).or_default().push(queue.queue);
            }
        }
        let model = Model::new(inventory);
        for (nic, rx) in model.nics.iter().flat_map(|nic| nic.rx.iter().map(move |rx| (nic, rx))) {
            for irq in &rx.irqs {
                let queue = || format!("{}/{}", nic.name, QueueId::rx(rx.index));
                names.irq_queues.entry(irq.number.0).or_insert_with(queue);
            }
        }
        names
    }

    /// Owners of an interrupt, as in /proc/interrupts; empty = not reported by the kernel.
    pub fn actions(&self, irq: u32) -> &[String] {
        self.actions.get(&irq).map_or(&[], Vec::as_slice)
    }

    /// The receive queue that an interrupt belongs to, with its NIC, if known.
    pub fn queue_of_irq(&self, irq: u32) -> Option<&str> {
        self.irq_queues.get(&irq).map(String::as_str)
    }

    /// The queues of a NAPI, if the kernel reports them.
    pub fn queues(&self, napi: u32) -> &[QueueId] {
        self.queues.get(&napi).map_or(&[], Vec::as_slice)
    }

    /// Short name of a NAPI: its queues, or its device and number, or its kind.
    pub fn napi(&self, napi: u32, device: &str) -> String {
        napi_name(napi, device, self.queues(napi))
    }
}

/// Short name of a NAPI. 0 = it has no number.
pub fn napi_name(napi: u32, device: &str, queues: &[QueueId]) -> String {
    match (napi, queues) {
        (0, _) if device.is_empty() => "backlog".to_owned(),
        (0, _) => format!("{device} transmit"),
        (id, []) => format!("{device} napi {id}"),
        (_, queues) => {
            let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
            format!("{device}/{}", queues.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, napi_name};
    use rxlab_base::units::QueueId;

    #[test]
    fn a_napi_has_the_best_name_there_is() {
        let queues = [QueueId::rx(0), QueueId::rx(1)];
        assert_eq!(napi_name(7, "eth0", &queues), "eth0/rx-0,rx-1");
        assert_eq!(napi_name(7, "veth1", &[]), "veth1 napi 7");
        assert_eq!(napi_name(0, "eth0", &[]), "eth0 transmit");
        assert_eq!(napi_name(0, "", &[]), "backlog");
    }

    #[test]
    fn what_the_kernel_does_not_tell_has_no_name() {
        let names = Names::default();
        assert!(names.actions(5).is_empty() && names.queue_of_irq(5).is_none() && names.queues(5).is_empty());
    }
}
