//! Predicted effect of any plan on the CPUs, by the costs of this host where they were measured.
//!
//! The model covers RPS masks, RFS tables and interrupts that move to one CPU. The prediction ignores other
//! settings, and says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cost::{basis, of_move};
use super::moves::{Move, Shares, Steering};
use super::prediction::{FIXED, predict};
use super::spread::{even, hottest, readers};
use super::step::rfs::has_flows;
use super::throughput::{Throughput, Traffic};
use crate::diagnose::{host_limit, is_alone_on_its_device, maybe_one_flow};
use rxlab_base::number::{count, plural};
use rxlab_base::units::{CpuId, CpuMask, Direction, IrqId, NicName, QueueId};
use rxlab_path::evidence::{
    TRAFFIC, arrival_cpus, busy, foreign, irq_cpus, is_quiet, may_come, queue_packets, rarely_interrupts,
    receiving, room,
};
use rxlab_path::model::{Fact, Model, Nic, NicKind, NicRates, Rates, RxQueue};
use rxlab_setting::Prediction;
use rxlab_setting::{Plan, PlannedSetting, Setting, Target, interrupts, set_of};

/// The prediction for `plan`, or why there is none.
pub fn forecast(model: &Model, rates: &Rates, plan: &Plan) -> Result<Prediction, String> {
    if let Some(why) = unpredictable(model, rates, plan) {
        return Err(why);
    }
    let asked = Asked::new(model, rates, plan);
    let nics = || model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    let traffic = nics().filter(|nic| asked.is_about(nic)).filter_map(|nic| rates.nic(&nic.name));
    let packets: f64 = traffic.map(NicRates::to_cpus).sum();
    if packets < TRAFFIC {
        return Err(format!("{} packets/s are too few to predict from", count(packets)));
    }
    let mut moves: Vec<Move> = nics().flat_map(|nic| asked.moves(nic)).collect();
    moves.extend(of_others(model, rates, &moves));
    let basis = measure(rates, &mut moves);
    let nothing = || format!("in the model it moves no receive work{}", in_brackets(&left_out(model, plan)));
    let mut prediction = predict(model, rates, &moves).ok_or_else(nothing)?.at(packets).rounded();
    prediction.basis = basis;
    prediction.left_out = left_out(model, plan);
    prediction.limit = nics().filter(|nic| asked.is_about(nic)).find_map(|nic| host_limit(rates, nic));
    Ok(match asked.throughput() {
        Some(then) => with_throughput(prediction, rates, then).rounded(),
        None => prediction,
    })
}

/// Adds the prediction, or a note why the plan is unpredictable.
pub(super) fn add_forecast(model: &Model, rates: &Rates, plan: &mut Plan) {
    plan.prediction = forecast(model, rates, plan).ok();
    let note = unpredictable(model, rates, plan).map(|why| format!("no prediction: {why}"));
    plan.notes.extend(note.filter(|note| !plan.notes.contains(note)));
}

/// The reason if a plan hands on the packets of a queue that may have a single large flow, which no mask splits, or moves one of
/// several queues whose shares of their packets are not known.
fn unpredictable(model: &Model, rates: &Rates, plan: &Plan) -> Option<String> {
    let of = |knobs: &'static [&str]| {
        let settings = plan.settings.iter().filter(move |planned| knobs.contains(&planned.set.knob.as_str()));
        settings.filter_map(|planned| model.nic(planned.set.target.nic()?))
    };
    let flow = of(&["rps", "rfs"]).find_map(|nic| {
        let queue = nic.rx.iter().find(|queue| is_alone_on_its_device(rates, nic, queue))?;
        Some(format!("{}, which stays on one CPU", maybe_one_flow(nic, queue)))
    });
    let is_unsure = |nic: &&Nic| {
        nic.rx.iter().any(|queue| rarely_interrupts(nic, queue, rates) && !is_quiet(nic, queue, rates))
    };
    let unsure = || {
        let name = &of(&["irq_affinity"]).find(is_unsure)?.name;
        Some(format!("{name} counts no packets by queue, and its interrupts differ too much for equal parts"))
    };
    flow.or_else(unsure)
}

/// The prediction with what is known of a sender whose packets are handed over: its other work grows with them.
fn with_throughput(mut prediction: Prediction, rates: &Rates, then: Throughput) -> Prediction {
    prediction.hottest_as_it_runs = rates.cpu(prediction.cpu).map_or(1.0, |cpu| room(busy(cpu)));
    prediction.headroom_before.hottest = prediction.hottest_as_it_runs;
    prediction.most_before = prediction.packets * prediction.headroom_before.fits();
    prediction.headroom_after.hottest = then.fits;
    prediction.most_after = prediction.packets * then.fits;
    prediction.rate = Some(then.rate);
    if let Some(range) = &mut prediction.range {
        // The shares of the work see a gain where the costs of a hand-over see a loss: then neither is known. A busy machine
        // makes hand-overs look dear while they are measured.
        let [low, high] = then.fits_range;
        let is_disputed = high < 1.0 && range.fits[1] >= 1.0;
        let fits = if is_disputed { [low, range.fits[1]] } else { then.fits_range };
        prediction.rate = prediction.rate.filter(|_| !is_disputed);
        (range.hottest, range.fits) = (fits, fits);
    }
    prediction.overfull = None;
    prediction
}

/// What interrupts of other network namespaces bring, and no plan moves: the packets of their CPUs that are not those of
/// `moves`.
fn of_others(model: &Model, rates: &Rates, moves: &[Move]) -> Vec<Move> {
    let own = |cpu: CpuId| {
        let here = |step: &Move| {
            if step.now.is_empty() {
                f64::from(u8::from(step.from == cpu))
            } else {
                step.now.iter().filter(|(to, _)| *to == cpu).map(|(_, part)| part).sum()
            }
        };
        moves.iter().map(|step| step.packets * here(step)).sum::<f64>()
    };
    let others = rates.cpus.iter().filter(|cpu| foreign(model, rates, cpu.cpu).is_some());
    let none: Steering = std::iter::empty().collect();
    let stays = others.map(|cpu| Move {
        kind: NicKind::Device,
        packets: (cpu.packets - own(cpu.cpu)).max(0.0),
        from: cpu.cpu,
        then: cpu.cpu,
        now: none.clone(),
        to: none.clone(),
        cost: None,
    });
    stays.collect()
}

fn in_brackets(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!(" ({})", lines.join("; ")) }
}

/// Adds the measured cost to each hand-over that begins. Returns the basis of predictions.
fn measure(rates: &Rates, moves: &mut [Move]) -> String {
    let times: BTreeMap<CpuId, f64> = rates.cpus.iter().map(|cpu| (cpu.cpu, receiving(cpu))).collect();
    let shares = Shares::new(times.clone(), moves);
    let measured = |step: &Move| {
        let time = times.get(&step.from).copied().unwrap_or_default();
        let begins = step.begins_to_steer();
        begins.then(|| of_move(step, time, shares.part(step), rates)).flatten()
    };
    let costs: Vec<_> = moves.iter().map(measured).collect();
    for (step, cost) in moves.iter_mut().zip(costs) {
        step.cost = cost;
    }
    let guessed = moves.iter().any(|step| step.begins_to_steer() && step.cost.is_none());
    let basis = if guessed && rates.costs.is_some() { FIXED.to_owned() } else { basis(rates) };
    if moves.iter().any(Move::is_resteered) {
        return basis + "; what a current mask already hands over is a rough guess";
    }
    basis
}

/// The plan's requests for queues.
struct Asked<'a> {
    model: &'a Model,
    rates: &'a Rates,
    /// The final value for each knob of a target.
    values: HashMap<(&'a Target, &'a str), &'a str>,
    /// Targets of interrupts: queues that share one move together, whichever of them it names.
    sent: HashMap<IrqId, &'a str>,
    /// Interfaces that it names.
    named: BTreeSet<&'a NicName>,
    /// True if there is a global table of flows, before and after.
    tables: [bool; 2],
    /// CPUs that the kernel keeps in a mask: it silently drops others.
    masks: CpuMask,
}

impl<'a> Asked<'a> {
    fn new(model: &'a Model, rates: &'a Rates, plan: &'a Plan) -> Self {
        let named = plan.settings.iter().filter_map(|planned| planned.set.target.nic()).collect();
        let value = |planned: &'a PlannedSetting| {
            ((&planned.set.target, planned.set.knob.as_str()), planned.set.value.as_str())
        };
        let values: HashMap<_, _> = plan.settings.iter().map(value).collect();
        let sends = |planned: &'a PlannedSetting| {
            let target = &planned.set.target;
            let nic = target.nic().filter(|_| planned.set.knob == "irq_affinity");
            let irqs = nic.and_then(|name| model.nic(name)).map(|nic| interrupts(nic, target));
            irqs.unwrap_or_default().into_iter().map(|irq| (irq.number, planned.set.value.as_str()))
        };
        let sent = plan.settings.iter().flat_map(sends).collect();
        let now = model.rps_sock_flow_entries.known().is_some_and(|entries| *entries > 0);
        let then = values.get(&(&Target::Host, "rfs_entries")).map_or(now, |text| has_table(text));
        let quiet = match &model.settings.nohz_full {
            Fact::Known(quiet) => model.isolated().union(quiet),
            _ => model.isolated(),
        };
        let masks = model.online().difference(&quiet);
        Self { model, rates, values, sent, named, tables: [now, then], masks }
    }

    /// True if the plan names the interface, or the global table changes and the interface has tables of its
    /// own.
    fn is_about(&self, nic: &Nic) -> bool {
        let [now, then] = self.tables;
        self.named.contains(&nic.name) || now != then && nic.rx.iter().any(has_flows)
    }

    /// Packets/s with the plan, if it is about one mask of one virtual interface only.
    fn throughput(&self) -> Option<Throughput> {
        let mut nics = self.named.iter().filter_map(|name| self.model.nic(name));
        let nic = nics.next().filter(|_| nics.next().is_none() && self.tables == [false; 2])?;
        let wanted = |queue: &RxQueue| {
            let target = Target::queue(&nic.name, QueueId::rx(queue.index));
            Some(set_of(self.values.get(&(&target, "rps"))?)?.intersection(&self.masks))
        };
        let masks: Vec<CpuMask> = nic.rx.iter().map(wanted).collect::<Option<_>>()?;
        let mask = masks.first().filter(|first| masks.iter().all(|mask| mask == *first))?;
        if self.values.len() > masks.len() {
            return None;
        }
        Traffic::new(self.model, self.rates, nic)?.with(mask)
    }

    /// The part of the packets of other devices at unknown CPUs that a CPU takes at most, with all of those that the plan is
    /// about.
    fn unknown_part(&self, cpu: CpuId) -> f64 {
        let devices = self.model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        let queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
        let (mut own, mut others) = (0.0, 0.0);
        for (nic, queue) in queues {
            let lands = arrival_cpus(queue, self.model, self.rates);
            let packets = queue_packets(nic, queue, self.rates);
            match lands.is_empty() {
                true if !self.is_about(nic) => others += packets,
                true => own += packets,
                false if lands.contains(cpu) => own += packets,
                false => {}
            }
        }
        let counted = self.rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
        ((counted - own) / others.max(1.0)).clamp(0.0, 1.0)
    }

    /// The work that the queues of an interface bring, wherever their interrupts land.
    fn moves(&self, nic: &Nic) -> Vec<Move> {
        let readers = readers(self.model, self.rates, nic);
        nic.rx.iter().flat_map(|queue| self.of_queue(nic, queue, readers.as_ref())).collect()
    }

    fn of_queue(&self, nic: &Nic, queue: &RxQueue, readers: Option<&Steering>) -> Vec<Move> {
        let mut homes: Vec<CpuId> = irq_cpus(queue, self.model, self.rates).iter().collect();
        if homes.is_empty() {
            homes.extend(queue.channel_cpu.filter(|cpu| self.model.cpu(*cpu).is_some_and(|cpu| cpu.online)));
        }
        let mut packets = queue_packets(nic, queue, self.rates);
        if homes.is_empty()
            && let Some(hot) = hottest(self.rates)
        {
            if self.is_about(nic) {
                homes.push(hot);
            } else if nic.kind == NicKind::Device
                && self.model.carriers(nic).is_empty()
                && may_come(self.model, self.rates, nic, queue, hot)
            {
                homes.push(hot);
                packets *= self.unknown_part(hot);
            }
        }
        let steers = nic.steering_queues().iter().find(|own| own.index == queue.index).or(nic.rx.first());
        let target = Target::queue(&nic.name, QueueId::rx(steers.map_or(queue.index, |own| own.index)));
        let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
        let wanted = self.values.get(&(&target, "rps")).copied().and_then(set_of);
        let wanted = wanted.map(|wanted| wanted.intersection(&self.masks)).unwrap_or_else(|| mask.clone());
        let [now, then] = self.tables;
        let steering = |flows: bool, mask: &CpuMask| match readers.filter(|_| flows) {
            // If the reader of a flow is known RFS decides, so the readers' CPUs get the work.
            Some(readers) => readers.clone(),
            None => even(mask),
        };
        let flows = self.values.get(&(&target, "rfs")).copied().map_or_else(|| has_flows(queue), has_table);
        let (now, to) = (steering(now && has_flows(queue), &mask), steering(then && flows, &wanted));
        let sent = queue.irqs.iter().find_map(|irq| self.sent.get(&irq.number).copied());
        let goes = sent.and_then(|cpus| goes_to(cpus, &homes));
        let packets = packets / homes.len().max(1) as f64;
        let of_home = |from: CpuId| Move {
            kind: nic.kind,
            packets,
            from,
            then: goes.unwrap_or(from),
            now: now.clone(),
            to: to.clone(),
            cost: None,
        };
        homes.into_iter().map(of_home).collect()
    }
}

fn has_table(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|entries| entries > 0)
}

/// The CPU that an interrupt goes to when it may go to `cpus` alone; `None` if it can stay, or if the kernel
/// chooses.
fn goes_to(cpus: &str, homes: &[CpuId]) -> Option<CpuId> {
    let cpus: CpuMask = cpus.parse().ok()?;
    let stays = homes.iter().all(|home| cpus.contains(*home));
    cpus.first().filter(|_| cpus.len() == 1 && !stays)
}

/// Settings that change which queue a packet goes to.
const QUEUE_CHOICE: [&str; 4] = ["channels", "rss", "rss_context", "ntuple_rule"];

/// The parts of the plan that are not in the model.
fn left_out(model: &Model, plan: &Plan) -> Vec<String> {
    let out: Vec<&PlannedSetting> =
        plan.settings.iter().filter(|planned| !in_model(model, &planned.set)).collect();
    let line = |what: &str, picks: &dyn Fn(&Setting) -> bool| {
        let mut knobs = BTreeMap::<&str, usize>::new();
        for planned in out.iter().filter(|planned| picks(&planned.set)) {
            *knobs.entry(&planned.set.knob).or_default() += 1;
        }
        let knobs: Vec<String> =
            knobs.iter().map(|(knob, times)| format!("{knob} ({})", plural(*times, "setting"))).collect();
        (!knobs.is_empty()).then(|| format!("{what}: {}", knobs.join(", ")))
    };
    let chooses = |set: &Setting| QUEUE_CHOICE.contains(&set.knob.as_str());
    let moves = |set: &Setting| set.knob == "irq_affinity" && is_receive(&set.target);
    let lines = [
        line("packets go to other queues", &chooses),
        line("the kernel chooses where interrupts go", &moves),
        line("other settings", &|set| !chooses(set) && !moves(set)),
    ];
    lines.into_iter().flatten().collect()
}

fn is_receive(target: &Target) -> bool {
    matches!(target, Target::Queue { queue, .. } if queue.direction == Direction::Rx)
}

fn in_model(model: &Model, set: &Setting) -> bool {
    let is_there = || match &set.target {
        Target::Queue { nic, queue } => {
            model.nic(nic).is_some_and(|nic| nic.rx.iter().any(|rx| rx.index == queue.index))
        }
        _ => true,
    };
    match set.knob.as_str() {
        "rps" | "rfs" | "rfs_entries" => is_there(),
        "irq_affinity" => {
            is_receive(&set.target)
                && is_there()
                && set.value.parse::<CpuMask>().is_ok_and(|cpus| cpus.len() == 1)
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "forecast/tests.rs"]
mod tests;
