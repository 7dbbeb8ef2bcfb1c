//! Facts about NIC drivers: one row for each driver in [`DRIVERS`].
//!
//! Nothing else in rxlab compares the name of a driver. A row states what differs from most drivers ([`facts`] of an
//! unknown one): names of interrupts and of statistics, limits, and what a change resets. Statistics and names of
//! interrupts that drivers share are also tried for drivers without a row.

mod losses;
mod table;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use rxlab_base::parse::ethtool::{Counted, QueueNames};

pub use losses::{LOSSES, Loss, LossKind, kind as loss_kind};
pub(crate) use losses::{OF_DRIVER, counted_as as loss_counted_as};
pub use table::DRIVERS;

/// One driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Names by which sysfs and `ethtool -i` report it; texts list the first.
    pub names: &'static [&'static str],
    /// Its interfaces.
    pub kind: Kind,
    /// Names of the interrupts of its queues.
    pub irqs: &'static [IrqName],
    /// Order of its interrupts that have the bare name of the interface or of its device.
    pub bare: Bare,
    /// True if interrupts whose names do not contain an interface's serve every interface of their function.
    pub shares_irqs: bool,
    /// True if one interface may have queues on several functions (multi-PF, from Linux 6.9 on).
    pub spans_functions: bool,
    /// Names of interrupts that are not on the device's path and bring the packets of every interface of the driver; `#` is a
    /// number.
    pub portals: &'static [&'static str],
    /// True if the names of its interrupts have the name that an interface had when the driver found the device, whatever it is
    /// called since.
    pub is_named_at_probe: bool,
    /// True if one interrupt brings the packets of every receive queue although its name is not [`IrqNumber::All`].
    pub has_one_irq: bool,
    /// True if it spreads its interrupts again when a CPU goes offline or comes online.
    pub spreads_irqs_on_hotplug: bool,
    /// True if it keeps its interrupts where they are (`IRQ_NO_BALANCING`): the kernel refuses to move them.
    pub pins_irqs: bool,
    /// True if channels of VMBus without a numbered interrupt signal its packets.
    pub has_vmbus_channels: bool,
    /// False if it does not report which queue a packet came from (`skb_record_rx_queue`). The kernel then applies the RPS
    /// mask and the RFS table of rx-0 to the packets of every queue (`get_rps_cpu` in net/core/dev.c).
    pub records_queue: bool,
    /// True if its interfaces count what the device forwards by itself as well: how many packets come to a CPU is not counted.
    pub counts_forwarded: bool,
    /// True if sysfs may show more queues than channels, none of which receives: of all others, each may.
    pub has_spare_queues: bool,
    /// Statistics of a receive queue, those of newer versions first.
    pub statistics: &'static [QueueNames],
    /// Some names of its statistics with one receive queue, and what they count of the queue.
    pub statistics_example: &'static [(&'static str, Option<Counted>)],
    /// Statistics of packets that a limit of the host delayed or dropped.
    pub limits: &'static [(&'static str, Limit)],
    /// Receive queues that the RSS table can name, if fewer than the device may have.
    pub rss_queues: Option<RssQueues>,
    /// False if the device has no RSS, unless it reports a table: it chooses the queue by traffic class, stream or rule, and
    /// flows in one class stay on one queue.
    pub spreads_flows: bool,
    /// The RSS hash.
    pub hash: Hash,
    /// True if it steers flows to their readers (accelerated RFS: `ndo_rx_flow_steer`).
    pub has_arfs: bool,
    /// True if the device samples what it sends to steer TCP flows (Flow Director's ATR), without ntuple rules.
    pub has_atr: bool,
    /// True if its list of flow rules may also have those of accelerated RFS, which come and go with the traffic.
    pub lists_arfs: bool,
    /// Changes that delete the flow rules which users have made.
    pub deletes_rules: RuleLoss,
    /// True if another size of rings resets the RSS table and its key.
    pub rings_reset_rss: bool,
    /// A change of the number of queues.
    pub channels: Channels,
    /// Interrupt moderation.
    pub moderation: Moderation,
    /// Files below `drivers/net` of the kernel with the functions that the row was read from, or another source.
    pub sources: &'static [&'static str],
}

/// Interfaces of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A device, physical or emulated.
    Device,
    /// Virtual functions only: in a guest nothing else identifies these.
    VirtualFunction,
    /// A device of a hypervisor.
    Paravirtual {
        /// True if its hypervisors offer virtual functions as well.
        has_virtual_functions: bool,
    },
    /// One end of a pair of virtual interfaces, of which a machine may have hundreds.
    Pair,
    /// A master of a paravirtual device and a virtual function. sysfs shows the device and the driver of the former for
    /// it too.
    Failover,
}

/// Order of interrupts with the bare name of the interface or of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// Nothing says which of several is a queue's.
    Unordered,
    /// Those of the receive queues come first, in their order.
    QueuesFirst,
    /// That of the only receive queue is the last of at most two.
    QueueLast,
    /// The first serves every receive queue.
    FirstForAll,
    /// Even one alone may be that of errors, because packets come by the interrupt of another device.
    MayBeOfErrors,
}

/// The name of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrqName {
    /// A name as in `/proc/interrupts`, without a PCI address behind an @.
    pub example: &'static str,
    /// End of the name, in which `#` is a number; two numbers are the first and the last queue of an interrupt. Without a
    /// number, the name has none.
    pub ending: &'static str,
    /// Meaning of the number.
    pub number: IrqNumber,
}

/// Meaning of the number in the name of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrqNumber {
    /// A receive queue, counted from this number.
    Receive(u32),
    /// A transmit queue, counted from this number; its interrupt serves nothing else.
    Transmit(u32),
    /// A receive queue, counted from the lowest number of all.
    FromLowest,
    /// Interrupts with a receive queue, counted from any number in any steps. The n-th is that of the n-th queue if there
    /// are as many as queues; otherwise some poll several, and the name does not say which.
    Order,
    /// A receive queue, counted from 0. Further queues begin again with the first of the interrupts.
    Cyclic,
    /// One of the blocks of which the first half are transmit queues, and the second half receive queues.
    Block,
    /// Every receive queue, whether the name has a number or not.
    All,
    /// A queue, but not the one of this number.
    Unclear,
    /// No receive queue: the link, errors, or transmit queues that the number does not identify.
    NoQueue,
}

/// The RSS hash of a driver's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash {
    /// False if the hash differs from the Toeplitz hash that the driver reports.
    pub is_toeplitz: bool,
    /// True if older kernels do not report that the hash is symmetric.
    pub hides_symmetry: bool,
    /// False if the driver passes each hash on as one without ports: the kernel then computes its own.
    pub has_ports: bool,
    /// True if older kernels report a default table that the device does not have.
    pub may_lack_table: bool,
}

/// A limit that the host sets to the traffic of a virtual machine or of one of its interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Received bytes/s.
    BytesIn,
    /// Sent bytes/s.
    BytesOut,
    /// Packets/s.
    Packets,
    /// Received packets or bytes/s.
    RateIn,
    /// Sent packets or bytes/s.
    RateOut,
    /// Connections that the host tracks for its firewall.
    Connections,
    /// Packets/s to services of the host, such as its name server.
    Services,
}

/// Attributes of `qstats-get` for packets over a rate limit, whatever the driver, with the limit.
pub const QUEUE_LIMITS: [(&str, Limit); 2] =
    [("rx-hw-drop-ratelimits", Limit::RateIn), ("tx-hw-drop-ratelimits", Limit::RateOut)];

/// The limit that a statistic is about; `None` for other statistics.
pub fn limit(driver: Option<&str>, statistic: &str) -> Option<Limit> {
    let all = facts(driver).limits.iter().chain(&QUEUE_LIMITS);
    all.clone().find(|(name, _)| *name == statistic).map(|(_, limit)| *limit)
}

/// Effects of a change of the number of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// True if the driver reports its channels and changes none: it has `get_channels`, and no `set_channels`.
    pub are_fixed: bool,
    /// True if queues come and go while the link stays; others close the device and open it again.
    pub keep_link: bool,
    /// Numbers of queues that the driver accepts while an XDP program is attached to it.
    pub xdp: XdpQueues,
}

/// Changes with which a driver deletes the flow rules of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleLoss {
    /// Of the number of queues, which then deletes RSS contexts too.
    pub channels: bool,
    /// Of the RSS table or of its key.
    pub rss: bool,
    /// Of the sizes of rings.
    pub rings: bool,
    /// Of hardware GRO.
    pub gro_hw: bool,
}

/// Numbers of queues that a driver accepts while an XDP program is attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpQueues {
    /// As many as without, as far as is known.
    Free,
    /// Half of the maximum: the program sends through the others.
    Half,
    /// No other than the current one.
    Fixed,
}

/// Receive queues that the RSS table of some devices of a driver can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RssQueues {
    /// The first ones, so many.
    pub queues: usize,
    /// Entries of the table of these devices; the others have more.
    pub entries: usize,
}

/// Interrupt moderation of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moderation {
    /// Values of `rx-usecs` that mean "adaptive".
    pub adaptive_usecs: &'static [u32],
    /// True if devices space interrupts and do not delay the first one: at a low rate nothing waits.
    pub only_spaces: bool,
    /// True if the driver reports moderation for devices without it.
    pub may_be_missing: bool,
    /// True if a change of the delay may reset the link.
    pub resets_link: bool,
}

const KEEPS_RULES: RuleLoss = RuleLoss { channels: false, rss: false, rings: false, gro_hw: false };

/// A driver without peculiarities.
const UNKNOWN: Driver = Driver {
    names: &[],
    kind: Kind::Device,
    irqs: &[],
    bare: Bare::Unordered,
    shares_irqs: false,
    spans_functions: false,
    portals: &[],
    is_named_at_probe: false,
    has_one_irq: false,
    spreads_irqs_on_hotplug: false,
    pins_irqs: false,
    has_vmbus_channels: false,
    records_queue: true,
    counts_forwarded: false,
    has_spare_queues: false,
    statistics: &[],
    statistics_example: &[],
    limits: &[],
    rss_queues: None,
    spreads_flows: true,
    hash: Hash { is_toeplitz: true, hides_symmetry: false, has_ports: true, may_lack_table: false },
    has_arfs: false,
    has_atr: false,
    lists_arfs: false,
    deletes_rules: KEEPS_RULES,
    rings_reset_rss: false,
    channels: Channels { are_fixed: false, keep_link: false, xdp: XdpQueues::Free },
    moderation: Moderation {
        adaptive_usecs: &[],
        only_spaces: false,
        may_be_missing: false,
        resets_link: false,
    },
    sources: &[],
};

/// The row of a driver; one without peculiarities for drivers without a row.
pub fn facts(driver: Option<&str>) -> &'static Driver {
    static OTHER: Driver = UNKNOWN;
    // Most of thousands of interfaces have no driver.
    driver.and_then(row).unwrap_or(&OTHER)
}

/// The row of a driver, if it has one.
pub fn row(driver: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|row| row.names.contains(&driver))
}

/// First names of the drivers that `choose` accepts, in the order of the table.
pub fn names(choose: impl Fn(&Driver) -> bool) -> Vec<&'static str> {
    DRIVERS.iter().filter(|row| choose(row)).filter_map(|row| row.names.first().copied()).collect()
}

/// True if an interrupt's name has the form that some driver gives to those of its queues. A bare number behind a dash says
/// nothing.
pub fn names_a_queue(action: &str) -> bool {
    let name = action.split('@').next().unwrap_or(action);
    let forms = DRIVERS.iter().flat_map(|row| row.irqs);
    let mut forms = forms.filter(|form| form.ending != "-#" && form.number != IrqNumber::NoQueue);
    forms.any(|form| form.numbers_in(name).is_some())
}

/// Statistics to try for a driver: its own, then those of the others.
pub fn statistics(driver: Option<&str>) -> impl Iterator<Item = &'static QueueNames> {
    static ALL: LazyLock<Vec<&QueueNames>> = LazyLock::new(|| {
        let mut all: Vec<&QueueNames> = Vec::new();
        for names in DRIVERS.iter().flat_map(|row| row.statistics) {
            if !all.contains(&names) {
                all.push(names);
            }
        }
        all
    });
    facts(driver).statistics.iter().chain(ALL.iter().copied())
}

impl Driver {
    /// True if one interrupt brings the packets of every receive queue, however many there are.
    pub fn has_one_irq_for_all(&self) -> bool {
        let is_for_one =
            |number| !matches!(number, IrqNumber::All | IrqNumber::NoQueue | IrqNumber::Transmit(_));
        self.has_one_irq
            || self.bare == Bare::FirstForAll
            || self.irqs.iter().any(|name| name.number == IrqNumber::All)
                && !self.irqs.iter().any(|name| is_for_one(name.number))
    }

    /// True for the name of an interrupt that brings the packets of every receive queue.
    pub fn is_for_all(&self, action: &str) -> bool {
        let name = action.split('@').next().unwrap_or(action);
        let form = self.irqs.iter().find(|form| form.numbers_in(name).is_some());
        form.is_some_and(|form| form.number == IrqNumber::All)
    }

    /// True for the name of an interrupt that brings packets of every interface of the driver ([`Driver::portals`]).
    pub fn is_portal(&self, action: &str) -> bool {
        self.portals.iter().any(|portal| match portal.split_once('#') {
            None => action == *portal,
            Some((before, after)) => {
                let number = action.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
            }
        })
    }
}

/// A name without the number at its end, and that; empty without one.
pub(crate) fn split_number(name: &str) -> (&str, &str) {
    name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len())
}

impl IrqName {
    /// The first and the last number in a name that fits, mostly the same one, and 0 without any; `None` for other names.
    pub(crate) fn numbers_in(&self, name: &str) -> Option<(u32, u32)> {
        let mut parts = self.ending.rsplit('#');
        let mut rest = name.strip_suffix(parts.next()?)?;
        let mut numbers = Vec::new();
        for before in parts {
            let (start, digits) = split_number(rest);
            numbers.push(digits.parse().ok()?);
            rest = start.strip_suffix(before)?;
        }
        // The vectors of Flow Director and of control queues: i40e-0000:04:00.0:fdir-TxRx-0.
        if rest.ends_with(":fdir") || rest.ends_with(":ctrl") {
            return None;
        }
        Some((numbers.last().copied().unwrap_or_default(), numbers.first().copied().unwrap_or_default()))
    }
}
