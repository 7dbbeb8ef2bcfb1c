//! Values as numbers and as text: those that commands and others set, and how knobs write them.

use rxlab_base::units::{CpuId, CpuMask};

use super::super::schedule::Slot;

/// Values that commands set, and values that only others set.
fn palette(slot: Slot) -> ([u64; 3], [u64; 3]) {
    match slot {
        Slot::Rps(..) | Slot::Xps(..) => ([0b0110, 0b0010, 0b0100], [0b1001, 0b1000, 0b1010]),
        // There is no third value: what others set equals what a command sets.
        Slot::Threaded(_) | Slot::QueueThreaded(..) | Slot::Gro(_) => ([1, 0, 1], [1, 1, 1]),
        Slot::Rfs(..) => ([256, 512, 2048], [1024, 64, 128]),
        Slot::Irq(..) => ([0b0010, 0b0100, 0b0110], [0b1000, 0b1001, 0b1010]),
        Slot::Channels(_) => ([1, 4, 1], [3, 3, 3]),
        // Never all CPUs that are online, which is a value of its own.
        Slot::Thread(..) | Slot::NapiCpus(..) => ([0b0110, 0b0010, 0b0100], [0b1000, 0b1100, 0b1010]),
        Slot::Defer(_) | Slot::QueueDefer(..) => ([2, 4, 6], [1, 3, 5]),
        Slot::Flush(_) | Slot::QueueFlush(..) => ([20_000, 40_000, 60_000], [10_000, 30_000, 50_000]),
        Slot::Suspend(..) => ([20_000_000, 40_000_000, 60_000_000], [10_000_000, 30_000_000, 50_000_000]),
        Slot::Ring(_) => ([512, 1024, 64], [128, 2048, 4096]),
        // An even table is taken for the driver's choice.
        Slot::Rss(_) => ([0x2221, 0x2111, 0x2222], [0x1112, 0x1222, 0x2122]),
        Slot::Group(_) => ([0b0110, 0b0010, 0b0100], [0b1000, 0b1100, 0b1010]),
        Slot::Ksoftirqd(_) | Slot::NapiPriority(..) => (
            [scheduling(1, 10, 0), scheduling(0, 0, -5), scheduling(2, 5, 0)],
            [scheduling(5, 0, 3), scheduling(3, 0, 4), scheduling(1, 50, -2)],
        ),
        Slot::Entries => ([32768, 16384, 8192], [4096, 1024, 2048]),
        Slot::Budget => ([600, 700, 800], [450, 350, 250]),
    }
}

pub(crate) const fn scheduling(policy: u64, priority: u64, nice: i64) -> u64 {
    policy << 16 | priority << 8 | (nice + 20) as u64
}

/// Policy, priority and nice value of such a number.
pub(crate) fn scheduling_of(value: u64) -> (u64, u64, i64) {
    (value >> 16, value >> 8 & 0xff, (value & 0xff) as i64 - 20)
}

/// Scheduling of a new thread.
pub(crate) const OTHER: u64 = scheduling(0, 0, 0);

/// The queue of each entry of the table that a number stands for, with so many queues.
pub(crate) fn table(value: u64, queues: u64) -> [u32; 4] {
    std::array::from_fn(|at| match (value >> (4 * at) & 0xf) as u32 {
        0 => at as u32 % (queues.max(1) as u32),
        queue => queue - 1,
    })
}

/// A value that commands set.
pub(crate) fn ours(slot: Slot, which: u8) -> u64 {
    palette(slot).0[usize::from(which) % 3]
}

/// A value that only others set.
pub(crate) fn other(slot: Slot, which: u8) -> u64 {
    palette(slot).1[usize::from(which) % 3]
}

/// A number as a knob writes it: canonical text of the value.
pub(crate) fn text(slot: Slot, value: u64) -> String {
    match slot {
        Slot::Threaded(_) | Slot::QueueThreaded(..) | Slot::Gro(_) if value != 0 => "on".to_owned(),
        Slot::Rps(..) | Slot::Xps(..) | Slot::Threaded(_) | Slot::QueueThreaded(..) | Slot::Gro(_)
            if value == 0 =>
        {
            "off".to_owned()
        }
        Slot::Group(_) if value == 0 => "inherit".to_owned(),
        Slot::Rss(_) => match value {
            0 => "default".to_owned(),
            0x2221 => "weights 1,3".to_owned(),
            0x2111 => "weights 3,1".to_owned(),
            0x2222 => "weights 0,1".to_owned(),
            _ => format!("table {}", table(value, 1).map(|queue| queue.to_string()).join(",")),
        },
        Slot::Ksoftirqd(_) | Slot::NapiPriority(..) => match scheduling_of(value) {
            (0, _, 0) => "other".to_owned(),
            (0, _, nice) => format!("nice:{nice}"),
            (1, priority, 0) => format!("fifo:{priority}"),
            (1, priority, nice) => format!("fifo:{priority} nice:{nice}"),
            (2, priority, 0) => format!("rr:{priority}"),
            (2, priority, nice) => format!("rr:{priority} nice:{nice}"),
            (3, _, nice) => format!("batch nice:{nice}"),
            (_, _, 0) => "idle".to_owned(),
            (_, _, nice) => format!("idle nice:{nice}"),
        },
        Slot::Group(_) => list(value),
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) | Slot::Thread(..) | Slot::NapiCpus(..) => list(value),
        Slot::Channels(_) => format!("combined {value}"),
        _ => value.to_string(),
    }
}

/// CPUs as a list: `0-2,5`.
pub(crate) fn list(mask: u64) -> String {
    (0..64).filter(|cpu| mask >> cpu & 1 == 1).map(CpuId).collect::<CpuMask>().to_string()
}

/// The name of the knob of a slot.
pub(crate) fn knob(slot: Slot) -> &'static str {
    match slot {
        Slot::Entries => "rfs_entries",
        Slot::Budget => "netdev_budget",
        Slot::Rps(..) => "rps",
        Slot::Rfs(..) => "rfs",
        Slot::Xps(..) => "xps_cpus",
        Slot::Threaded(_) => "threaded",
        Slot::Irq(..) => "irq_affinity",
        Slot::Channels(_) => "channels",
        Slot::Defer(_) => "napi_defer_hard_irqs",
        Slot::QueueDefer(..) => "queue_defer_hard_irqs",
        Slot::Flush(_) => "gro_flush_timeout",
        Slot::QueueFlush(..) => "queue_gro_flush_timeout",
        Slot::Suspend(..) => "irq_suspend_timeout",
        Slot::QueueThreaded(..) => "queue_threaded",
        Slot::NapiCpus(..) => "napi_affinity",
        Slot::NapiPriority(..) => "napi_priority",
        Slot::Gro(_) => "gro",
        Slot::Ring(_) => "ring_rx",
        Slot::Rss(_) => "rss",
        Slot::Thread(..) | Slot::Group(_) => "affinity",
        Slot::Ksoftirqd(_) => "ksoftirqd_priority",
    }
}
