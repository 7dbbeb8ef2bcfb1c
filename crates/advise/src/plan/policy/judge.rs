//! Plans judged by simulation before they are proposed: by the receive time of the busiest CPU, by what `diagnose`
//! says of the placement, and by what the next plan would change.

use std::collections::BTreeSet;

use super::{Drafted, Options, Policy, Variable};
use crate::diagnose::{Finding, about_placement};
use crate::plan::expected::{Most, Work, hottest, landed};
use crate::plan::machine::{HIGH_LOAD, INDISTINCT, Machine, grown, receive_work};
use crate::plan::reason::Reason;
use crate::plan::step::{SLACK, irqs};
use crate::plan::topology::CpuTopology;
use rxlab_base::number::percent;
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::evidence::{irq_cpus, queue_packets};
use rxlab_path::model::{Model, NicKind, Rates, RxQueue};
use rxlab_setting::{PlannedSetting, Target, simulation};

/// Variables that decide where receive work is done.
const PLACING: &[Variable] =
    &[Variable::Channels, Variable::Irq, Variable::Xps, Variable::Rps, Variable::Rfs];

/// Sets of these that are left out while the simulation objects, until it does not.
const LEFT_OUT: [&[Variable]; 7] = [
    &[Variable::Irq],
    &[Variable::Channels],
    &[Variable::Channels, Variable::Irq],
    &[Variable::Rps],
    &[Variable::Irq, Variable::Rps],
    &[Variable::Xps],
    PLACING,
];

/// Plans that are joined at most until the next one has no settings.
const JOINED: usize = 3;

/// Part of a CPU's receive time that is less than all of it: the rest is noise.
const LESS: f64 = 0.99;

/// Receive time of the busiest CPU below which it is not known well enough to tell if a plan lowers it.
const COUNTED: f64 = 0.02;

/// Error of times that are counted in ticks.
const ROUNDED: f64 = 0.005;

/// Part of the difference between what is expected of a CPU and the worst case that counts.
const UNSURE: f64 = 0.4;

/// Plans that check, one after the other, that a plan without restless variables leaves nothing to do.
const TURNS: usize = 2;

/// Reasons to leave a variable out of a joined plan.
const UNSTABLE: &str = "the next plan would change it again";
const UNCOUNTED: &str = "packets are not counted by queue, and the next plan could change it again";
const SHARED: &str = "a mask would contain the CPU of its own interrupt, or a CPU of another queue's mask";

/// Note about a plan that is made at any cost.
const AGAIN: &str = "packets are not counted by queue, so what each interrupt brings is estimated: plan again once this plan is applied";

/// A variable to leave out, and the reason.
type LeftOut = (Variable, String);

/// The first draft without objections, together with what the next plans would add to it. Variables that these would
/// change again and again are left out.
pub(super) fn settled(
    policy: Policy,
    seen: (&Model, &Rates),
    options: &Options,
    only: Option<&[Variable]>,
) -> Drafted {
    settled_in(TURNS, policy, seen, options, only)
}

/// The same, checked by this number of plans that follow it.
fn settled_in(
    turns: usize,
    policy: Policy,
    seen: (&Model, &Rates),
    options: &Options,
    only: Option<&[Variable]>,
) -> Drafted {
    let judge = Judge::new(policy, seen.1, options, only);
    let mut left_out: Vec<LeftOut> = Vec::new();
    loop {
        let variables: Vec<Variable> = left_out.iter().map(|(variable, _)| *variable).collect();
        let (mut drafted, mut new) = judge.joined(seen, &variables);
        new.retain(|(variable, _)| !variables.contains(variable));
        // The next plan does not know what this one left out, nor to what an objection was.
        let is_objected = || drafted.reasons.iter().any(|reason| matches!(reason, Reason::LeftAlone(..)));
        let has_new_queues = drafted.variables.contains(&Variable::Channels);
        let is_part = || is_objected() && !has_new_queues && !judge.is_bound(seen, &drafted);
        let is_checked =
            new.is_empty() && !drafted.settings.is_empty() && (!left_out.is_empty() || is_part());
        if let Some(turns) = turns.checked_sub(1).filter(|_| is_checked) {
            let (after, then) = simulated(seen, &drafted.settings);
            if !settled_in(turns, policy, (&after, &then), options, only).settings.is_empty() {
                let placing = PLACING.iter().filter(|variable| !variables.contains(variable));
                new.extend(placing.map(|variable| (*variable, UNSTABLE.to_owned())));
            }
        }
        if new.is_empty() && turns > 0 {
            if judge.is_bound(seen, &drafted) {
                drafted.notes.extend(is_estimated(seen, &drafted).then(|| AGAIN.to_owned()));
            } else if judge.is_restless(seen, &drafted) {
                // Those that new queues make room for come without them.
                let restless = if has_new_queues { &[Variable::Channels][..] } else { PLACING };
                let placing = restless.iter().filter(|variable| !variables.contains(variable));
                new.extend(placing.map(|variable| (*variable, UNCOUNTED.to_owned())));
            }
        }
        if new.is_empty() {
            for why in left_out.iter().map(|(_, why)| why).collect::<BTreeSet<_>>() {
                let own = left_out.iter().filter(|(_, own)| own == why).map(|(variable, _)| *variable);
                drafted.reasons.push(Reason::LeftAlone(own.collect(), why.clone()));
            }
            return drafted;
        }
        left_out.extend(new);
    }
}

/// Reason not to spread by masks alone.
pub(super) fn objection_to_masks(seen: (&Model, &Rates), masks: &[PlannedSetting]) -> Option<String> {
    let variables = vec![Variable::Rps];
    let drafted = Drafted { settings: masks.to_vec(), variables, ..Drafted::default() };
    Judge::new(Policy::Spread, seen.1, &Options::default(), None).objection(seen, &drafted)
}

/// A request, and how hot it may make a CPU.
struct Judge<'a> {
    policy: Policy,
    options: &'a Options,
    only: Option<&'a [Variable]>,
    /// Receive time of the busiest CPU before the first draft.
    busiest: f64,
    /// Receive time that the busiest CPU may have, after the first draft and after all that are joined.
    most: f64,
}

impl<'a> Judge<'a> {
    fn new(policy: Policy, rates: &Rates, options: &'a Options, only: Option<&'a [Variable]>) -> Self {
        let busiest = hottest(rates).map_or(0.0, |(_, time)| time);
        let slack = if policy == Policy::Spread { 1.0 } else { SLACK };
        // No slack beyond all of a CPU's time.
        let most = (busiest * slack).min(busiest.max(1.0)) + ROUNDED;
        Self { policy, options, only, busiest, most: most.max(HIGH_LOAD) }
    }

    /// A draft and those that follow it as one, and the variables that it should not have: those that the last one would
    /// still change, those of a next one to which the simulation of both objects, and masks that are not sound together.
    fn joined(&self, seen: (&Model, &Rates), left_out: &[Variable]) -> (Drafted, Vec<LeftOut>) {
        let mut drafted = self.unobjectionable(seen, left_out);
        for turn in 0..=JOINED {
            // Settings of new queues wait until the queues exist.
            if drafted.settings.is_empty() || drafted.variables.contains(&Variable::Channels) {
                break;
            }
            let (after, then) = simulated(seen, &drafted.settings);
            let next = self.unobjectionable((&after, &then), left_out);
            if next.settings.is_empty() {
                break;
            }
            let (mut both, more) = (drafted.clone(), next.variables.clone());
            both.join(next, seen.0);
            let restless = || (turn == JOINED).then(|| UNSTABLE.to_owned());
            if let Some(why) = self.objection(seen, &both).or_else(restless) {
                return (drafted, more.into_iter().map(|variable| (variable, why.clone())).collect());
            }
            drafted = both;
        }
        let is_unsound = !must_steer(seen.0, &drafted) && shares_cpus(seen, &drafted.settings);
        (drafted, is_unsound.then(|| (Variable::Rps, SHARED.to_owned())).into_iter().collect())
    }

    /// True if the next plan would have settings, or the doctor more to say of the placement, because packets that are not counted
    /// by queue are shared out otherwise than expected. Settings of new queues wait for the next plan in any case.
    fn is_restless(&self, seen: (&Model, &Rates), drafted: &Drafted) -> bool {
        let is_placing = PLACING.iter().any(|variable| drafted.variables.contains(variable));
        if !is_placing {
            return false;
        }
        let has_new_queues = drafted.variables.contains(&Variable::Channels);
        let others = Work::new(seen.0, seen.1, &CpuTopology::new(seen.0)).others();
        let findings = about_placement(seen.0, seen.1).len();
        others.into_iter().any(|most| {
            let (after, then) = simulated_with(seen, &drafted.settings, Some(most));
            if about_placement(&landed(after.clone()), &then).len() > findings {
                return true;
            }
            if has_new_queues {
                return false;
            }
            let next = settled_in(0, self.policy, (&after, &then), self.options, self.only);
            !next.settings.is_empty() || is_left_alone(&next, &drafted.variables)
        })
    }

    /// True if a draft takes receive work off CPUs that should have none: these are left at any cost.
    fn is_bound(&self, seen: (&Model, &Rates), drafted: &Drafted) -> bool {
        let frees_cpus = || drafted.variables.contains(&Variable::Irq) && interrupts_kept_free(seen);
        self.is_asked() || must_steer(seen.0, drafted) || frees_cpus()
    }

    /// The draft with as much as the simulation has no objection to.
    fn unobjectionable(&self, seen: (&Model, &Rates), left_out: &[Variable]) -> Drafted {
        let draft = |left_out: &[Variable]| self.policy.draft(seen, self.options, self.only, left_out);
        let mut drafted = draft(left_out);
        let Some(objection) = self.objection(seen, &drafted) else { return drafted };
        let planned = drafted.variables.clone();
        for more in LEFT_OUT.iter().filter(|more| more.iter().any(|variable| planned.contains(variable))) {
            drafted = draft(&[left_out, *more].concat());
            if self.objection(seen, &drafted).is_none() {
                break;
            }
        }
        let out = planned.into_iter().filter(|variable| !drafted.variables.contains(variable));
        drafted.reasons.push(Reason::LeftAlone(out.collect(), objection));
        drafted
    }

    /// Reason not to propose a draft: a CPU would receive for more than half of its time and longer than any does
    /// now, spreading would make none cooler, or there would be more findings about the placement of interfaces.
    fn objection(&self, (model, rates): (&Model, &Rates), drafted: &Drafted) -> Option<String> {
        let is_placing = PLACING.iter().any(|variable| drafted.variables.contains(variable));
        if !is_placing || self.is_asked() {
            return None;
        }
        let (after, then) = simulated((model, rates), &drafted.settings);
        let (_, was) = hottest(rates)?;
        let (cpu, is) = feared((model, rates), (&after, &then))?;
        if is > self.most.max(was) && !hands_to_unusable(model) {
            return Some(format!(
                "CPU {cpu} would receive for {} of its time; now no CPU does for more than {}",
                percent(is),
                percent(self.busiest)
            ));
        }
        if self.policy == Policy::Spread
            && let Some(cpu) = unrelieved((model, rates), (&after, &then), &drafted.settings)
        {
            return Some(format!("CPU {cpu} would have no less receive work"));
        }
        let landed = landed(after);
        let new = [1.0, 1.0 + INDISTINCT].into_iter().find_map(|factor| {
            let (before, then) = (grown(rates, factor), grown(&then, factor));
            more_of_placement((model, &before), (&landed, &then))
        });
        new.map(|new| format!("the doctor would then report `{}`", new.title))
    }

    /// True if CPUs are to be isolated: these are left at any cost.
    fn is_asked(&self) -> bool {
        self.policy == Policy::Isolate || !self.options.isolated.is_empty()
    }
}

impl Drafted {
    /// Adds a later draft, whose values replace those for the same targets; those that `model` has already are left out.
    fn join(&mut self, next: Drafted, model: &Model) {
        let is_of = |planned: &PlannedSetting, other: &PlannedSetting| {
            planned.set.knob == other.set.knob && planned.set.target == other.set.target
        };
        let changes = |planned: &PlannedSetting| {
            // Where the kernel does not show the CPU of an interrupt, sending it there would change the model.
            if planned.set.knob == "irq_affinity" {
                return !irqs::are_sent(model, &planned.set);
            }
            let mut after = model.clone();
            simulation::simulate(&mut after, &planned.set);
            after != *model
        };
        let (again, new): (Vec<_>, Vec<_>) =
            next.settings.into_iter().partition(|new| self.settings.iter().any(|old| is_of(old, new)));
        self.settings.retain(|old| !again.iter().any(|new| is_of(old, new)));
        self.settings.extend(again.into_iter().filter(changes).chain(new));
        for variable in next.variables {
            if !self.variables.contains(&variable) {
                self.variables.push(variable);
            }
        }
        let is_set = |knob: &&str| self.settings.iter().any(|planned| planned.set.knob == *knob);
        self.variables.retain(|variable| {
            let knobs = taken_back(*variable);
            knobs.is_empty() || knobs.iter().any(is_set)
        });
        let variables = &self.variables;
        self.reasons.retain_mut(|reason| match reason {
            Reason::Unchanged(variable) => !variables.contains(variable),
            Reason::LeftAlone(out, _) => {
                out.retain(|variable| !variables.contains(variable));
                !out.is_empty()
            }
            _ => true,
        });
    }
}

/// True if an objection is all that keeps a draft from changing one of these variables.
fn is_left_alone(drafted: &Drafted, variables: &[Variable]) -> bool {
    drafted.reasons.iter().any(|reason| {
        matches!(reason, Reason::LeftAlone(out, _) if out.iter().any(|variable| variables.contains(variable)))
    })
}

/// All knobs of a variable of which a later draft may take back what an earlier one set.
fn taken_back(variable: Variable) -> &'static [&'static str] {
    match variable {
        Variable::Irq => &["irqbalance", "irq_affinity"],
        Variable::Xps => &["xps_cpus"],
        Variable::Rps => &["rps"],
        _ => &[],
    }
}

/// A finding about the placement that comes, if there are more than before. One may take the place of another: of several crowded
/// CPUs, the worst is named.
fn more_of_placement(before: (&Model, &Rates), after: (&Model, &Rates)) -> Option<Finding> {
    let [before, then] = [before, after].map(|(model, rates)| about_placement(model, rates));
    let is_more = then.len() > before.len();
    let mut new = then.into_iter().filter(|finding| before.iter().all(|old| old.title != finding.title));
    new.next().filter(|_| is_more)
}

/// True if interrupts move that may bring more or less than estimated.
fn is_estimated((model, rates): (&Model, &Rates), drafted: &Drafted) -> bool {
    let others = || Work::new(model, rates, &CpuTopology::new(model)).others();
    drafted.variables.contains(&Variable::Irq) && !others().is_empty()
}

/// True if masks that a draft replaces have CPUs that should get no receive work.
fn must_steer(model: &Model, drafted: &Drafted) -> bool {
    let replaced = drafted.settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "rps");
    let mut masks = replaced.filter_map(|set| rx_queue(model, &set.target)?.rps_cpus.known());
    masks.any(|mask| !mask.difference(&drafted.usable).is_empty())
}

/// The machine and its rates once settings are applied.
fn simulated(seen: (&Model, &Rates), settings: &[PlannedSetting]) -> (Model, Rates) {
    simulated_with(seen, settings, None)
}

/// The same, with packets that are not counted by queue shared out in another way.
fn simulated_with(
    (model, rates): (&Model, &Rates),
    settings: &[PlannedSetting],
    most: Option<Most>,
) -> (Model, Rates) {
    let mut after = model.clone();
    settings.iter().for_each(|planned| simulation::simulate(&mut after, &planned.set));
    let topology = CpuTopology::new(model);
    let then = Work::with(model, rates, &topology, most).rates(&after, &topology);
    (after, then)
}

/// The CPU that would receive longest, and for how long, with a part of what uncounted queues may bring more than expected, if a
/// sample can tell that.
fn feared((model, rates): (&Model, &Rates), (after, then): (&Model, &Rates)) -> Option<(CpuId, f64)> {
    let topology = CpuTopology::new(model);
    let worst = Work::new(model, rates, &topology).worst(after, &topology);
    let times = then.cpus.iter().map(|cpu| {
        let expected = receive_work(cpu);
        let more = worst.get(cpu.cpu.0 as usize).map_or(0.0, |worst| worst - expected);
        (cpu.cpu, expected + (more * UNSURE - INDISTINCT).max(0.0))
    });
    times.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// True if a mask of these settings has the CPU of its queue's interrupt, or one of another such mask whose queue has its
/// interrupt elsewhere. Masks that only lose CPUs overlap no more than before.
fn shares_cpus((before, rates): (&Model, &Rates), settings: &[PlannedSetting]) -> bool {
    let (after, then) = simulated((before, rates), settings);
    let topology = CpuTopology::new(before);
    let machine = Machine { model: &after, rates: &then, topology: &topology };
    let mut masks: Vec<(CpuId, &CpuMask, bool)> = Vec::new();
    for set in settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "rps") {
        let (Some(was), Some(is)) = (rx_queue(before, &set.target), rx_queue(&after, &set.target)) else {
            continue;
        };
        let (Some(home), Some(mask)) = (machine.home(is), is.rps_cpus.known()) else { continue };
        let is_narrower = was.rps_cpus.known().is_some_and(|was| mask.difference(was).is_empty());
        let overlaps = masks.iter().any(|(other_home, other, is_other_narrower)| {
            *other_home != home
                && !(is_narrower && *is_other_narrower)
                && !other.intersection(mask).is_empty()
        });
        if overlaps || mask.contains(home) {
            return true;
        }
        masks.push((home, mask, is_narrower));
    }
    false
}

/// The busiest CPU of the interfaces whose packets these settings send to other CPUs, if that makes neither it nor any
/// busy one of theirs less busy. `None` if settings only correct masks in use, or the CPUs are not known.
fn unrelieved(
    (model, rates): (&Model, &Rates),
    (after, then): (&Model, &Rates),
    settings: &[PlannedSetting],
) -> Option<CpuId> {
    let begins = |planned: &&PlannedSetting| match planned.set.knob.as_str() {
        "irq_affinity" => true,
        "rps" => rx_queue(model, &planned.set.target)
            .is_some_and(|queue| queue.rps_cpus.known().is_some_and(CpuMask::is_empty)),
        _ => false,
    };
    let sent: BTreeSet<&NicName> =
        settings.iter().filter(begins).filter_map(|planned| planned.set.target.nic()).collect();
    let topology = CpuTopology::new(model);
    let mut cpus = CpuMask::new();
    for (model, rates) in [(model, rates), (after, then)] {
        let machine = Machine { model, rates, topology: &topology };
        // Packets of virtual interfaces come to any CPU.
        let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        for nic in devices.filter(|nic| sent.contains(&nic.name)) {
            for queue in nic.rx.iter().filter(|queue| queue_packets(nic, queue, rates) > 0.0) {
                cpus.insert(machine.home(queue).filter(|cpu| topology.usable.contains(*cpu))?);
                cpus = cpus.union(queue.rps_cpus.known().unwrap_or(&CpuMask::new()));
            }
        }
    }
    let times = |rates: &Rates| -> Vec<(CpuId, f64)> {
        cpus.iter().filter_map(|cpu| Some((cpu, receive_work(rates.cpu(cpu)?)))).collect()
    };
    let (was, is) = (times(rates), times(then));
    let most = |times: &[(CpuId, f64)]| times.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let excess =
        |times: &[(CpuId, f64)]| times.iter().map(|(_, time)| (time - HIGH_LOAD).max(0.0)).sum::<f64>();
    let ((_, busiest), (cpu, time)) = (most(&was)?, most(&is)?);
    let helps = time < busiest * LESS || excess(&is) < excess(&was) * LESS;
    (busiest >= COUNTED && !helps).then_some(cpu)
}

/// True if an interrupt lands on a CPU that is set apart or tickless.
fn interrupts_kept_free((model, rates): (&Model, &Rates)) -> bool {
    let tickless = model.settings.nohz_full.known().cloned().unwrap_or_default();
    let kept_free = model.set_apart().union(&tickless);
    let mut queues = model.nics.iter().flat_map(|nic| &nic.rx);
    queues.any(|queue| !irq_cpus(queue, model, rates).intersection(&kept_free).is_empty())
}

fn rx_queue<'a>(model: &'a Model, target: &Target) -> Option<&'a RxQueue> {
    let Target::Queue { nic, queue } = target else { return None };
    model.nic(nic)?.rx.iter().find(|rx| rx.index == queue.index)
}

/// True if a mask has CPUs that should receive nothing.
fn hands_to_unusable(model: &Model) -> bool {
    let usable = model.usable();
    let mut masks = model.nics.iter().flat_map(|nic| &nic.rx).filter_map(|queue| queue.rps_cpus.known());
    masks.any(|mask| !mask.difference(&usable).is_empty())
}

#[cfg(test)]
mod tests {
    use super::{
        AGAIN, Drafted, Options, Policy, Reason, Variable, is_left_alone, must_steer, settled, simulated,
    };
    use rxlab_base::units::{Fact, QueueId};
    use rxlab_path::sketch::{Sketch, cpus};
    use rxlab_setting::{PlannedSetting, Setting, Target};

    /// A mask of an interface that was not planned for once kept unsound masks of others in the plan, and so did the policy isolate.
    #[test]
    fn only_masks_that_are_replaced_have_to_change() {
        let sketch = Sketch::new(4).device("eth0", &[0]).device("eth1", &[1]).isolate("3");
        let (model, _) = sketch.rps("eth0", "2").rps("eth1", "2-3").build();
        let set = |name: &str| {
            let target = Target::queue(&name.parse().expect("a name"), QueueId::rx(0));
            let settings = vec![PlannedSetting::new(Setting::new("rps", target, "2"), "why", None)];
            Drafted { usable: model.usable(), settings, ..Drafted::default() }
        };
        assert!(!must_steer(&model, &set("eth0")) && must_steer(&model, &set("eth1")));
    }

    /// An objection left the interrupts out, and the next plan, whose busiest CPU was busier, moved them and took a mask back.
    #[test]
    fn what_an_objection_leaves_out_is_not_for_the_next_plan() {
        let host = Sketch::new(4).nodes(2).device("eth0", &[2]).device("eth1", &[0]).device("eth2", &[0]);
        let host = host.traffic("eth0", 19_250.0).traffic("eth1", 81_850.0).traffic("eth2", 5_700.0);
        let host = host.isolate("0").rps("eth1", "1").receives(0, 0.9, 5_700.0);
        let (model, rates) = host.receives(1, 0.885, 81_850.0).receives(2, 0.385, 19_250.0).build();
        let plan = |seen| settled(Policy::Latency, seen, &Options::default(), None);
        let first = plan((&model, &rates));
        let (after, then) = simulated((&model, &rates), &first.settings);
        let next = plan((&after, &then)).settings;
        assert_eq!(next.iter().map(|planned| planned.set.to_string()).collect::<Vec<_>>(), [""; 0]);
    }

    /// Interrupts that leave CPUs at any cost came to fewer, and which of these would be busy was not known.
    #[test]
    fn a_plan_by_estimates_says_to_plan_again() {
        let notes = |host: fn(Sketch) -> Sketch| {
            let host = host(Sketch::new(8).device("eth0", &[0, 1, 2, 3]));
            let (model, rates) = host.all_receive("0-3", 0.2, 1e4).build();
            settled(Policy::Isolate, (&model, &rates), &Options::default(), None).notes
        };
        let says = |notes: Vec<String>| notes.iter().any(|note| note == AGAIN);
        assert!(says(notes(|host| host.traffic("eth0", 4e4))));
        assert!(!says(notes(|host| host.queue_traffic("eth0", &[1e4; 4]))), "they are counted");
    }

    /// Masks that an objection by estimated packets kept out of the next plan came with real ones.
    #[test]
    fn what_an_objection_alone_keeps_is_not_settled() {
        let left_alone = |variables: &[Variable]| Drafted {
            reasons: vec![Reason::LeftAlone(variables.to_vec(), "CPU 1 would receive".to_owned())],
            ..Drafted::default()
        };
        let planned = [Variable::Irq, Variable::Rps];
        assert!(is_left_alone(&left_alone(&[Variable::Rps]), &planned));
        assert!(!is_left_alone(&left_alone(&[Variable::Xps]), &planned), "no plan would have it");
        assert!(!is_left_alone(&Drafted::default(), &planned));
    }

    /// An interrupt was set to where it was already, if the kernel did not show its CPU: one draft had sent it elsewhere, and the
    /// next one back.
    #[test]
    fn what_a_later_draft_takes_back_is_not_set() {
        let host = Sketch::new(4).device("eth0", &[2]).edit("eth0", |nic| {
            let irq = &mut nic.rx[0].irqs[0];
            (irq.effective, irq.affinity) = (Fact::Unsupported, Fact::Known(cpus("2")));
        });
        let (model, _) = host.build();
        let drafted = |cpu: &str| {
            let set = format!("irq_affinity eth0/rx-0 = {cpu}").parse().expect("a setting");
            let settings = vec![PlannedSetting::new(set, "why", None)];
            Drafted { settings, variables: vec![Variable::Irq], ..Drafted::default() }
        };
        let joined = |next: &str| {
            let mut both = drafted("3");
            both.join(drafted(next), &model);
            both.settings.iter().map(|planned| planned.set.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(joined("2"), [""; 0]);
        assert_eq!(joined("1"), ["1"]);
    }
}
