//! Plans: their values are sound, they can be applied and undone, they help, and they leave nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::doctor;
use rxlab_advise::plan::Policy;
use rxlab_base::parse::irqbalance_setup;
use rxlab_base::units::{CpuId, CpuMask, Direction};
use rxlab_change::apply::{self, BeginInfo, Transaction};
use rxlab_change::journal::{Memory, Store};
use rxlab_path::evidence::irq_cpus;
use rxlab_path::model::RxQueue;
use rxlab_setting::{Plan, PlannedSetting, Setting, Target, set_of};
use rxlab_sys::{Cause, Failpoint, Fault, FlakyHost, Host, RecordedHost, Rule};

use super::follow::{channels, follow, irqs};
use super::look::{Seen, look};
use super::map;
use super::request::Request;
use super::truth::{Damage, HANDED, Irq, KEPT, Nic, Rx, Told, Truth, Work};
use super::{Property, Violation};

/// Receive time that a policy may give the hottest CPU although it had less: half of a CPU leaves room for the
/// other half. Policies keep to a node, or off RPS, for other reasons than the load.
const ROOM: f64 = 0.5;
/// Part of the time that receiving leaves from which a program fills a CPU.
const FULL: f64 = 0.9;
/// Error of times that are counted in ticks.
const ROUNDED: f64 = 0.01;
/// Plans after which none is left, besides one for each interface.
const TURNS: usize = 3;
/// Factor by which a CPU may get busier than today's busiest where RPS is switched off: a plan attributes the receive
/// time of a CPU to queues by an estimate.
const SLACK: f64 = 1.2;

pub(crate) fn check(
    truth: &Truth,
    seen: &Seen,
    request: &Request,
    findings: &[Finding],
) -> Result<(), Violation> {
    let plan = plan(seen, request);
    let mut said = texts(&plan);
    let of = |property: Property| {
        let policy = request.policy;
        move |why: String| Violation { property, why: format!("{policy}: {why}") }
    };
    if plan != self::plan(seen, request) {
        return Err(of(Property::Settles)("another plan the second time".to_owned()));
    }
    values(truth, seen, request, &plan).map_err(|why| of(Property::Values)(format!("{why} with\n{said}")))?;
    let settings: Vec<&Setting> = plan.settings.iter().map(|planned| &planned.set).collect();
    constraints(truth, request, &settings).map_err(of(Property::Constraints))?;
    if !applied(truth, seen, &plan).map_err(of(Property::Applies))? {
        return Ok(());
    }
    let even = truth.evened();
    let after = follow(&even, settings);
    load(&even, &after, request).map_err(|why| of(Property::Load)(format!("{why} with\n{said}")))?;
    helps(&even, &after, request, &plan).map_err(|why| of(Property::Helps)(format!("{why} with\n{said}")))?;
    if plan.settings.is_empty() {
        return Ok(());
    }
    let then = look(&after).map_err(of(Property::Map))?;
    map::check(&after, &then).map_err(|why| of(Property::Map)(format!("{why} after\n{said}")))?;
    // CPUs that spread leaves hot on other interfaces are for the next plan; a plan of a bond is for all its devices.
    let names = plan.settings.iter().filter_map(|planned| planned.set.target.nic());
    let says = |text: &str| plan.notes.iter().any(|note| note.contains(text));
    let bond = truth.uppers.iter().find(|upper| says(&format!("{} is a bond on ", upper.name)));
    let (asked, mut request) = (request, request.clone());
    if request.policy == Policy::Spread && request.options.nics.is_empty() {
        let bond = bond.and_then(|bond| bond.name.parse().ok()).map(|bond| vec![bond]);
        request.options.nics = bond.unwrap_or_else(|| names.cloned().collect());
    }
    let request = &request;
    let (mut again, mut then) = (self::plan(&then, request), then);
    if plan.settings.iter().any(|planned| planned.set.knob == "channels") {
        // What concerns new queues waits until their interrupts exist: they land where the driver asks for them.
        let last = follow(&after, again.settings.iter().map(|planned| &planned.set));
        said += &format!("and then\n{}", texts(&again));
        then = look(&last).map_err(of(Property::Map))?;
        again = self::plan(&then, request);
    }
    // Fewer queues free the vectors that the interrupts of the others then get by another plan, as the first one says; and busy
    // CPUs, which it relieves, may keep delays.
    let frees_vectors = !truth.full.is_empty() && says("need another plan");
    let is_delay = |planned: &&PlannedSetting| {
        let delays = |nic| says(&format!("delays of {nic} are left alone"));
        let is_delay = ["rx_usecs", "adaptive_rx"].contains(&planned.set.knob.as_str());
        is_delay && planned.set.target.nic().is_some_and(delays)
    };
    // Interrupts that leave CPUs at any cost show only then what each brings, and the first plan says so: they are placed again by
    // their load, queues that it gave no mask may get one, and a mask that it had to replace may go where the CPU turns out to have
    // time. The user reads that each value is an estimate and why it goes; `ends` checks that it does not come back.
    let is_estimated = says("is estimated: plan again");
    let is_later = |planned: &&PlannedSetting| {
        let is_same = |set: &Setting| set.knob == planned.set.knob && set.target == planned.set.target;
        let is_new = || !plan.settings.iter().any(|first| is_same(&first.set));
        let is_of_load = planned.set.knob == "irq_affinity"
            || planned.set.knob == "rps" && (is_new() || planned.set.value == "off");
        is_estimated && is_of_load
    };
    let is_for_later = |planned: &PlannedSetting| is_delay(&planned) || is_later(&planned);
    if !again.settings.iter().all(is_for_later) && !frees_vectors {
        let texts = format!("{said}and then\n{}", texts(&again));
        return Err(of(Property::Settles)(format!("not idempotent:\n{texts}")));
    }
    avoidable(findings, &then, request).map_err(|why| of(Property::Avoids)(format!("{why} with\n{said}")))?;
    ends(after, asked, &plan).map_err(|why| of(Property::Settles)(format!("{why} after\n{said}")))
}

/// Plans that are asked for as the first one was, one after the other, end, and none sets what an earlier one has set already.
fn ends(mut truth: Truth, request: &Request, first: &Plan) -> Result<(), String> {
    let set = |plan: &Plan| plan.settings.iter().map(|planned| planned.set.to_string()).collect::<Vec<_>>();
    let mut before: BTreeSet<String> = set(first).into_iter().collect();
    for _ in 0..truth.nics.len() + truth.uppers.len() + truth.veths.len() + TURNS {
        let plan = plan(&look(&truth)?, request);
        if plan.settings.is_empty() {
            return Ok(());
        }
        if let Some(again) = set(&plan).into_iter().find(|set| !before.insert(set.clone())) {
            return Err(format!("{again} comes again"));
        }
        truth = follow(&truth, plan.settings.iter().map(|planned| &planned.set));
    }
    Err("plans do not end".to_owned())
}

fn plan(seen: &Seen, request: &Request) -> Plan {
    request.policy.plan(&seen.model, &seen.rates, &request.options, None).plan
}

fn texts(plan: &Plan) -> String {
    let line = |planned: &PlannedSetting| format!("  {}  # {}\n", planned.set, planned.why);
    let notes = plan.notes.iter().map(|note| format!("  # {note}\n"));
    plan.settings.iter().map(line).chain(notes).collect()
}

/// Masks and interrupts on usable CPUs only, no target or note twice, nothing that is so already, no mask with the CPU of
/// its own interrupt or of another queue's mask, and interrupts in the node of their device.
fn values(truth: &Truth, seen: &Seen, request: &Request, plan: &Plan) -> Result<(), String> {
    let may = truth.usable().difference(&request.options.isolated);
    if let Some(prediction) = &plan.prediction
        && truth.work().get(&prediction.cpu).is_none_or(|work| work.time == 0.0)
    {
        return Err(format!("predicted for CPU {}, which receives nothing", prediction.cpu));
    }
    let mut notes = BTreeSet::new();
    if let Some(again) = plan.notes.iter().find(|note| !notes.insert(*note)) {
        return Err(format!("said twice: {again}"));
    }
    let after = follow(truth, plan.settings.iter().map(|planned| &planned.set));
    let mut set_before = BTreeSet::new();
    let mut masks: Vec<(String, CpuMask, CpuMask, bool)> = Vec::new();
    for PlannedSetting { set, why, risk, device, .. } in &plan.settings {
        if !set_before.insert((set.knob.clone(), set.target.clone())) {
            return Err(format!("{set}: set twice"));
        }
        let shown = set.target.nic().and_then(|name| seen.model.nic(name));
        if why.is_empty() || risk.is_none() || shown.map(|nic| &nic.address) != device.as_ref() {
            return Err(format!("{set}: without a reason, a risk or a device"));
        }
        if is_so_already(truth, set) {
            return Err(format!("{set}: is so already"));
        }
        let is_set_of_cpus = ["rps", "irq_affinity"].contains(&set.knob.as_str()) && set.value != "off";
        let Some(shown) = shown.filter(|_| is_set_of_cpus) else { continue };
        let mask = set_of(&set.value).ok_or_else(|| format!("{set}: not a set of CPUs"))?;
        if mask.is_empty() || !mask.difference(&may).is_empty() {
            return Err(format!("{set}: not of {may}"));
        }
        match &set.target {
            Target::Queue { queue, .. } if set.knob == "rps" => {
                // A plan cannot keep off a CPU that no source names.
                let is_known = |queue: &RxQueue| {
                    queue.channel_cpu.is_some() || !irq_cpus(queue, &seen.model, &seen.rates).is_empty()
                };
                let is_known = shown.rx.get(queue.index as usize).is_some_and(is_known);
                let Some(nic) = after.nic(shown.name.as_str()).filter(|_| is_known) else { continue };
                // The second queues of mlx5 on 5.15 receive nothing.
                let Some(home) = nic.rx.get(queue.index as usize).map(|queue| nic.home(queue)) else {
                    continue;
                };
                if home.is_some_and(|home| mask.contains(home)) {
                    return Err(format!("{set}: holds the CPU of its interrupt"));
                }
                let home: CpuMask = home.into_iter().collect();
                // Queues of one CPU may share a mask: their work is that of one CPU. Masks in use that only lose
                // CPUs overlap no more than before.
                let was = truth.nic(shown.name.as_str()).and_then(|nic| nic.rx.get(queue.index as usize));
                let is_narrower = was.is_some_and(|was| mask.difference(&was.rps).is_empty());
                let overlaps = |(_, other, of, is_other_narrower): &&(String, CpuMask, CpuMask, bool)| {
                    *of != home
                        && !(is_narrower && *is_other_narrower)
                        && !other.intersection(&mask).is_empty()
                };
                if let Some((other, ..)) = masks.iter().find(overlaps) {
                    return Err(format!("{set}: overlaps with {other}"));
                }
                masks.push((set.to_string(), mask, home, is_narrower));
            }
            Target::Queue { queue, .. } if queue.direction == Direction::Rx => {
                // Queues that the plan adds have no interrupts yet.
                if shown.rx.get(queue.index as usize).is_some_and(|queue| queue.irqs.is_empty()) {
                    return Err(format!("{set}: its interrupt is unknown"));
                }
                let node =
                    shown.rx.get(queue.index as usize).map_or(shown.node, |queue| shown.node_of(queue));
                leaves_node(truth, request, node, set, &may)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// No interrupt goes where it cannot, none leaves a fast CPU for a slow one, and no driver gets a number of queues that it
/// refuses. CPUs that take no receive work are a matter of [`values`].
fn constraints(truth: &Truth, request: &Request, settings: &[&Setting]) -> Result<(), String> {
    let sees_places = !matches!(truth.damage, Damage::NoEffectiveAffinity | Damage::AffinityDenied)
        && !truth.damage.hides_interrupts();
    let slow: CpuMask =
        truth.cpus.iter().filter(|cpu| cpu.capacity.is_some_and(|own| own < 800)).map(|cpu| cpu.id).collect();
    let has_fast = truth.cpus.iter().any(|cpu| cpu.capacity == Some(1024));
    let is_fixed = |irq: &Irq| {
        let fixed = truth.nics.iter().filter(|nic| nic.is_fixed);
        fixed.flat_map(|nic| &nic.irqs).any(|own| own.number == irq.number)
    };
    // What leaves a CPU at any cost goes to a slow one rather than to one that takes another interrupt.
    let after = (request.policy == Policy::Spread).then(|| follow(truth, settings.iter().copied()));
    let others: CpuMask = after.iter().flat_map(|after| after.nics.iter().flat_map(homes)).collect();
    for set in settings {
        let Some(nic) = set.target.nic().and_then(|name| truth.nic(name.as_str())) else { continue };
        let goes = set_of(&set.value).unwrap_or_default();
        let lands: CpuMask = irqs(truth, nic, &set.target).iter().map(|irq| irq.lands).collect();
        match set.knob.as_str() {
            // Ports of one function have each other's interrupts.
            "irq_affinity"
                if sees_places && irqs(truth, nic, &set.target).iter().any(|irq| is_fixed(irq)) =>
            {
                return Err(format!("{set}: no interrupt of {} can be moved", nic.name));
            }
            "irq_affinity" if sees_places && !lands.is_empty() => {
                let stays = !lands.intersection(&goes).is_empty();
                if !stays && !goes.is_empty() && goes.difference(&truth.full).is_empty() {
                    return Err(format!("{set}: no vectors are left on CPU {}", truth.full));
                }
                let node = goes.first().and_then(|cpu| truth.cpus.iter().find(|one| one.id == cpu));
                let near = node.map(|cpu| truth.of_node(cpu.node)).unwrap_or_default();
                let free = |cpu: &CpuId| truth.cpus.iter().any(|one| one.id == *cpu && one.program < FULL);
                let may = truth.usable().difference(&request.options.isolated);
                let is_isolated = lands.difference(&request.options.isolated).is_empty();
                let taken = if is_isolated { others.clone() } else { CpuMask::new() };
                let fast =
                    may.intersection(&near).difference(&slow).difference(&truth.full).difference(&taken);
                let some_fast = has_fast && fast.iter().any(|cpu| free(&cpu));
                if some_fast && goes.difference(&slow).is_empty() && lands.intersection(&slow).is_empty() {
                    return Err(format!("{set}: leaves a fast CPU for a slow one"));
                }
            }
            // fbnic_set_channels, bnxt_set_channels, ionic_set_channels.
            "channels"
                if nic.is_split
                    && ["rx", "combined"].iter().all(|kind| channels(&set.value, kind) > Some(0)) =>
            {
                return Err(format!("{set}: the driver refuses separate queues beside combined ones"));
            }
            "channels" if nic.has_xdp && truth.damage != Damage::NetlinkDenied => {
                let (_, count) = set.value.rsplit_once(' ').unwrap_or(("", &set.value));
                let count: u32 = count.parse().map_err(|_| format!("{set}: no number"))?;
                if nic.driver.name == "virtio_net" || count > nic.max_queues / 2 {
                    return Err(format!("{set}: the driver refuses while XDP is attached"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// CPUs where the packets of an interface arrive.
fn homes(nic: &Nic) -> impl Iterator<Item = CpuId> {
    nic.rx.iter().filter_map(|queue| nic.home(queue))
}

/// True if the mask or the interrupts are as this setting wants them.
fn is_so_already(truth: &Truth, set: &Setting) -> bool {
    let Some(nic) = set.target.nic().and_then(|name| truth.nic(name.as_str())) else { return false };
    let cpus = set_of(&set.value).unwrap_or_default();
    match (&set.target, set.knob.as_str()) {
        (Target::Queue { queue, .. }, "rps") => {
            nic.rx.get(queue.index as usize).is_some_and(|queue| queue.rps == cpus)
        }
        // The interrupt of a queue that is not there yet is not known, although some drivers have it.
        (Target::Queue { queue, .. }, _)
            if queue.direction == Direction::Rx && queue.index as usize >= nic.rx.len() =>
        {
            false
        }
        (target, "irq_affinity") => {
            let irqs = irqs(truth, nic, target);
            !irqs.is_empty() && irqs.iter().all(|irq| irq.affinity == cpus)
        }
        _ => false,
    }
}

/// An interrupt leaves the node of its device only where the CPUs of the node would be more than half busy.
fn leaves_node(
    truth: &Truth,
    request: &Request,
    node: Option<u32>,
    set: &Setting,
    may: &CpuMask,
) -> Result<(), String> {
    let Some(node) = node.filter(|_| truth.damage != Damage::NoNodes) else { return Ok(()) };
    let local = truth.of_node(node).intersection(may);
    // A CPU that a program fills has no room.
    let is_full = |cpu: &CpuId| truth.cpus.iter().any(|one| one.id == *cpu && one.program >= FULL);
    let fastest = truth.cpus.iter().filter_map(|cpu| cpu.capacity).max();
    let is_slow = |cpu: &CpuId| {
        let own = truth.cpus.iter().find(|one| one.id == *cpu).and_then(|one| one.capacity);
        own.zip(fastest).is_some_and(|(own, fastest)| f64::from(own) < 0.8 * f64::from(fastest))
    };
    let or_all = |some: CpuMask, all: CpuMask| if some.is_empty() { all } else { some };
    let local = or_all(local.iter().filter(|cpu| !is_full(cpu)).collect(), local);
    let local = or_all(local.iter().filter(|cpu| !is_slow(cpu)).collect(), local);
    let Some(nic) = set.target.nic().and_then(|name| truth.nic(name.as_str())) else { return Ok(()) };
    let was = irqs(truth, nic, &set.target).iter().map(|irq| irq.lands).collect::<CpuMask>();
    let goes = set_of(&set.value).unwrap_or_default();
    let was_local = !was.is_empty() && was.difference(&truth.of_node(node)).is_empty();
    let time: f64 = truth.nics.iter().map(|nic| nic.packets() * truth.cost).sum();
    // What comes from other network namespaces takes time there, too; elsewhere it may be taken for the price of packets.
    let time = time + truth.foreign.iter().map(|foreign| foreign.packets * truth.cost).sum::<f64>();
    // Where packets are handed on, they take a little longer.
    let is_crowded = time * (KEPT + HANDED) > (ROOM - ROUNDED) * local.len() as f64;
    let is_asked = request.policy == Policy::Isolate || !request.options.isolated.is_empty();
    // One that is to stay where it lands leaves no node, whatever that CPU has to do.
    let stays = goes == was;
    if was_local
        && !stays
        && goes.intersection(&local).is_empty()
        && !local.is_empty()
        && !is_crowded
        && !is_asked
    {
        return Err(format!("{set}: leaves node {node} of its device, which has room on CPU {local}"));
    }
    Ok(())
}

/// Applies the plan to the files and undoes it. False if the kernel refuses to move interrupts, or the plan
/// is about queues that these files do not get.
fn applied(truth: &Truth, seen: &Seen, plan: &Plan) -> Result<bool, String> {
    // irqbalance answers root only, and only root applies.
    if truth.irqbalance.as_ref().is_some_and(|irqbalance| irqbalance.told == Told::Configuration) {
        return Ok(true);
    }
    let (files, rest) = seen.host.parts();
    let refused = truth.nics.iter().filter(|nic| nic.is_managed).flat_map(|nic| &nic.irqs);
    // EIO, as for interrupts that the kernel manages (write_irq_affinity).
    let refused = refused.map(|irq| Rule {
        suffix: format!("proc/irq/{}/smp_affinity", irq.number),
        fault: Fault::Refuse(Cause::Errno(5)),
    });
    let host = RecordedHost::from_parts(files.clone(), rest.clone());
    let host = FlakyHost::new(host, refused.collect(), Failpoint::new(None, || ()));
    let settings =
        apply::check(&host, &seen.model, plan).map_err(|error| format!("cannot be applied: {error}"))?;
    if settings.iter().any(|setting| setting.knob == "channels") {
        let rehearsed = apply::rehearse(&host, &seen.model, &settings);
        // Changing channels resets values, which have to be read first.
        let is_refused = truth.nics.iter().any(|nic| nic.is_managed)
            || matches!(truth.damage, Damage::MaskDenied | Damage::AffinityDenied);
        return match rehearsed {
            Err(error) if !is_refused => Err(format!("cannot be rehearsed: {error}")),
            rehearsed => Ok(rehearsed.is_ok()),
        };
    }
    let store = Store::new(Memory::default());
    let begin =
        || Transaction::begin(&store, BeginInfo::new(&seen.model.identity)).map_err(|e| e.to_string());
    let transaction = begin()?;
    let id = transaction.id().to_owned();
    let is_applied = match transaction.apply(&host, &seen.model, &settings, &AtomicBool::new(false)) {
        Ok(kept) if kept.is_empty() => return Ok(true),
        Ok(_) => {
            let resumed =
                Transaction::resume(&store, &id, std::time::Duration::ZERO).map_err(|e| e.to_string())?;
            let undone = resumed.undo(&host, &seen.model);
            if !undone.is_clean() || !undone.closed {
                return Err(format!("not undone: {undone:?}"));
            }
            true
        }
        Err(failure) => {
            let error = &failure.error;
            let is_refused = truth.nics.iter().any(|nic| nic.is_managed)
                && settings.iter().any(|setting| setting.knob == "irq_affinity");
            if !is_refused {
                return Err(format!("cannot be applied: {error}"));
            }
            if !failure.undo.is_clean() {
                return Err(format!("refused, and not undone: {:?}", failure.undo));
            }
            false
        }
    };
    for (path, before) in &files {
        let after = host.read(path).map_err(|error| error.to_string());
        if after.as_ref().is_ok_and(|after| !is_same(before, after)) {
            return Err(format!("{path} is not as before the plan: {before:?}, {after:?}"));
        }
    }
    Ok(is_applied)
}

/// True for the same text, mask or answer of irqbalance.
fn is_same(before: &[u8], after: &[u8]) -> bool {
    let setup = |bytes| irqbalance_setup(bytes).ok();
    let mask = |bytes| std::str::from_utf8(bytes).ok().and_then(|text| CpuMask::from_hex(text.trim()).ok());
    let text = |bytes| std::str::from_utf8(bytes).ok().map(str::trim);
    before == after
        || mask(before).is_some_and(|mask_before| mask(after) == Some(mask_before))
        || setup(before).is_some_and(|setup_before| setup(after) == Some(setup_before))
        || text(before).is_some_and(|text_before| text(after) == Some(text_before))
}

/// The hottest CPU gets no hotter, unless half of it stays free.
fn load(truth: &Truth, after: &Truth, request: &Request) -> Result<(), String> {
    let (before, then) = (truth.hottest(), after.hottest());
    // CPUs that may not receive are left at any cost, whether interrupts land there or masks have them.
    let reserved = truth.online().difference(&truth.usable()).union(&request.options.isolated);
    let offline: CpuMask = truth.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id).collect();
    let leaves = |queue: &Rx| !queue.rps.intersection(&reserved.union(&offline)).is_empty();
    let is_on_purpose = request.policy == Policy::Isolate
        || !request.options.isolated.is_empty()
        || truth.nics.iter().flat_map(|nic| &nic.rx).any(leaves);
    let allowed = match request.policy {
        Policy::Spread => before.max(ROOM) + ROUNDED,
        _ => (before * SLACK).max(ROOM) + ROUNDED,
    };
    if then > allowed && !is_on_purpose {
        return Err(format!("the hottest CPU receives {before:.3} of its time, and {then:.3}"));
    }
    Ok(())
}

/// Receive time below which ticks do not tell if it gets less.
const COUNTED: f64 = 0.02;
/// Receive time from which a CPU is hot.
const HOT: f64 = 0.6;
/// Receive time, and use by programs, below which a CPU is idle.
const IDLE: f64 = 0.05;
/// Factor by which a plan may leave a hot CPU hotter than one mask or one interrupt alone would.
const NEARLY: f64 = 1.15;

/// Spreading that begins to hand on packets or moves interrupts makes the hottest CPU of its interfaces cooler, or one that
/// is busy. On a hot CPU it does about as much as handing the packets of one queue to idle CPUs of the node would, or
/// sending one interrupt to such a CPU.
fn helps(truth: &Truth, after: &Truth, request: &Request, plan: &Plan) -> Result<(), String> {
    let (usable, work, then) = (truth.usable(), truth.work(), after.work());
    let is_other = request.policy != Policy::Spread || !request.options.isolated.is_empty();
    let mut masks = truth.nics.iter().flat_map(|nic| &nic.rx).map(|queue| &queue.rps);
    let mut homes = truth.nics.iter().flat_map(homes);
    // CPUs that may not receive are left at any cost.
    let is_left =
        masks.any(|mask| !mask.difference(&usable).is_empty()) || homes.any(|cpu| !usable.contains(cpu));
    if is_other || is_left {
        return Ok(());
    }
    let begins = |nic: &Nic, set: &Setting| match &set.target {
        Target::Queue { nic: name, queue } if *name.as_str() == nic.name => match set.knob.as_str() {
            "irq_affinity" => true,
            "rps" => nic.rx.get(queue.index as usize).is_some_and(|queue| queue.rps.is_empty()),
            _ => false,
        },
        _ => false,
    };
    let sent: BTreeSet<&str> = truth
        .nics
        .iter()
        .filter(|nic| plan.settings.iter().any(|planned| begins(nic, &planned.set)))
        .map(|nic| nic.name.as_str())
        .collect();
    let nics = || truth.nics.iter().chain(&after.nics).filter(|nic| sent.contains(nic.name.as_str()));
    let queues = || nics().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let cpus = queues().filter(|(_, queue)| queue.packets > 0.0);
    let cpus: CpuMask =
        cpus.flat_map(|(nic, queue)| nic.home(queue).into_iter().chain(queue.rps.iter())).collect();
    let times = |work: &BTreeMap<CpuId, Work>| -> Vec<f64> {
        cpus.iter().filter_map(|cpu| Some(work.get(&cpu)?.time)).collect()
    };
    let (was, is) = (times(&work), times(&then));
    let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let busy = |times: &[f64]| times.iter().map(|time| (time - ROOM).max(0.0)).sum::<f64>();
    if most(&is) >= most(&was) && busy(&is) >= busy(&was) && most(&was) >= COUNTED {
        return Err(format!("no CPU gets cooler: {:.4} before, {:.4} then", most(&was), most(&is)));
    }
    missed(truth, after, request, plan)
}

/// Looks for a mask or an interrupt that would make the CPU that was hottest much cooler than it is after a plan: one more of
/// an interface that the plan is about, or one instead of the plan, which is about one interface.
fn missed(truth: &Truth, after: &Truth, request: &Request, plan: &Plan) -> Result<(), String> {
    let (usable, work, then) = (truth.usable(), truth.work(), after.work());
    let hottest = work.iter().max_by(|a, b| a.1.time.total_cmp(&b.1.time)).map(|(cpu, _)| *cpu);
    let is_hot = |cpu: &CpuId| then[cpu].time >= HOT && usable.contains(*cpu);
    let Some(hot) = hottest.filter(is_hot).filter(|_| truth.damage == Damage::Nothing) else { return Ok(()) };
    let of = |cpu: CpuId| truth.cpus.iter().find(|one| one.id == cpu);
    let near = of(hot).map(|cpu| truth.of_node(cpu.node).intersection(&usable)).unwrap_or_default();
    let is_idle = |cpu: &CpuId| then[cpu].time < IDLE && of(*cpu).is_some_and(|cpu| cpu.program < IDLE);
    let idle = near.iter().filter(is_idle).count().min(request.options.cpus_per_queue.unwrap_or(usize::MAX));
    let others = then.iter().filter(|(cpu, _)| **cpu != hot).map(|(_, work)| work.time).fold(0.0, f64::max);
    let is_planned = |nic: &&Nic| request.options.nics.is_empty() && truth.counts_queues(nic);
    for nic in after.nics.iter().filter(is_planned).filter(|_| idle > 0) {
        let is_own =
            |planned: &PlannedSetting| planned.set.target.nic().is_some_and(|own| *own.as_str() == nic.name);
        let from = if plan.settings.iter().any(is_own) { &then } else { &work };
        let time = from[&hot].time;
        let here = |queue: &&Rx| nic.home(queue) == Some(hot) && queue.rps.is_empty();
        for queue in nic.rx.iter().filter(here) {
            let own = queue.packets * truth.cost;
            // The kernel applies the first mask of some drivers to the packets of every queue.
            let is_alone = nic.is_recorded() || nic.rx.len() == 1;
            let by_mask = (time - own * (1.0 - KEPT)).max(own * HANDED / idle as f64);
            let by_mask = if is_alone { by_mask } else { time };
            let by_irq = if nic.is_managed || queue.irq.is_none() { time } else { own.max(time - own) };
            if by_mask.min(by_irq).max(others) * NEARLY < then[&hot].time {
                return Err(format!(
                    "CPU {hot} receives for {time:.3}; without the {own:.3} of one queue of {} for {by_mask:.3} by a \
                     mask, {by_irq:.3} by its interrupt",
                    nic.name
                ));
            }
        }
    }
    Ok(())
}

/// Rules about values that plans set: no plan may lead to more of their findings.
const ABOUT_VALUES: [&str; 8] = [
    "irq-on-wrong-node",
    "rps-mask-contains-irq-cpu",
    "rps-mask-contains-irq-sibling",
    "rps-mask-crosses-nodes",
    "rps-mask-unusable-cpus",
    "rps-masks-overlap",
    "queues-share-a-cpu",
    "xps-mismatch",
];

fn avoidable(before: &[Finding], then: &Seen, request: &Request) -> Result<(), String> {
    let about = |findings: &[Finding]| -> Vec<String> {
        let about = findings.iter().filter(|finding| ABOUT_VALUES.contains(&finding.id.as_str()));
        about.map(|finding| format!("{}: {}", finding.id, finding.title)).collect()
    };
    let (was, is) = (about(before), about(&doctor(&then.model, &then.rates, "").findings));
    // CPUs to be isolated are left at any cost.
    let is_asked = request.policy == Policy::Isolate || !request.options.isolated.is_empty();
    // One may take the place of another: an interrupt that returns to its node leaves a mask behind, and of several
    // crowded CPUs the worst is named.
    if is.len() > was.len() && !is_asked {
        return Err(format!("{} comes, instead of {}", is.join(", "), was.join(", ")));
    }
    Ok(())
}
