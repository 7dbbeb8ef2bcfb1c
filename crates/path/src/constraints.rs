//! What may not be done with the parts of a machine: the one list that policies, values of a user, `apply` and remedies
//! ask.
//!
//! A constraint has an object, its reason as one sentence, and the source of the fact. Some CPUs are reserved: nothing
//! may be sent there. Others are only left alone by plans, which choose; a user may still name them.

use std::fmt;

use rxlab_base::number::cpus_text;
use rxlab_base::parse::XdpMode;
use rxlab_base::parse::ethtool::{ChannelKind, Channels};
use rxlab_base::units::{CpuMask, Fact, IrqId, NicName};

use crate::drivers::XdpQueues;
use crate::model::{Irq, Model, Nic, NicKind, Rates};

/// Part of a machine that has a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// Receive work on these CPUs: interrupts and masks.
    Cpus(CpuMask),
    /// Further interrupts on these CPUs.
    Vectors(CpuMask),
    /// The CPUs of an interrupt.
    Irq(IrqId),
    /// The number of receive queues of an interface, if it is set to more than this.
    Queues {
        /// The interface.
        nic: NicName,
        /// Most queues that it may have.
        most: u32,
    },
}

/// Who is bound by a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binds {
    /// Plans and remedies: they choose, and choose something else. The kernel refuses a user who asks for it, or the
    /// user knows better.
    Plans,
    /// Everything that writes.
    Everyone,
}

/// Something that may not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// What it is about.
    pub object: Object,
    /// Who has to keep it.
    pub binds: Binds,
    /// The reason: of CPUs, the end of a sentence about them, otherwise a sentence without a period.
    why: String,
    /// Where the fact was read.
    pub source: &'static str,
}

/// One sentence without a period: `CPU 3 is isolated at boot (isolcpus=)`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Object::Cpus(cpus) => {
                let is = if cpus.len() == 1 { "is" } else { "are" };
                write!(f, "{} {is} {}", cpus_text(cpus), self.why)
            }
            _ => f.write_str(&self.why),
        }
    }
}

impl Constraint {
    /// Its CPUs, if it is about receive work on some.
    fn cpus(&self) -> CpuMask {
        match &self.object {
            Object::Cpus(cpus) => cpus.clone(),
            _ => CpuMask::new(),
        }
    }

    /// The same about some of its CPUs; `None` if it is not about any of them.
    pub fn among(&self, cpus: &CpuMask) -> Option<Self> {
        let some = self.cpus().intersection(cpus);
        (!some.is_empty()).then(|| Self { object: Object::Cpus(some), ..self.clone() })
    }
}

/// Speed of a CPU, as a part of the fastest, below which it is a slow core.
const SLOW: f64 = 0.8;

/// Interrupts within the sample from which one that did not move will not.
const FIRED: f64 = 10.0;

/// Sets of online CPUs that take no receive work, each for one reason.
fn kept(model: &Model) -> Vec<Constraint> {
    use Binds::{Everyone, Plans};
    let online = model.online();
    let named = |fact: &Fact<CpuMask>| fact.known().cloned().unwrap_or_default();
    // A root group always has CPUs.
    let own = named(&model.settings.cpuset);
    let others = if own.is_empty() { own } else { online.difference(&own) };
    let all = [
        (model.isolated(), Everyone, "isolated at boot (isolcpus=)", "/sys/devices/system/cpu/isolated"),
        (
            named(&model.settings.cpuset_isolated),
            Everyone,
            "in an isolated partition of cpusets",
            "cpuset.cpus.isolated",
        ),
        (
            named(&model.settings.nohz_full),
            Everyone,
            "tickless (nohz_full=)",
            "/sys/devices/system/cpu/nohz_full",
        ),
        // In a container they may only be those of others.
        (
            others,
            Plans,
            "not in the root control group, like those of an exclusive cpuset",
            "cpuset.cpus.effective",
        ),
        (named(&model.settings.cpuset_exclusive), Plans, "in an exclusive cpuset", "cpuset.cpu_exclusive"),
        (
            left_by_irqbalance(model),
            Plans,
            "banned in irqbalance",
            "irqbalance's socket, environment or configuration",
        ),
    ];
    let kept = all.into_iter().map(|(cpus, binds, why, source)| Constraint {
        object: Object::Cpus(cpus.intersection(&online)),
        binds,
        why: why.to_owned(),
        source,
    });
    kept.filter(|kept| !kept.cpus().is_empty()).collect()
}

/// CPUs that irqbalance is told to leave, without those to which an interrupt was pinned by hand: often they are banned so that
/// it is alone there. None if all are: that is a way to switch irqbalance off.
fn left_by_irqbalance(model: &Model) -> CpuMask {
    let Fact::Known(Some(irqbalance)) = &model.irqbalance else { return CpuMask::new() };
    let is_some = |banned: &&CpuMask| !model.online().difference(banned).is_empty();
    let Some(banned) = irqbalance.banned_cpus.known().filter(is_some) else { return CpuMask::new() };
    let pinned = irqs(model).filter_map(|irq| irq.affinity.known()).filter(|mask| mask.len() == 1);
    pinned.fold(banned.clone(), |left, mask| left.difference(mask))
}

/// CPUs that may take receive work.
pub(crate) fn usable(model: &Model) -> CpuMask {
    let kept = kept(model);
    let without = |binds: Binds| {
        let cpus = kept.iter().filter(|kept| kept.binds >= binds);
        cpus.fold(model.online(), |left, kept| left.difference(&kept.cpus()))
    };
    Some(without(Binds::Plans)).filter(|left| !left.is_empty()).unwrap_or_else(|| without(Binds::Everyone))
}

/// CPUs that are clearly slower than others of the machine: plans use them only where no other is left.
pub fn slow(model: &Model) -> CpuMask {
    let fastest = model.cpus.iter().filter_map(|cpu| cpu.capacity).max().unwrap_or_default();
    let is_slow = |capacity: u32| f64::from(capacity) < f64::from(fastest) * SLOW;
    model.cpus.iter().filter(|cpu| cpu.capacity.is_some_and(is_slow)).map(|cpu| cpu.id).collect()
}

/// The queues of an interface, or why their number may not be changed.
pub fn changeable_queues<'m>(model: &Model, nic: &'m Nic) -> Result<&'m Channels, String> {
    let name = &nic.name;
    // New queues get new interrupts, and the CPUs of the old ones have to be known to be set again.
    if model.unknown_interrupts(nic).is_some() {
        return Err(format!("the interrupts of {name} are unknown, so their CPUs could not be restored"));
    }
    if model.unknown_napis().is_some() {
        return Err(format!("the NAPIs of {name} are unknown, so their settings could not be restored"));
    }
    if let Some(why) = fixed(nic).or_else(|| fixed_by_xdp(nic)).or_else(|| separate(nic)) {
        return Err(why);
    }
    let channels = nic.hardware.channels.known();
    channels.ok_or_else(|| format!("{name} does not report its numbers of queues"))
}

/// The XDP program's hold on the queues of an interface.
fn xdp_queues(nic: &Nic) -> XdpQueues {
    let in_driver = nic.xdp.as_ref().is_some_and(|xdp| xdp.mode == XdpMode::Driver);
    if in_driver { nic.driver_facts().channels.xdp } else { XdpQueues::Free }
}

fn fixed_by_xdp(nic: &Nic) -> Option<String> {
    let why = || format!("{} keeps the number of queues while XDP is attached to {}", driver(nic), nic.name);
    (xdp_queues(nic) == XdpQueues::Fixed).then(why)
}

fn fixed(nic: &Nic) -> Option<String> {
    let is_fixed = nic.driver_facts().channels.are_fixed;
    is_fixed.then(|| format!("{} cannot change the number of queues of {}", driver(nic), nic.name))
}

/// fbnic, bnxt and ionic refuse combined channels next to those for one direction (their `set_channels`).
fn separate(nic: &Nic) -> Option<String> {
    let channels = nic.hardware.channels.known()?;
    let is_separate = channels.combined?.now == 0 && channels.rx?.now > 0;
    let why = || {
        format!("{} has separate queues for RX and TX, and may refuse combined ones next to them", nic.name)
    };
    is_separate.then(why)
}

/// True if one interrupt brings the packets of all receive queues, and would bring those of more.
fn has_one_irq(nic: &Nic) -> bool {
    let mut irqs = nic.rx.iter().flat_map(|queue| &queue.irqs).flat_map(Irq::actions);
    nic.driver_facts().has_one_irq_for_all() || irqs.any(|action| nic.driver_facts().is_for_all(action))
}

fn driver(nic: &Nic) -> &str {
    nic.driver.as_deref().unwrap_or("the driver")
}

/// The kind of channels that receive, their number, and the most that are of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimit {
    /// Combined channels if the device may have any, unless its queues are separate ones.
    pub kind: ChannelKind,
    /// Current number.
    pub now: u32,
    /// Most that help: those that the device has, or fewer for `why`.
    pub most: u32,
    /// The reason if it is fewer than the device has.
    pub why: Option<String>,
}

/// The limit of the number of receive queues; `None` if the device does not report any.
pub fn queue_limit(nic: &Nic) -> Option<QueueLimit> {
    let channels = nic.hardware.channels.known()?;
    let separate = separate(nic);
    let is_combined = channels.combined.is_some() && separate.is_none();
    let kind = if is_combined { ChannelKind::Combined } else { ChannelKind::Rx };
    let count = channels.count(kind)?;
    let by_kind = separate.map(|why| (count.now, why));
    let name = &nic.name;
    let by_rss = rss_reach(nic).map(|queues| {
        let reached = u32::try_from(queues).unwrap_or(u32::MAX);
        (reached, format!("RSS of {name} reaches {queues} queues at most"))
    });
    let half = count.max / 2;
    let by_half = (xdp_queues(nic) == XdpQueues::Half).then(|| {
        (half, format!("{} allows {half} queues at most while XDP is attached to {name}", driver(nic)))
    });
    let by_xdp = by_half.or_else(|| fixed_by_xdp(nic).map(|why| (count.now, why)));
    let by_driver = fixed(nic).map(|why| (count.now, why));
    let by_irq = has_one_irq(nic).then(|| {
        (
            count.now,
            format!("one interrupt brings the packets of all queues of {name}: more would stay on its CPU"),
        )
    });
    let least = by_rss
        .into_iter()
        .chain(by_xdp)
        .chain(by_driver)
        .chain(by_irq)
        .chain(by_kind)
        .filter(|(most, _)| *most < count.max)
        .min();
    let (most, why) = least.map_or((count.max, None), |(most, why)| (most, Some(why)));
    Some(QueueLimit { kind, now: count.now, most, why })
}

/// True if the interface may get more receive queues, as far as is known.
pub fn has_more_queues(nic: &Nic) -> bool {
    fixed(nic).is_none() && queue_limit(nic).is_none_or(|limit| limit.most > limit.now)
}

/// Receive queues that RSS reaches, if the device may have more: its table names the first ones only. A larger table is that of a
/// later device of the driver, without this limit.
pub fn rss_reach(nic: &Nic) -> Option<usize> {
    let limit = nic.driver_facts().rss_queues?;
    let entries = nic.hardware.rss.known().map_or(0, |rss| rss.table.len());
    (entries <= limit.entries).then_some(limit.queues)
}

fn irqs(model: &Model) -> impl Iterator<Item = &Irq> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    devices.flat_map(|nic| nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs))
}

/// Interrupts that their controller cannot move: the kernel never noted a CPU for them. It complains about controllers that move an
/// interrupt without a note (`irq_validate_effective_affinity`).
fn immovable(model: &Model) -> impl Iterator<Item = &Irq> {
    irqs(model).filter(|irq| has_no_cpu(irq))
}

fn has_no_cpu(irq: &Irq) -> bool {
    irq.effective.known().is_some_and(CpuMask::is_empty)
}

/// True if an interrupt of an interface can be moved, as far as is known.
pub fn is_movable(nic: &Nic, irq: &Irq) -> bool {
    !has_no_cpu(irq) && !nic.driver_facts().pins_irqs
}

/// True if an interrupt was sent elsewhere and stays where it is although it fires.
pub fn is_stuck(irq: &Irq, rates: &Rates) -> bool {
    let (Some(sent), Some(lands)) = (irq.affinity.known(), irq.effective.known()) else { return false };
    if !irq.is_pending() {
        return false;
    }
    let counted = rates.irq(irq.number);
    let fired = |mask: &CpuMask| {
        let rates = counted.into_iter().flat_map(|counted| &counted.per_cpu);
        rates.filter(|(cpu, _)| mask.contains(**cpu)).map(|(_, rate)| rate).sum::<f64>()
    };
    fired(lands) * rates.seconds >= FIRED && fired(sent) == 0.0
}

/// CPUs without room for another interrupt, and an interrupt that shows it.
fn exhausted<'m>(model: &'m Model, rates: &Rates) -> Option<(CpuMask, &'m Irq)> {
    let mut stuck = irqs(model).filter(|irq| is_stuck(irq, rates)).peekable();
    let first = *stuck.peek()?;
    let sent = stuck.filter_map(|irq| irq.affinity.known());
    let full = sent.fold(CpuMask::new(), |all, mask| all.union(mask)).intersection(&model.online());
    (!full.is_empty()).then_some((full, first))
}

/// Everything that may not be done on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraints {
    list: Vec<Constraint>,
}

impl Constraints {
    /// The constraints of a machine at one moment.
    pub fn new(model: &Model) -> Self {
        let usable = usable(model);
        let of_cpus = kept(model).into_iter().filter(|kept| kept.cpus().intersection(&usable).is_empty());
        let of_irqs = immovable(model).map(|irq| Constraint {
            object: Object::Irq(irq.number),
            binds: Binds::Plans,
            why: format!("interrupt {} cannot be moved: the kernel reports no CPU for it", irq.number),
            source: "/proc/irq/N/effective_affinity",
        });
        let pinned = model.nics.iter().filter(|nic| nic.driver_facts().pins_irqs).flat_map(|nic| {
            let irqs = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
            irqs.map(|irq| Constraint {
                object: Object::Irq(irq.number),
                binds: Binds::Plans,
                why: format!(
                    "interrupt {} cannot be moved: {} pins those of {}",
                    irq.number,
                    driver(nic),
                    nic.name
                ),
                source: "the driver",
            })
        });
        let of_queues = model.nics.iter().filter_map(|nic| {
            let limit = queue_limit(nic)?;
            let object = Object::Queues { nic: nic.name.clone(), most: limit.most };
            Some(Constraint { object, binds: Binds::Plans, why: limit.why?, source: "the driver" })
        });
        Self { list: of_cpus.chain(of_irqs).chain(pinned).chain(of_queues).collect() }
    }

    /// The constraints that two moments show as well.
    pub fn measured(model: &Model, rates: &Rates) -> Self {
        let mut all = Self::new(model);
        all.list.extend(exhausted(model, rates).map(|(cpus, irq)| {
            let (sent, lands) = (irq.affinity.known(), irq.effective.known());
            let why = format!(
                "no interrupt vector is left on {}: interrupt {}, sent to {}, stays on {} although it fires",
                cpus_text(&cpus),
                irq.number,
                sent.map(cpus_text).unwrap_or_default(),
                lands.map(cpus_text).unwrap_or_default()
            );
            let object = Object::Vectors(cpus);
            Constraint {
                object,
                binds: Binds::Plans,
                why,
                source: "/proc/interrupts, /proc/irq/N/smp_affinity",
            }
        }));
        all
    }

    /// The constraint of CPUs without room for another interrupt, if there are some.
    pub fn without_vectors(&self) -> Option<&Constraint> {
        self.list.iter().find(|one| matches!(one.object, Object::Vectors(_)))
    }

    /// The constraints, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Constraint> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{Binds, Constraints, changeable_queues, queue_limit, slow, usable};
    use crate::model::Model;
    use crate::sketch::{Sketch, cpus};
    use rxlab_base::parse::ethtool::{ChannelKind, Channels, Count};
    use rxlab_base::units::{Fact, Need};

    /// A plan that apply refuses.
    #[test]
    fn queues_stay_while_interrupts_are_unknown() {
        let (mut model, _) = Sketch::new(4).device("eth0", &[0, 1]).build();
        model.nics[0].hardware.channels = Fact::Known(Channels::default());
        assert!(changeable_queues(&model, &model.nics[0]).is_ok());
        model.napis = Fact::Broken("too many open files".to_owned());
        let why = changeable_queues(&model, &model.nics[0]).expect_err("unknown");
        assert_eq!(why, "the NAPIs of eth0 are unknown, so their settings could not be restored");
        model.interrupts = Fact::Denied(Need::Root);
        let why = changeable_queues(&model, &model.nics[0]).expect_err("unknown");
        assert_eq!(why, "the interrupts of eth0 are unknown, so their CPUs could not be restored");
    }

    /// gianfar's `eth0_g0_rx` is of all queues of a group.
    #[test]
    fn more_queues_on_one_interrupt_are_of_no_use() {
        let limit = |driver: &str| {
            let (mut model, _) = Sketch::new(4).device("eth0", &[0]).queues_at_most("eth0", 4).build();
            model.nics[0].driver = Some(driver.to_owned());
            queue_limit(&model.nics[0]).map(|limit| (limit.most, limit.why.is_some()))
        };
        assert_eq!((limit("fsl-gianfar"), limit("igb")), (Some((1, true)), Some((4, false))));
        let one = ["cpsw", "rk_gmac-dwmac", "imx-dwmac"].map(limit);
        assert_eq!(one, [Some((1, true)); 3]);
    }

    /// enic has `get_channels` and no `set_channels`.
    #[test]
    fn queues_that_the_driver_cannot_change() {
        let (mut model, _) = Sketch::new(4).device("eth0", &[0]).queues_at_most("eth0", 4).build();
        model.nics[0].driver = Some("enic".to_owned());
        let why = "enic cannot change the number of queues of eth0";
        assert_eq!(changeable_queues(&model, &model.nics[0]).expect_err("fixed"), why);
        let limit = queue_limit(&model.nics[0]).expect("reported");
        assert_eq!((limit.most, limit.why.as_deref()), (1, Some(why)));
    }

    /// fbnic_set_channels refuses `rx 4 tx 4 combined 16`.
    #[test]
    fn separate_queues_get_no_combined_ones() {
        let (mut model, _) = Sketch::new(16).device("eth0", &[0, 1, 2, 3]).build();
        let limit = |model: &mut Model, one: u32, both: u32| {
            let (one, both) = (Some(Count { now: one, max: 64 }), Some(Count { now: both, max: 128 }));
            let channels = Channels { rx: one, tx: one, combined: both, other: None };
            model.nics[0].hardware.channels = Fact::Known(channels);
            let limit = queue_limit(&model.nics[0]).expect("reported");
            assert_eq!(changeable_queues(model, &model.nics[0]).err(), limit.why);
            (limit.kind, limit.now, limit.most)
        };
        assert_eq!(limit(&mut model, 4, 0), (ChannelKind::Rx, 4, 4));
        assert_eq!(limit(&mut model, 0, 4), (ChannelKind::Combined, 4, 128));
        assert_eq!(limit(&mut model, 2, 4), (ChannelKind::Combined, 4, 128), "ice has both");
    }

    /// mvpp2 sets IRQ_NO_BALANCING: a write to `smp_affinity` fails with EIO.
    #[test]
    fn what_the_driver_pins_is_not_moved() {
        let said = |driver: &str| -> Vec<String> {
            let (model, _) = Sketch::new(4).device("eth0", &[0, 1]).driver("eth0", driver).build();
            Constraints::new(&model).iter().map(ToString::to_string).collect()
        };
        let pinned = said("mvpp2");
        assert_eq!(pinned.len(), 2, "{pinned:?}");
        assert!(pinned[0].ends_with(" cannot be moved: mvpp2 pins those of eth0"), "{pinned:?}");
        assert_eq!(said("igb"), [""; 0]);
    }

    #[test]
    fn exclusive_cpusets_bind_plans_only() {
        let (mut model, _) = Sketch::new(8).build();
        model.settings.cpuset_exclusive = Fact::Known(cpus("2-5"));
        assert_eq!(usable(&model), cpus("0-1,6-7"));
        let said: Vec<String> = Constraints::new(&model).iter().map(ToString::to_string).collect();
        assert_eq!(said, ["CPUs 2-5 are in an exclusive cpuset"]);
        assert!(Constraints::new(&model).iter().all(|one| one.binds == Binds::Plans));
        model.settings.cpuset_exclusive = Fact::Known(cpus("0-7"));
        assert_eq!(usable(&model), cpus("0-7"), "none would be left");
    }

    /// RK3588: Cortex-A55 and A76.
    #[test]
    fn slow_cores_are_clearly_slower() {
        let with = |capacities: &[u32]| {
            let (mut model, _) = Sketch::new(4).build();
            for (cpu, capacity) in model.cpus.iter_mut().zip(capacities) {
                cpu.capacity = Some(*capacity);
            }
            slow(&model)
        };
        assert_eq!(with(&[530, 530, 1024, 1024]), cpus("0-1"));
        assert_eq!(with(&[1009, 1024, 1024, 1009]), cpus(""), "cores that boost a little less");
        assert_eq!(with(&[]), cpus(""), "unknown");
    }
}
