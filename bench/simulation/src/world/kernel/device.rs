//! A simulated interface: its queues with their interrupts, NAPIs and the threads of those.

use super::super::schedule::{NicValue, QueueValue};
use super::value::{By, Value};
use super::words::OTHER;
use super::{ALL_CPUS, MAX_QUEUES};

/// One pair of queues with the interrupt of both.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) rx_inode: u64,
    pub(crate) tx_inode: u64,
    pub(crate) irq: u32,
    /// Number of its NAPI, which no other one gets.
    pub(crate) napi: u32,
    /// The thread of its NAPI.
    pub(crate) thread: Thread,
    values: [Value; QueueValue::ALL.len()],
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) inode: u64,
    pub(crate) name: String,
    /// Its name is not UTF-8: no file is found by it.
    pub(crate) is_odd: bool,
    /// Cookie of its network namespace; 0 once it is gone.
    pub(crate) netns: u64,
    /// Address of the PCI function; `None` for a virtual one.
    pub(crate) pci: Option<&'static str>,
    pub(crate) ifindex: u32,
    pub(crate) carrier_downs: u64,
    pub(crate) queues: Vec<Queue>,
    values: [Value; NicValue::ALL.len()],
    /// True if its queues, interrupts or NAPIs were ever recreated, or if a write that may do so was refused: what a driver did
    /// before it refused cannot be seen.
    pub(crate) made_again: bool,
}

/// The values of queues that exist.
pub(crate) type Existing = Vec<[bool; QueueValue::ALL.len()]>;

impl Queue {
    pub(crate) fn new(numbers: Numbers) -> Self {
        let Numbers { rx_inode, tx_inode, irq, napi, thread } = numbers;
        let fresh = |value| match value {
            QueueValue::Irq | QueueValue::NapiCpus => ALL_CPUS,
            QueueValue::NapiPriority => OTHER,
            _ => 0,
        };
        let values = QueueValue::ALL.map(|value| Value::new(fresh(value)));
        Self { rx_inode, tx_inode, irq, napi, thread, values }
    }

    pub(crate) fn value(&self, value: QueueValue) -> &Value {
        &self.values[value as usize]
    }

    pub(crate) fn value_mut(&mut self, value: QueueValue) -> &mut Value {
        &mut self.values[value as usize]
    }
}

/// A thread of a NAPI: its number, which no other one gets, and the clock tick in which it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) began: u64,
}

/// Numbers of the parts of a queue, which no other one gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) rx_inode: u64,
    pub(crate) tx_inode: u64,
    pub(crate) irq: u32,
    pub(crate) napi: u32,
    pub(crate) thread: Thread,
}

impl Device {
    pub(crate) fn new(inode: u64, name: String, pci: Option<&'static str>, count: u8) -> Self {
        let first = |value| match value {
            NicValue::Channels => u64::from(count),
            NicValue::Ring => 256,
            _ => 0,
        };
        Self {
            inode,
            name,
            is_odd: false,
            netns: 0,
            pci,
            ifindex: u32::try_from(inode).unwrap_or(0),
            carrier_downs: 1,
            queues: Vec::new(),
            values: NicValue::ALL.map(|value| Value::new(first(value))),
            made_again: false,
        }
    }

    /// Queues that it has, whether in use or not.
    pub(crate) fn room(pci: Option<&'static str>, count: u8) -> u8 {
        if pci.is_some() { MAX_QUEUES } else { count }
    }

    pub(crate) fn nic_value(&self, value: NicValue) -> &Value {
        &self.values[value as usize]
    }

    pub(crate) fn nic_value_mut(&mut self, value: NicValue) -> &mut Value {
        &mut self.values[value as usize]
    }

    /// Current number of queues.
    pub(crate) fn count(&self) -> u64 {
        self.nic_value(NicValue::Channels).now
    }

    /// True if its queues are polled: a veth has NAPIs while GRO is on (`veth_set_features`).
    pub(crate) fn has_napis(&self) -> bool {
        self.pci.is_some() || self.nic_value(NicValue::Gro).now == 1
    }

    /// True if it has a choice of transmit queues.
    pub(crate) fn has_xps(&self) -> bool {
        self.queues.len() > 1
    }

    pub(crate) fn has(&self, value: NicValue) -> bool {
        let is_of_kind = match value {
            NicValue::Threaded => true,
            NicValue::Gro => self.pci.is_none(),
            _ => self.pci.is_some(),
        };
        self.netns != 0 && is_of_kind
    }

    pub(crate) fn queue_has(&self, queue: usize, value: QueueValue) -> bool {
        let is_threaded = || self.queues[queue].value(QueueValue::Threaded).now == 1;
        let is_of_kind = || match value {
            QueueValue::Rps | QueueValue::Rfs => true,
            QueueValue::Xps => self.has_xps(),
            QueueValue::Irq => self.pci.is_some(),
            QueueValue::NapiCpus | QueueValue::NapiPriority => self.has_napis() && is_threaded(),
            _ => self.has_napis(),
        };
        self.netns != 0 && queue < self.queues.len() && (queue as u64) < self.count() && is_of_kind()
    }

    pub(crate) fn existing(&self) -> Existing {
        let of = |queue| QueueValue::ALL.map(|value| self.queue_has(queue, value));
        (0..self.queues.len()).map(of).collect()
    }

    /// The value of a new queue, interrupt, NAPI or thread.
    pub(crate) fn fresh(&self, value: QueueValue) -> u64 {
        match value {
            QueueValue::Rps | QueueValue::Rfs | QueueValue::Xps | QueueValue::Suspend => 0,
            QueueValue::Irq | QueueValue::NapiCpus => ALL_CPUS,
            QueueValue::NapiPriority => OTHER,
            QueueValue::Defer => self.nic_value(NicValue::Defer).now,
            QueueValue::Flush => self.nic_value(NicValue::Flush).now,
            QueueValue::Threaded => self.nic_value(NicValue::Threaded).now,
        }
    }

    /// These values of all queues are those of new ones, with these numbers.
    pub(crate) fn renew(&mut self, values: &[QueueValue], numbers: &[Numbers], by: &Writer) {
        self.made_again = true;
        for (queue, numbers) in self.queues.iter_mut().zip(numbers) {
            if values.contains(&QueueValue::Rps) {
                (queue.rx_inode, queue.tx_inode) = (numbers.rx_inode, numbers.tx_inode);
            }
            if values.contains(&QueueValue::Irq) {
                queue.irq = numbers.irq;
            }
            if values.contains(&QueueValue::Defer) {
                queue.napi = numbers.napi;
            }
            if values.contains(&QueueValue::NapiCpus) {
                queue.thread = numbers.thread;
            }
        }
        for queue in 0..self.queues.len() {
            values.iter().for_each(|value| self.renew_one(queue, *value, by));
        }
    }

    fn renew_one(&mut self, queue: usize, which: QueueValue, by: &Writer) {
        let fresh = self.fresh(which);
        let value = self.queues[queue].value_mut(which);
        match by {
            Writer::Other => value.reset(fresh),
            Writer::Rxlab { began, existing, .. } if existing[queue][which as usize] => {
                value.discard(fresh, *began)
            }
            // It was not there for rxlab to save: what it discarded earlier has yet to be set again.
            Writer::Rxlab { .. } => {
                let discarded = value.discarded.filter(|value| *value != fresh);
                value.lose();
                value.reset(fresh);
                value.discarded = discarded;
            }
        }
    }

    /// The thread of a NAPI ends, and maybe another one starts.
    pub(crate) fn renew_thread(&mut self, queue: usize, thread: Thread, by: &Writer) {
        self.queues[queue].thread = thread;
        QueueValue::THREAD.into_iter().for_each(|value| self.renew_one(queue, value, by));
    }

    /// A value for all NAPIs replaces those of each (`netdev_set_defer_hard_irqs`).
    pub(crate) fn spread(&mut self, which: QueueValue, by: &Writer) {
        let all = self.fresh(which);
        for value in self.queues.iter_mut().map(|queue| queue.value_mut(which)) {
            let discarded = value.discarded.filter(|value| *value != all);
            match by {
                // What equals the value for all that rxlab takes for its own is taken for that.
                Writer::Rxlab { began, replaced, .. }
                    if value.by == By::Foreign && Some(value.now) != *replaced =>
                {
                    value.discard(all, *began);
                }
                Writer::Rxlab { .. } => {
                    value.reset(all);
                    value.discarded = discarded;
                }
                Writer::Other => value.foreign(all),
            }
        }
    }
}

/// The program whose write affects other values.
#[derive(Debug)]
pub(crate) enum Writer {
    Other,
    /// A command of rxlab that began before operation `began`; the values of queues that existed before the write, and the
    /// value that it replaced, if it takes that for its own.
    Rxlab {
        began: u32,
        existing: Existing,
        replaced: Option<u64>,
    },
}
