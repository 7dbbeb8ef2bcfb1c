//! Shares out the CPUs around interrupts to the queues that hand packets to them, for any number of
//! interfaces.
//!
//! The rules, from kernel documentation (networking/scaling) and field case C: CPUs of the memory domain of
//! the queue's interrupt, none that takes an interrupt while others are left for all, at high packet rates none of its
//! core, and none for two queues of two CPUs. Queues whose interrupts come to one CPU may have one mask if there are
//! fewer CPUs than queues: their work is that of one CPU. If there are fewer than such CPUs, the clearly hottest of
//! these hand packets on; if none is, and every CPU of the domain takes interrupts or is full of programs, those of other
//! domains are used. No packets are handed to a CPU that programs fill.

use super::machine::{Machine, TAKEN, is_busy, masked};
use super::topology::Domain;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::constraints::slow;
use rxlab_path::evidence::{DROWNING, irq_cpus, queue_packets};
use rxlab_path::model::{Holder, Nic, RxQueue};
use rxlab_setting::simulation::is_to_come;

/// Reason for no mask.
pub(super) const FEW: &str =
    "the CPU of the interrupt has time for the packets: handing them to another one only costs time";

/// Part of the hottest CPU's receive time up to which a CPU has room for a part of its packets.
const COOLER: f64 = 0.65;

/// Factor of the receive times above for a queue whose packets are handed on already: their estimates change with the masks.
const WHILE: f64 = 0.8;

/// Factor from which a CPU is clearly hotter than others.
const HOTTER: f64 = 1.1;

#[derive(Clone, Copy)]
pub(super) struct ShareOptions {
    /// Maximum number of CPUs that a queue hands packets to.
    pub(super) width: usize,
    /// Leaves out the other threads of a busy core even if its CPU is hot and nothing else is left.
    pub(super) whole_cores: bool,
    /// Masks in use of queues without a part count as chosen by hand: they stay.
    pub(super) by_hand: bool,
    /// Gives no part to queues that are not busy. Without it they are left out only where CPUs are too few for all.
    pub(super) busy_only: bool,
}

/// A queue and the CPUs that it should hand packets to.
pub(super) struct Part<'n> {
    pub(super) nic: &'n Nic,
    pub(super) queue: &'n RxQueue,
    /// Empty if there is no CPU for it.
    pub(super) mask: CpuMask,
    /// True if its current mask should stay: it is this one or a part of it, and no width was requested (fewer
    /// CPUs won in field case C), or the current masks of the group are as sound together as the new ones.
    pub(super) stays: bool,
    pub(super) why: String,
}

impl Part<'_> {
    /// The mask that its queue has once the part is given: the current one if that stays.
    pub(super) fn result(&self, stays: bool) -> &CpuMask {
        self.queue.rps_cpus.known().filter(|_| stays).unwrap_or(&self.mask)
    }
}

/// A queue before it gets its part.
#[derive(Clone)]
struct Unassigned<'a> {
    nic: &'a Nic,
    queue: &'a RxQueue,
    /// The CPU of its interrupt; the busiest if its mask applies to several queues.
    home: CpuId,
    /// True if its mask applies to packets of other CPUs' interrupts too.
    is_of_several: bool,
    /// The CPUs of all interrupts that bring the packets of its mask.
    irqs: CpuMask,
    /// Place of the first one's CPU among all: domain by domain, and in its domain.
    place: (usize, usize),
    /// Receive time that the interrupts of its CPU bring, those of other network namespaces included.
    brought: f64,
    is_busy: bool,
    /// True if they leave room for packets of others.
    has_room: bool,
}

impl<'a> Unassigned<'a> {
    /// True if the packets of both come to one CPU, and no others: one mask is enough for them.
    fn shares_with(&self, other: &Self) -> bool {
        self.home == other.home && !self.is_of_several && !other.is_of_several
    }

    /// Its current mask, if there is one.
    fn current(&self) -> Option<&CpuMask> {
        self.queue.rps_cpus.known().filter(|current| !current.is_empty())
    }

    /// True if handing its packets on relieves a CPU.
    fn is_hot(&self) -> bool {
        self.is_busy && !self.has_room
    }

    /// The program or device that takes its packets before the network stack.
    fn holder(&self) -> Option<Holder> {
        self.queue.held_by.filter(|holder| holder.bypasses_stack())
    }

    /// A queue whose packets are not steered: the empty mask.
    fn with_none(self) -> Part<'a> {
        let held = self.holder().map(|holder| format!("{holder} takes its packets before the stack"));
        let (mask, why) = (CpuMask::new(), held.unwrap_or_else(|| FEW.to_owned()));
        Part { nic: self.nic, queue: self.queue, mask, stays: false, why }
    }

    /// True if the current mask lacks some CPUs of `mask` and one that it has is drowning.
    fn is_short_of(&self, mask: &CpuMask, machine: &Machine<'_>) -> bool {
        self.current().is_some_and(|current| {
            !mask.difference(current).is_empty() && current.iter().any(|cpu| machine.load(cpu) >= DROWNING)
        })
    }
}

impl Machine<'_> {
    /// Returns a part for each mask of `nics`, those of one interface together, and the queues whose
    /// receiving CPU is not known.
    pub(super) fn share_out<'n>(
        &self,
        nics: &[&'n Nic],
        options: ShareOptions,
    ) -> (Vec<Part<'n>>, Vec<(&'n Nic, &'n RxQueue)>) {
        let (mut unassigned, homeless) = self.unassigned(nics);
        unassigned.sort_by_key(|unassigned| (unassigned.place, unassigned.is_of_several));
        let irqs = irqs(&unassigned);
        // CPUs for quiet queues would be missing for the hot ones.
        let some_hot =
            unassigned.iter().any(|unassigned| unassigned.is_hot() && unassigned.holder().is_none());
        let crowded = unassigned.iter().filter(|unassigned| !unassigned.has_room);
        let crowded: CpuMask = crowded.flat_map(|unassigned| unassigned.irqs.iter()).collect();
        let (without, unassigned): (Vec<_>, Vec<_>) = unassigned
            .into_iter()
            .partition(|unassigned| unassigned.holder().is_some() || some_hot && unassigned.has_room);
        let (others, taken, full) = (self.others(nics), self.taken(nics), self.full());
        let slow = slow(self.model);
        let mut given = CpuMask::new();
        let share = Share {
            around: None,
            irqs: &irqs,
            crowded: &crowded,
            given: &CpuMask::new(),
            others: &others,
            taken: &taken,
            full: &full,
            slow: &slow,
            options,
        };
        let mut parts: Vec<Part<'n>> = without.into_iter().map(Unassigned::with_none).collect();
        let mut alone: Vec<Unassigned<'_>> = Vec::new();
        let mut unassigned = unassigned.into_iter().peekable();
        for (at, domain) in self.topology.domains.iter().enumerate() {
            let mut group = Vec::new();
            while let Some(next) = unassigned.next_if(|next| next.place.0 == at) {
                group.push(next);
            }
            // A domain without another CPU than that of the interrupt does not count.
            let is_alone = domain.usable.len() < 2
                && domain.usable.iter().all(|cpu| group.iter().any(|unassigned| unassigned.home == *cpu));
            if is_alone {
                alone.extend(group);
            } else if !group.is_empty() {
                let around = Share { around: Some(domain), ..share }.divide(self, group.clone());
                // Where every CPU takes interrupts or is full of programs, and too many are hot, those of other domains are
                // nearer than none.
                let has_others = self.topology.domains.len() > 1;
                let is_full =
                    has_others && domain.usable.iter().all(|cpu| irqs.contains(*cpu) || full.contains(*cpu));
                if some_hot && is_full && around.iter().all(|part| part.mask.is_empty()) {
                    alone.extend(group);
                } else {
                    parts.extend(around);
                }
            }
        }
        if !alone.is_empty() {
            given = parts.iter().fold(given, |all, part: &Part<'_>| {
                let stays = part.stays || options.by_hand && part.mask.is_empty();
                all.union(part.result(stays))
            });
            parts.extend(Share { given: &given, ..share }.divide(self, alone));
        }
        parts.sort_by(|a, b| (&a.nic.name, a.queue.index).cmp(&(&b.nic.name, b.queue.index)));
        (parts, homeless)
    }

    fn unassigned<'n>(&self, nics: &[&'n Nic]) -> (Vec<Unassigned<'n>>, Vec<(&'n Nic, &'n RxQueue)>) {
        let (mut unassigned, mut homeless) = (Vec::new(), Vec::new());
        let mut brought = self.brought(|_, _| true);
        for (cpu, time) in self.foreign() {
            brought.entry(cpu).and_modify(|own| *own = own.max(time));
        }
        let hottest = brought.values().copied().fold(0.0, f64::max);
        for nic in nics.iter().copied() {
            for queue in nic.steering_queues() {
                let masked = masked(nic, queue);
                // A mask for all queues waits until the CPUs of new ones are known: it could contain them.
                if masked.len() > 1 && masked.iter().flat_map(|queue| &queue.irqs).any(is_to_come) {
                    homeless.push((nic, queue));
                    continue;
                }
                let time = |cpu: &CpuId| brought.get(cpu).copied();
                let homes = masked.iter().filter_map(|queue| self.home(queue));
                let is_of_several = homes.clone().collect::<CpuMask>().len() > 1;
                let home =
                    homes.rev().max_by(|a, b| time(a).unwrap_or(0.0).total_cmp(&time(b).unwrap_or(0.0)));
                let Some((home, place)) = home.and_then(|cpu| Some((cpu, self.topology.place(cpu)?))) else {
                    homeless.push((nic, queue));
                    continue;
                };
                let of_home = time(&home);
                let packets = masked.iter().map(|queue| queue_packets(nic, queue, self.rates)).sum();
                let is_steered = queue.rps_cpus.known().is_some_and(|mask| !mask.is_empty());
                let while_steered = if is_steered { WHILE } else { 1.0 };
                let is_busy = is_busy(of_home.map(|time| time / while_steered), packets);
                let least = TAKEN.max(hottest * COOLER) * while_steered;
                // What a busy queue hands on already, its CPU has no time for.
                let has_room = of_home.is_none_or(|time| time < least && !(is_steered && is_busy));
                let irqs = masked.iter().map(|queue| irq_cpus(queue, self.model, self.rates));
                let irqs = irqs.fold(home.into(), |all: CpuMask, one| all.union(&one));
                let brought = of_home.unwrap_or_default();
                unassigned.push(Unassigned {
                    nic,
                    queue,
                    home,
                    is_of_several,
                    irqs,
                    place,
                    brought,
                    is_busy,
                    has_room,
                });
            }
        }
        (unassigned, homeless)
    }
}

/// The CPUs of the interrupts of a group, in its order: one for all queues that may share a mask.
fn homes(group: &[Unassigned<'_>]) -> Vec<CpuId> {
    group.chunk_by(Unassigned::shares_with).map(|sharing| sharing[0].home).collect()
}

/// The CPUs of all interrupts that bring the packets of a group.
fn irqs(group: &[Unassigned<'_>]) -> CpuMask {
    group.iter().flat_map(|unassigned| unassigned.irqs.iter()).collect()
}

/// For each of these sets of queues that share a CPU: whether it is one of at most `most` that are hot and clearly hotter
/// than the others. Handing on the work of some of several equals would leave the others as hot.
fn hottest(sets: &[&[&Unassigned<'_>]], most: usize) -> Vec<bool> {
    let first = |at: usize| sets[at][0];
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by(|a, b| first(*b).brought.total_cmp(&first(*a).brought));
    let is_step = |at: &usize| {
        let (last, next) = (first(order[at - 1]), first(order[*at]));
        last.is_hot() && last.brought >= HOTTER * next.brought
    };
    let count = (1..=most.min(sets.len() - 1)).rev().find(is_step).unwrap_or(0);
    (0..sets.len()).map(|at| order[..count].contains(&at)).collect()
}

/// The CPUs available to one group of queues.
#[derive(Clone, Copy)]
struct Share<'a> {
    /// The CPUs of this domain, or all that are left.
    around: Option<&'a Domain>,
    /// CPUs that take the interrupts of any requesting queue.
    irqs: &'a CpuMask,
    /// Those of them without room for packets of others.
    crowded: &'a CpuMask,
    /// CPUs that are already given to others.
    given: &'a CpuMask,
    others: &'a CpuMask,
    /// Those of them that have no time for packets of others.
    taken: &'a CpuMask,
    /// CPUs that programs fill.
    full: &'a CpuMask,
    /// CPUs that are slower than others.
    slow: &'a CpuMask,
    options: ShareOptions,
}

impl Share<'_> {
    /// A part for each of `group`, which is in the order of its interrupts' CPUs; for the busy queues alone if
    /// there are not enough CPUs for all.
    fn divide<'n>(&self, machine: &Machine<'_>, group: Vec<Unassigned<'n>>) -> Vec<Part<'n>> {
        let some_busy = group.iter().any(|unassigned| unassigned.is_busy);
        let is_for_busy = self.options.busy_only || some_busy && self.is_scarce(machine, &group);
        if !is_for_busy {
            return self.of_all(machine, &group);
        }
        let (busy, calm): (Vec<_>, Vec<_>) = group.into_iter().partition(|unassigned| unassigned.is_busy);
        let mut parts = self.of_all(machine, &busy);
        parts.extend(calm.into_iter().map(Unassigned::with_none));
        parts
    }

    /// True if there are fewer CPUs than take the interrupts of this group, or fewer on other cores than theirs, but some.
    fn is_scarce(&self, machine: &Machine<'_>, group: &[Unassigned<'_>]) -> bool {
        let (free, homes) = (self.free(machine, self.irqs), homes(group).len());
        let cores = machine.topology.siblings(&irqs(group));
        let on_others = free.iter().filter(|cpu| !cores.contains(**cpu)).count();
        free.len() < homes || (1..homes).contains(&on_others)
    }

    /// The CPUs around that are not given and not among `taken`.
    fn free(&self, machine: &Machine<'_>, taken: &CpuMask) -> Vec<CpuId> {
        let all: Vec<CpuId> = match self.around {
            Some(domain) => domain.usable.clone(),
            None => machine.topology.in_order().collect(),
        };
        all.into_iter().filter(|cpu| !taken.contains(*cpu) && !self.given.contains(*cpu)).collect()
    }

    fn of_all<'n>(&self, machine: &Machine<'_>, group: &[Unassigned<'n>]) -> Vec<Part<'n>> {
        let topology = machine.topology;
        let homes = homes(group);
        let (mut free, mut without) = (self.free(machine, self.irqs), vec!["interrupts"]);
        if free.len() < homes.len() && group.iter().all(|unassigned| unassigned.is_busy) {
            free = self.free(machine, &self.crowded.union(&irqs(group)));
            without = vec!["busy interrupts"];
        }
        let threads = topology.siblings(&irqs(group));
        let cores =
            if group.iter().any(|unassigned| unassigned.is_busy) { threads.clone() } else { CpuMask::new() };
        const CORES: &str = "their cores";
        const PROGRAMS: &str = "busy programs";
        const SLOW: &str = "slow cores";
        let has_time = |cpu: &CpuId| !self.taken.contains(*cpu) && !self.full.contains(*cpu);
        for (what, name, must) in [
            (&cores, CORES, self.options.whole_cores),
            (self.taken, "busy interrupts of other or unknown interfaces", true),
            (self.full, PROGRAMS, true),
            (self.slow, SLOW, false),
            (self.others, "other interfaces' interrupts", false),
        ] {
            let needed = if free.len() >= group.len() { group.len() } else { homes.len() };
            let rest: Vec<CpuId> = free.iter().copied().filter(|cpu| !what.contains(*cpu)).collect();
            // Those that are left out next do not count.
            let left = rest.iter().filter(|cpu| has_time(cpu)).count();
            // Neither its own other thread nor a slow CPU is of help to a queue while others are free.
            // A slow core is of help to a busy queue only.
            let must = must
                || ([CORES, SLOW].contains(&name) && left > 0)
                || (name == SLOW && !group.iter().any(|unassigned| unassigned.is_busy));
            if rest.len() < free.len() && (must || left >= needed) {
                free = rest;
                without.push(name);
            }
        }
        // Without other CPUs, the other thread of a core is of help only if the first one has no time.
        let may_help = !self.options.whole_cores && group.iter().any(Unassigned::is_hot);
        if !may_help && !free.is_empty() && free.iter().all(|cpu| threads.contains(*cpu)) {
            free.clear();
            without.push(CORES);
        }
        let masks = self.masks(&group.iter().collect::<Vec<_>>(), &free);
        let some_short =
            group.iter().zip(&masks).any(|(unassigned, (mask, _))| unassigned.is_short_of(mask, machine));
        // Masks that are only sound together may overlap a new mask for one of the queues.
        let as_sound = !some_short && self.is_as_sound(group, &masks, &free);
        let place = match self.around.map(|domain| domain.node) {
            Some(Some(node)) => format!("the CPUs of node {node}"),
            Some(None) => "the CPUs".to_owned(),
            None => "the CPUs of other nodes".to_owned(),
        };
        let parts = group.iter().zip(masks).map(|(unassigned, (mask, is_shared))| {
            let without = without.join(" and ");
            let why = match (mask.is_empty(), is_shared) {
                (true, _) if free.is_empty() => {
                    format!("none of {place} is left to hand packets to, except those of {without}")
                }
                (true, _) => {
                    format!("{place} except those of {without} are fewer than those that hand packets on")
                }
                (false, _) if group.len() == 1 => format!("{place} except those of {without}"),
                (false, false) => format!("{place} except those of {without}, for this queue only"),
                (false, true) => {
                    format!("{place} except those of {without}, for the queues of CPU {}", unassigned.home)
                }
            };
            let has_part = unassigned.current().is_some_and(|current| match self.options.width {
                usize::MAX => current.difference(&mask).is_empty(),
                _ => *current == mask,
            });
            let stays = as_sound || (has_part && !unassigned.is_short_of(&mask, machine));
            Part { nic: unassigned.nic, queue: unassigned.queue, mask, stays, why }
        });
        parts.collect()
    }

    /// Equal parts of `free` for all queues, or for all CPUs that take their interrupts. If there are fewer CPUs than
    /// these, for the hottest of them: RPS would crowd the work of many CPUs onto few. Also returns if others have
    /// the same.
    fn masks(&self, group: &[&Unassigned<'_>], free: &[CpuId]) -> Vec<(CpuMask, bool)> {
        let part =
            |turn: usize, count: usize| &free[turn * free.len() / count..(turn + 1) * free.len() / count];
        let cut = |cpus: &[CpuId]| cpus.iter().copied().take(self.options.width).collect::<CpuMask>();
        if free.len() >= group.len() {
            return (0..group.len()).map(|turn| (cut(part(turn, group.len())), false)).collect();
        }
        let sets: Vec<&[&Unassigned<'_>]> = group.chunk_by(|a, b| a.shares_with(b)).collect();
        if free.len() < sets.len() {
            let hot = hottest(&sets, free.len());
            let is_hot =
                || sets.iter().zip(&hot).flat_map(|(set, is_hot)| set.iter().map(|one| (*one, *is_hot)));
            let of_hot: Vec<&Unassigned<'_>> = is_hot().filter(|(_, hot)| *hot).map(|(one, _)| one).collect();
            let mut masks = self.masks(&of_hot, free).into_iter();
            return is_hot()
                .map(|(_, hot)| hot.then(|| masks.next()).flatten().unwrap_or_default())
                .collect();
        }
        let mut masks = Vec::new();
        for (turn, set) in sets.iter().enumerate() {
            let of_home = part(turn, sets.len());
            let count = set.len();
            if of_home.len() >= count {
                masks.extend((0..count).map(|queue| {
                    let own = &of_home[queue * of_home.len() / count..(queue + 1) * of_home.len() / count];
                    (cut(own), false)
                }))
            } else {
                masks.extend((0..count).map(|_| (cut(of_home), true)))
            }
        }
        masks
    }

    /// True if the queues' current masks hold no forbidden CPU, and share none that the new ones do not
    /// share. Loads change with the masks themselves: sound masks must stay, or planning would never end.
    fn is_as_sound(&self, group: &[Unassigned<'_>], masks: &[(CpuMask, bool)], free: &[CpuId]) -> bool {
        let free: CpuMask = free.iter().copied().collect();
        let (mut seen, mut of_home) = (CpuMask::new(), CpuMask::new());
        for (at, (unassigned, (mask, is_shared))) in group.iter().zip(masks).enumerate() {
            let Some(current) = unassigned.current() else { return false };
            if at > 0 && !group[at - 1].shares_with(unassigned) {
                seen = seen.union(&of_home);
                of_home = CpuMask::new();
            }
            let twice = if *is_shared {
                !current.intersection(&seen).is_empty()
            } else {
                !current.intersection(&seen.union(&of_home)).is_empty()
            };
            let is_wide = self.options.width == usize::MAX || current.len() == mask.len();
            if twice || !is_wide || !current.difference(&free).is_empty() {
                return false;
            }
            of_home = of_home.union(current);
        }
        true
    }
}
