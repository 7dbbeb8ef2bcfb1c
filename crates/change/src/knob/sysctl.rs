//! Values of `net.core`: how much receive work a CPU does at a time, how long a process polls for packets, and what
//! new queues get.

use rustix::io::Errno;

use super::file::{At, FileKnob, Members, Missing, Value, exists};

/// Largest value of an `int` sysctl.
const INT_MAX: u64 = i32::MAX as u64;
const OUTSIDE: &str = "the kernel stores it in 31 bits";
const MISSING: Missing =
    Missing::Because("this kernel does not have it, or this is not the initial network namespace");

pub(super) static NETDEV_BUDGET: FileKnob = FileKnob::new(
    "netdev_budget",
    At::Host(|model| exists(&model.settings.netdev_budget)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static NETDEV_BUDGET_USECS: FileKnob = FileKnob::new(
    "netdev_budget_usecs",
    At::Host(|model| exists(&model.settings.netdev_budget_usecs)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.meanings(&[(Errno::INVAL, "newer kernels require at least two timer ticks, 8000 at 250 Hz")])
.missing(MISSING);

pub(super) static NETDEV_MAX_BACKLOG: FileKnob = FileKnob::new(
    "netdev_max_backlog",
    At::Host(|model| exists(&model.settings.netdev_max_backlog)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static BUSY_POLL: FileKnob = FileKnob::new(
    "busy_poll",
    At::Host(|model| exists(&model.settings.busy_poll)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static BUSY_READ: FileKnob = FileKnob::new(
    "busy_read",
    At::Host(|model| exists(&model.settings.busy_read)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static DEV_WEIGHT: FileKnob = FileKnob::new(
    "dev_weight",
    At::Host(|model| exists(&model.settings.dev_weight)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static GRO_NORMAL_BATCH: FileKnob = FileKnob::new(
    "gro_normal_batch",
    At::Host(|model| exists(&model.settings.gro_normal_batch)),
    Value::Number(1..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static SKB_DEFER_MAX: FileKnob = FileKnob::new(
    "skb_defer_max",
    At::Host(|model| exists(&model.settings.skb_defer_max)),
    Value::Number(0..=INT_MAX, OUTSIDE),
)
.missing(MISSING);

pub(super) static FLOW_LIMIT_CPUS: FileKnob = FileKnob::new(
    "flow_limit_cpus",
    At::Host(|model| exists(&model.settings.flow_limit_cpus)),
    Value::Mask(Members::OnlineCpus),
)
.missing(MISSING);

pub(super) static RPS_DEFAULT_MASK: FileKnob = FileKnob::new(
    "rps_default_mask",
    At::Host(|model| exists(&model.settings.rps_default_mask)),
    Value::Mask(Members::HousekeepingCpus),
)
.missing(Missing::Old("6.3", "this kernel does not have it (6.3 and later do)"));

pub(super) static DEFAULT_SMP_AFFINITY: FileKnob = FileKnob::new(
    "default_smp_affinity",
    At::Host(|model| exists(&model.settings.default_smp_affinity)),
    Value::Mask(Members::SomeOnlineCpus),
)
.meanings(&[(Errno::INVAL, "none of these CPUs is online")])
.missing(Missing::Old("2.6.21", "this kernel does not have it (those built for one CPU do not)"));
