//! Spreading receive work in software: RPS and RFS for one interface by the rules of `share`, each as a separate
//! plan so that each can be tried alone, and both together.
//!
//! Only queues whose values are not sound get a setting, so a machine that follows the plan gets none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::candidates::masks::best;
use super::candidates::seen;
use super::expected;
use super::forecast::add_forecast;
use super::machine::{HIGH_LOAD, Machine};
use super::moves::Steering;
use super::policy::{Variable, objection_to_masks};
use super::reason::Reason;
use super::share::{FEW, Part, ShareOptions};
use super::step::rfs;
use super::topology::CpuTopology;
use crate::diagnose::{Finding, before_steering, one_outer_flow, processing};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::{CpuId, CpuMask, NicName, QueueId};
use rxlab_path::constraints::slow;
use rxlab_path::evidence::{
    ORIGIN, TRAFFIC, arrival_cpus, by_threads, carrier, devices_account, foreign, is_redirected,
    may_be_foreign, may_come, of_device, queue_packets, rarely_interrupts, reach_every_cpu, receive_time,
};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::{Plan, PlannedSetting, Setting, Target, set_text, simulation};

/// A plan for an interface. In JSON it is the plan with one more field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proposal {
    /// The interface it is for.
    pub nic: NicName,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// Command that tries it on live traffic; filled in by doctor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Proposal {
    /// The plan's name, if the doctor may offer it.
    pub fn name(&self) -> Option<PlanName> {
        self.plan.name.parse().ok()
    }

    /// True if a finding refers to it.
    pub fn addresses(&self, finding: &Finding) -> bool {
        self.name().is_some_and(|name| finding.asks(&self.nic, name))
    }
}

/// Proposals, and the reasons for those that are missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// `rps`, `rfs` and `rps+rfs`, as far as they would change something.
    pub proposals: Vec<Proposal>,
    /// Reasons why a variable is left alone.
    pub reasons: Vec<Reason>,
}

impl Spread {
    fn nothing(reason: impl Into<Reason>) -> Self {
        Self { proposals: Vec::new(), reasons: vec![reason.into()] }
    }
}

/// Plans for `nic`, or for the interface that receives most, regardless of need: `diagnose` finds the need.
pub fn spread(model: &Model, rates: &Rates, nic: Option<&NicName>) -> Spread {
    let named = match nic {
        Some(name) => match model.nic(name) {
            Some(nic) => nic,
            None => return Spread::nothing(format!("no interface {name}")),
        },
        None => match busiest(model, rates) {
            Some(nic) => nic,
            None => {
                return Spread::nothing(
                    "no interface other than lo receives packets in this network namespace".to_owned(),
                );
            }
        },
    };
    let devices = below(model, named);
    let nic = devices.as_ref().and_then(|devices| most(devices, rates)).unwrap_or(named);
    let mut spread = of_nic(model, rates, nic, &[nic], usize::MAX);
    let masks = spread.proposals.iter().find(|proposal| proposal.name() == Some(PlanName::Rps));
    let objection = masks.and_then(|rps| objection_to_masks(model, rates, &nic.name, &rps.plan.settings));
    if let Some(why) = objection {
        spread.proposals.retain(|proposal| proposal.name() == Some(PlanName::Rfs));
        spread.reasons.push(Variable::Rps.because(format!("left alone: {why}")));
    }
    if let Some(devices) = devices {
        let note = stands_on(named, &devices);
        spread.proposals.iter_mut().for_each(|proposal| proposal.plan.notes.insert(0, note.clone()));
        spread.reasons.insert(0, note.into());
    }
    spread
}

/// Plans for `nic`, which is one of `nics`: these share out the CPUs, at most `width` for each queue.
pub(super) fn of_nic(model: &Model, rates: &Rates, nic: &Nic, nics: &[&Nic], width: usize) -> Spread {
    let topology = CpuTopology::new(model);
    let machine = Machine { model, rates, topology: &topology };
    if let Some(reason) = refusal(machine, nic) {
        return Spread::nothing(reason);
    }
    let nics: Vec<&Nic> = nics.iter().copied().filter(|nic| refusal(machine, nic).is_none()).collect();
    let (rps, without) = rps_settings(machine, nic, &nics, width);
    propose(model, rates, nic, rps, without)
}

/// Reason to leave RPS and RFS of an interface alone.
fn refusal(machine: Machine<'_>, nic: &Nic) -> Option<Reason> {
    let name = &nic.name;
    let usable = machine.topology.usable.len();
    if nic.kind == NicKind::Loopback {
        return Some(
            format!("{name} receives inside the sender's system call: steering it is refused").into(),
        );
    }
    if usable < 2 {
        return Some(Reason::Other("no second CPU to give work to".to_owned()));
    }
    if let Some(why) = unsteerable(machine.model, machine.rates, nic) {
        return Some(Variable::Rps.because(why));
    }
    if let Some(why) = idle(machine, nic) {
        return Some(why.into());
    }
    // Queues of a virtual interface are received where their packets are sent, however many there are.
    let is_redundant = nic.kind == NicKind::Device && machine.is_covered_by(nic);
    is_redundant
        .then(|| format!("{name} has {} RX queues for {usable} CPUs: RPS is redundant", nic.rx.len()).into())
}

/// Reason to begin with neither RPS nor RFS on an interface: it brings hardly any of the packets that this machine receives.
/// Without traffic, a plan is for the traffic to come.
fn idle(machine: Machine<'_>, nic: &Nic) -> Option<String> {
    let rates = machine.rates.nic(&nic.name).filter(|rates| !rates.counts_forwarded)?;
    let of_cpus = || machine.rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let all: f64 = if machine.rates.uncounted { machine.all_packets() } else { of_cpus() };
    let is_begun = rfs::is_handed_on(nic) || nic.rx.iter().any(rfs::has_flows);
    (rates.rx_packets < TRAFFIC && all >= TRAFFIC && !is_begun).then(|| {
        format!(
            "{} receives {} packets/s of {}: too few for RPS or RFS",
            nic.name,
            count(rates.rx_packets),
            count(all)
        )
    })
}

/// Reason to leave RPS and RFS alone on an interface of whatever kind: kernel threads poll its queues, its packets never
/// reach the network stack, they are one flow, or it is not known which of its packets are handed on already.
pub(super) fn unsteerable(model: &Model, rates: &Rates, nic: &Nic) -> Option<String> {
    if nic.napi.threaded.known() == Some(&true) {
        return Some(format!(
            "{} is polled by kernel threads (threaded NAPI), which the scheduler spreads: RPS stays as it is",
            nic.name
        ));
    }
    if let Some(cpu) = polled_on(model, rates, nic) {
        if rates.cpu(cpu).is_some_and(is_redirected) {
            return Some(format!(
                "an XDP program redirects packets of {} to CPU {cpu}, its own choice",
                nic.name
            ));
        }
        return Some(format!(
            "kernel threads receive packets of {} on CPU {cpu}: RPS does not move them, but their CPUs do",
            nic.name
        ));
    }
    let is_hidden = nic.steering_queues().iter().any(|queue| queue.rps_cpus.known().is_none());
    let hidden = || is_hidden.then(|| format!("a mask of {} cannot be read", nic.name));
    before_steering(nic, rates).or_else(|| one_outer_flow(model, rates, nic)).or_else(hidden)
}

/// The CPU that receives longest, if threads do it and the packets are those of `nic`. Drivers whose NAPIs belong to no
/// interface (mt76) poll by threads without `threaded` of one.
fn polled_on(model: &Model, rates: &Rates, nic: &Nic) -> Option<CpuId> {
    let (cpu, time) = expected::hottest(rates)?;
    let by_threads = time >= HIGH_LOAD && rates.cpu(cpu).is_some_and(by_threads);
    let (from, _) = carrier(model, rates, cpu).filter(|_| by_threads)?;
    (from.name == nic.name).then_some(cpu)
}

/// Links that receive in the same round as their lower device: RPS and RFS were already applied for that
/// device. So do paravirtual devices above a virtual function (netvsc_vf_handle_frame, net_failover_handle_frame).
const SAME_ROUND: [&str; 5] = ["bond", "team", "vlan", "macvlan", "ipvlan"];

/// The lower devices of an interface whose own masks have no effect, as far as they are in the model; `None`
/// for all others.
pub(super) fn below<'a>(model: &'a Model, nic: &Nic) -> Option<Vec<&'a Nic>> {
    let is_same_round = nic.kind == NicKind::Device
        || nic.stack.kind.as_deref().is_some_and(|kind| SAME_ROUND.contains(&kind));
    let mut devices = if is_same_round { model.carriers(nic) } else { Vec::new() };
    // A virtual function carries what the paravirtual device above it counts.
    devices.retain(|device| model.carriers(device).is_empty());
    Some(devices).filter(|devices| !devices.is_empty())
}

/// Note about the devices that stand in for an interface.
pub(super) fn stands_on(nic: &Nic, devices: &[&Nic]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    format!(
        "{} is a {} on {}: packets are handed over at the device, and masks above it have no effect",
        nic.name,
        nic.stack.kind.as_deref().unwrap_or("device"),
        names.join(", ")
    )
}

/// The interface to set where none is named: the busiest one, or the device below it that receives most if its own masks have
/// no effect. `None` if nothing receives.
pub fn default_nic<'a>(model: &'a Model, rates: &Rates) -> Option<&'a Nic> {
    let named = busiest(model, rates)?;
    let device = below(model, named).and_then(|devices| most(&devices, rates));
    Some(device.unwrap_or(named))
}

/// The device whose packets keep the hottest CPU busy, else the interface that receives most; the latter also if it stands
/// on the former, as a bond does. Never `lo`.
pub(super) fn busiest<'a>(model: &'a Model, rates: &Rates) -> Option<&'a Nic> {
    let nics: Vec<&Nic> = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback).collect();
    let most = most(&nics, rates).filter(|nic| rates.rx_packets(&nic.name) > 0.0);
    let hot = of_hot_cpu(model, rates).first().copied();
    let stands_on = |nic: &Nic| {
        let devices = below(model, nic).unwrap_or_default();
        devices.iter().any(|device| hot.is_some_and(|hot| hot.name == device.name))
    };
    most.filter(|most| stands_on(most)).or(hot).or(most)
}

/// The devices that bring packets to the CPU that receives longest, if that is busy, and no interrupt of another network
/// namespace may bring any; the one that brings most first. Those of interrupts at unknown CPUs count as far as no others explain
/// that CPU's packets.
pub(super) fn of_hot_cpu<'a>(model: &'a Model, rates: &Rates) -> Vec<&'a Nic> {
    let Some((hot, _)) = expected::hottest(rates).filter(|(_, time)| *time >= HIGH_LOAD) else {
        return Vec::new();
    };
    if !devices_account(model, rates) && may_be_foreign(model, rates, hot) {
        return Vec::new();
    }
    let lands = |queue: &RxQueue| arrival_cpus(queue, model, rates).contains(hot);
    let may_land = |nic: &Nic, queue: &RxQueue| {
        arrival_cpus(queue, model, rates).is_empty() && may_come(model, rates, nic, queue, hot)
    };
    // Packets that a mask hands on do not count where they arrive.
    let is_handed_on = |queue: &RxQueue| queue.rps_cpus.known().is_none_or(|mask| !mask.is_empty());
    let packets = |nic: &Nic, is_one: &dyn Fn(&RxQueue) -> bool| -> f64 {
        nic.rx.iter().filter(|queue| is_one(queue)).map(|queue| queue_packets(nic, queue, rates)).sum()
    };
    // A paravirtual device counts the packets of the virtual function below it.
    let devices =
        || model.nics.iter().filter(|nic| nic.kind == NicKind::Device && model.carriers(nic).is_empty());
    let all = rates.cpu(hot).map_or(0.0, |cpu| cpu.packets);
    let known = devices().map(|nic| packets(nic, &|queue| lands(queue) && !is_handed_on(queue)));
    let unexplained = (all - known.sum::<f64>()).max(0.0);
    let brings = |nic: &Nic| {
        let counted = packets(nic, &|queue| may_land(nic, queue) && !is_handed_on(queue));
        let others = packets(nic, &|queue| lands(queue) || may_land(nic, queue) && is_handed_on(queue));
        others + counted.min(unexplained)
    };
    let mut found: Vec<(&Nic, f64)> = devices().map(|nic| (nic, brings(nic))).collect();
    found.retain(|(_, packets)| *packets >= TRAFFIC && *packets >= all * ORIGIN);
    // Of equals, the first.
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.into_iter().map(|(nic, _)| nic).collect()
}

/// Of these, the one that receives most.
fn most<'a>(nics: &[&'a Nic], rates: &Rates) -> Option<&'a Nic> {
    // Reversed, so that the first of equals wins.
    let packets = |nic: &Nic| rates.rx_packets(&nic.name);
    nics.iter().copied().rev().max_by(|a, b| packets(a).total_cmp(&packets(b)))
}

/// Masks that an interface should have but does not, none if all are sound; and why a queue gets none, if one does not.
fn rps_settings(
    machine: Machine<'_>,
    nic: &Nic,
    nics: &[&Nic],
    width: usize,
) -> (Vec<PlannedSetting>, Option<String>) {
    // The other thread of a busy core is better than nothing here: a trial can tell.
    let options = ShareOptions { width, whole_cores: false, by_hand: true, busy_only: false };
    let (parts, homeless) = machine.share_out(nics, options);
    let (given, busy, slow) = (given(&parts), machine.taken(&[nic]), slow(machine.model));
    let usable = &machine.topology.usable;
    let mut masks: BTreeMap<u32, (CpuMask, String)> = BTreeMap::new();
    let is_only = parts.len() == 1;
    let without = parts.iter().filter(|part| part.nic.name == nic.name && part.mask.is_empty());
    // That of a hot queue rather than that of a quiet one.
    let without = without.min_by_key(|part| part.why == FEW).map(|part| part.why.clone());
    for Part { queue, mask, why, .. } in
        parts.into_iter().filter(|part| part.nic.name == nic.name && !part.stays)
    {
        let Some(current) = queue.rps_cpus.known() else { continue };
        if is_only && !mask.is_empty() && mask.difference(current).is_empty() {
            // A mask in use becomes smaller only if no CPU gets hotter than with all but the interrupt's.
            let homes = machine.homes(nic, queue);
            let home = machine.home(queue);
            let wider = home.and_then(|home| narrowed(current, home, &[&homes]));
            let wider = wider.filter(|wider| wider.difference(usable).is_empty());
            let most = |mask: &CpuMask| most_with(machine, nic, queue, mask);
            let keeps = wider.as_ref().unwrap_or(current);
            if most(&mask) <= most(keeps) || !keeps.difference(usable).is_empty() {
                masks.insert(queue.index, (mask, why));
            } else if let Some(wider) = wider {
                masks.insert(queue.index, (wider, OWN.to_owned()));
            }
        } else if !mask.is_empty() {
            masks.insert(queue.index, (mask, why));
        } else if let Some(home) = machine.home(queue)
            // Masks with unusable CPUs are not in use.
            && current.difference(usable).is_empty()
            && let Some(left) = narrowed(current, home, &[&machine.homes(nic, queue), &busy, &slow, &given])
        {
            masks.insert(queue.index, (left, OWN.to_owned()));
        }
    }
    let homeless = homeless.into_iter().filter(|(of, _)| of.name == nic.name).map(|(_, queue)| queue);
    let guessed = guessed(machine, nic, homeless, width).into_iter();
    masks.extend(guessed.map(|(queue, mask, why)| (queue, (mask, why))));
    let settings = masks.into_iter().map(|(queue, (mask, why))| {
        let set = Setting::new("rps", Target::queue(&nic.name, QueueId::rx(queue)), set_text(&mask));
        PlannedSetting::new(set, why, Some(nic.address.clone()))
    });
    (settings.collect(), without)
}

/// Masks for queues of an interface whose packets come to unknown CPUs, with the reason. A guess is worth a trial only where it may
/// relieve a busy CPU, and where no queue is left out that may be the busy one.
pub(super) fn guessed<'n>(
    machine: Machine<'_>,
    nic: &Nic,
    homeless: impl Iterator<Item = &'n RxQueue>,
    width: usize,
) -> Vec<(u32, CpuMask, String)> {
    let usable = &machine.topology.usable;
    let is_hot = of_hot_cpu(machine.model, machine.rates).first().is_some_and(|hot| hot.name == nic.name);
    let longest = expected::hottest(machine.rates).map(|(cpu, _)| cpu);
    let carrier = longest.and_then(|cpu| carrier(machine.model, machine.rates, cpu));
    let is_carrier = carrier.is_some_and(|(carrier, _)| carrier.name == nic.name);
    let are_readable = nic.steering_queues().iter().all(|queue| queue.rps_cpus.known().is_some());
    let is_device = nic.kind == NicKind::Device;
    if is_device && !(is_hot && are_readable && is_carrier) {
        return Vec::new();
    }
    let receiving = if is_device { of_device(nic, machine.rates) } else { receiving(machine, nic) };
    // The packets of a device are taken for those of the CPU that receives longest, whichever counts most.
    let hottest = if is_device { longest } else { hottest(machine.rates) };
    let hottest: CpuMask = hottest.into_iter().collect();
    let left_out = [&receiving, &hottest]
        .into_iter()
        .find(|cpus| !cpus.is_empty() && !usable.difference(cpus).is_empty());
    let left_out = left_out.unwrap_or(&hottest);
    let mut anywhere = usable.difference(left_out);
    let mut why = somewhere(nic, left_out, anywhere.len() > width);
    let free = anywhere.difference(&machine.taken(&[nic]));
    if !free.is_empty() && free != anywhere {
        (anywhere, why) = (free, why + ", and without CPUs that are busy with other or unknown packets");
    }
    let fast = anywhere.difference(&slow(machine.model));
    if !fast.is_empty() && fast != anywhere {
        (anywhere, why) = (fast, why + ", and without slow cores");
    }
    // Where the hottest CPU is of the device's node, the packets stay there.
    let domains = &machine.topology.domains;
    let own = domains.iter().find(|domain| nic.node.is_some() && domain.node == nic.node);
    let own = own.filter(|own| hottest.iter().any(|cpu| own.usable.contains(&cpu)) && domains.len() > 1);
    let near = own.map(|own| anywhere.intersection(&own.usable.iter().copied().collect()));
    if let Some(near) = near.filter(|near| !near.is_empty() && *near != anywhere) {
        (anywhere, why) = (near, why + ", of the device's node");
    }
    // Few CPUs may be better than all of them.
    if let Some(best) = best(machine.model, machine.rates, nic).filter(|best| best.len() <= width) {
        anywhere = best;
        why = "with these CPUs the most packets fit, by the costs of this host".to_owned();
    }
    // The default of the network namespace was chosen for all of its virtual interfaces.
    let default = machine.model.settings.rps_default_mask.known().filter(|_| !is_device);
    if let Some(default) = default.filter(|mask| !mask.is_empty() && mask.difference(usable).is_empty()) {
        (anywhere, why) = (default.clone(), "net.core.rps_default_mask, as on the other queues".to_owned());
    }
    let anywhere: Vec<CpuId> = anywhere.iter().collect();
    if anywhere.is_empty() {
        return Vec::new();
    }
    let mut masks = Vec::new();
    for (turn, queue) in homeless.enumerate() {
        let part = width.min(anywhere.len());
        let anywhere: CpuMask = anywhere.iter().cycle().skip(turn * part).take(part).copied().collect();
        // A mask of all CPUs but one, or of all, gains nothing from a change; one without a CPU that receives may have been
        // chosen because it is small, and one around an interrupt that cannot be seen may be right, unless all of the device's land on
        // one CPU of it.
        let is_sound = |current: &CpuMask| {
            let is_apart = !receiving.is_empty() && current.intersection(&receiving).is_empty();
            let least = if is_apart || is_device { 1 } else { part };
            (!is_device || is_apart || receiving.len() != 1)
                && current.difference(usable).is_empty()
                && (least..=width).contains(&current.len())
        };
        if queue.rps_cpus.known().is_some_and(|current| !is_sound(current)) {
            masks.push((queue.index, anywhere, why.clone()));
        }
    }
    masks
}

/// Receive time of the CPU that receives longest once a queue has this mask.
fn most_with(machine: Machine<'_>, nic: &Nic, queue: &RxQueue, mask: &CpuMask) -> f64 {
    let Machine { model, rates, topology } = machine;
    let mut after = model.clone();
    let target = Target::queue(&nic.name, QueueId::rx(queue.index));
    simulation::simulate(&mut after, &Setting::new("rps", target, set_text(mask)));
    let then = expected::Work::new(model, rates, topology).rates(&after, topology);
    expected::hottest(&then).map_or(0.0, |(_, time)| time)
}

/// CPUs that receive the packets of a virtual interface, as far as they are seen.
fn receiving(machine: Machine<'_>, nic: &Nic) -> CpuMask {
    if nic.kind != NicKind::Virtual {
        return CpuMask::new();
    }
    let readers = seen::readers(machine.model, machine.rates, nic);
    seen::receiving(machine.model, machine.rates, machine.topology, nic, &readers).into_iter().collect()
}

/// Reason for a mask that stays without the CPU of its interrupt.
pub(super) const OWN: &str =
    "removes the CPU of the interrupt, and those of other queues or slow ones, from the current mask";

/// A mask that stays in use, without the CPU of its interrupt, and without those of each of `avoided`, in this order, as far as that
/// leaves any; `None` if it has none of them.
pub(super) fn narrowed(mask: &CpuMask, home: CpuId, avoided: &[&CpuMask]) -> Option<CpuMask> {
    let narrow = |left: CpuMask, cpus: &&CpuMask| {
        let rest = left.difference(cpus);
        if rest.is_empty() { left } else { rest }
    };
    let left = avoided.iter().fold(mask.difference(&home.into()), narrow);
    (left != *mask).then_some(left)
}

/// The CPUs of the masks that queues get or keep as their parts.
pub(super) fn given(parts: &[Part<'_>]) -> CpuMask {
    let with_part = parts.iter().filter(|part| !part.mask.is_empty());
    with_part.fold(CpuMask::new(), |all, part| all.union(part.result(part.stays)))
}

/// Reason for handing the packets of a queue to these CPUs when it has no interrupt, or that is at an unknown CPU.
fn somewhere(nic: &Nic, left_out: &CpuMask, is_cut: bool) -> String {
    let interrupt = match nic.kind {
        NicKind::Device => "the interrupt's CPU is unknown",
        NicKind::Virtual | NicKind::Loopback => "no interrupt",
    };
    let cpus = if is_cut { "the requested number of CPUs" } else { "every CPU" };
    if left_out.is_empty() {
        return format!("{interrupt}: {cpus}");
    }
    let receives = if left_out.len() == 1 { "receives" } else { "receive" };
    format!("{interrupt}: {cpus}, without {}, which {receives} the packets now", cpus_text(left_out))
}

/// The CPU that does most of the receive work: by packets, which a short interval does not distort.
pub(super) fn hottest(rates: &Rates) -> Option<CpuId> {
    rates.hottest(|cpu| cpu.packets).or_else(|| rates.hottest(receive_time)).map(|(cpu, _)| cpu)
}

/// The reason to hand on no packets by guess, if it is unknown where the interrupts of a busy interface land: another may
/// bring those of the busiest CPU, or no CPU is busy enough.
fn unproven(model: &Model, rates: &Rates, nic: &Nic) -> Option<String> {
    let is_busy = rates.rx_packets(&nic.name) >= TRAFFIC;
    let is_hidden = nic.rx.iter().all(|queue| arrival_cpus(queue, model, rates).is_empty());
    let (hot, time) =
        expected::hottest(rates).filter(|_| is_busy && is_hidden && nic.kind == NicKind::Device)?;
    let other = foreign(model, rates, hot).filter(|_| !devices_account(model, rates));
    let reason = match other {
        Some((irq, _)) => format!(
            "and interrupt {} ({}) may bring CPU {hot} packets of another interface",
            irq.irq, irq.action
        ),
        None if time < HIGH_LOAD => format!(
            "and no CPU receives for {} of its time: below that a guess is not worth a trial",
            percent(HIGH_LOAD)
        ),
        None => match carrier(model, rates, hot) {
            Some((carrier, _)) if carrier.name == nic.name => return None,
            Some((carrier, _)) => format!("and it is {} that brings CPU {hot} its packets", carrier.name),
            None => format!("and it is not known which interface brings CPU {hot} its packets"),
        },
    };
    Some(format!("the interrupts of {} are unknown, {reason}", nic.name))
}

fn propose(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    rps: Vec<PlannedSetting>,
    without: Option<String>,
) -> Spread {
    let refused = rfs::refusal(model);
    let rfs = if refused.is_none() { rfs::settings(model, nic) } else { Vec::new() };
    let mut spread = Spread::default();
    let off = nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(CpuMask::is_empty));
    let is_uneven = || nic.rx.iter().any(|queue| rarely_interrupts(nic, queue, rates));
    let unmasked = || match unproven(model, rates, nic) {
        _ if !off => format!("the masks of {} need no change", nic.name),
        Some(why) => why,
        None if nic.is_steered_by_first() && reach_every_cpu(nic, model, rates) => format!(
            "{0}/rx-0 has the mask of all queues of {0}, and their interrupts land on every CPU",
            nic.name
        ),
        None if is_uneven() => format!(
            "{} counts no packets by queue, and its interrupts differ too much to tell which of its queues to hand on",
            nic.name
        ),
        None => {
            let why = without.as_deref().unwrap_or("no CPU has room for their packets");
            format!("no masks for the queues of {}: {why}", nic.name)
        }
    };
    spread.reasons.extend(rps.is_empty().then(|| Variable::Rps.because(unmasked())));
    spread.reasons.extend(rfs.is_empty().then(|| {
        Variable::Rfs.because(if let Some(why) = refused {
            why
        } else if rfs::are_readable(model, nic) {
            format!("the tables of {} are complete", nic.name)
        } else {
            "a table cannot be read (the global one is visible only in the initial network namespace)"
                .to_owned()
        })
    }));

    if !rps.is_empty() {
        spread.proposals.push(proposal(model, rates, nic, PlanName::Rps, rps.clone()));
    }
    if !rfs.is_empty() {
        spread.proposals.push(proposal(model, rates, nic, PlanName::Rfs, rfs.clone()));
        if !rps.is_empty() {
            spread.proposals.push(proposal(model, rates, nic, PlanName::RpsAndRfs, [rps, rfs].concat()));
        }
    }
    spread
}

fn proposal(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    name: PlanName,
    settings: Vec<PlannedSetting>,
) -> Proposal {
    let host = Some(model.identity.hostname.clone());
    let mut plan = Plan { host, settings, ..Plan::new(&name.to_string(), &[]) };
    if name != PlanName::Rps {
        plan.notes.push(
            "RFS follows the CPU that last read a connected socket: TCP, and UDP after connect(); other \
             UDP servers see no change"
                .to_owned(),
        );
    }
    add_forecast(model, rates, &mut plan);
    Proposal { nic: nic.name.clone(), plan, next: None }
}

pub(super) fn even(mask: &CpuMask) -> Steering {
    let part = 1.0 / mask.len() as f64;
    mask.iter().map(|cpu| (cpu, part)).collect()
}

/// CPUs where sockets are read, by the time that processes run: the best guess from rates. None for virtual
/// interfaces, as their senders run on this machine too.
pub(super) fn readers(model: &Model, rates: &Rates, nic: &Nic) -> Option<Steering> {
    if nic.kind != NicKind::Device {
        return None;
    }
    let online = model.online();
    let cpus = || rates.cpus.iter().filter(|cpu| online.contains(cpu.cpu));
    let total: f64 = cpus().map(processing).sum();
    (total > 0.0).then(|| cpus().map(|cpu| (cpu.cpu, processing(cpu) / total)).collect())
}

#[cfg(test)]
#[path = "spread/tests.rs"]
mod tests;
