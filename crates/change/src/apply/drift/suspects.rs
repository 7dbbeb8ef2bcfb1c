//! Suspects for a changed value: one function each, which returns the evidence. [`SUSPECTS`] is the only list.

use super::{Culprit, Scene, Suspect};
use crate::knob::{self, ALL};
use rxlab_base::parse::thread_name;
use rxlab_base::units::IrqId;
use rxlab_path::model::{Fact, NicKind};
use rxlab_path::sample::may_be_of_root;
use rxlab_setting::interrupts;

/// All suspects, those that affect most values first.
pub(super) static SUSPECTS: &[fn(&Scene<'_>) -> Option<Suspect>] =
    &[device_gone, new_queues, link_reset, cpu_hotplug, later_transaction, irqbalance, another_rxlab];

/// The device is gone: unplugged, unbound from its driver, or moved to another namespace.
fn device_gone(scene: &Scene<'_>) -> Option<Suspect> {
    if scene.target.is_some() {
        return None;
    }
    // A virtual interface that was made again has the address of the one before.
    let hardware = scene.touched.device.iter().filter(|device| device.is_hardware());
    let evidence = hardware.map(|device| format!("no interface has the address {device}")).collect();
    Suspect::from_evidence(Culprit::DeviceGone, true, evidence)
}

/// The driver recreated the interface or its queues: a reloaded module, a virtual interface
/// deleted and added, a changed channel count. New queues start with the kernel's defaults.
fn new_queues(scene: &Scene<'_>) -> Option<Suspect> {
    let nic = scene.nic()?;
    let mut evidence = Vec::new();
    if let Some((then, now)) = scene.device() {
        if let (Some(then), Some(now)) = (then.ifindex, now.ifindex)
            && then != now
        {
            evidence.push(format!("ifindex of {} changed from {then} to {now}: it was recreated", nic.name));
        }
        if let (Some(then), Some(now)) = (then.carrier_downs, now.carrier_downs)
            && now < then
        {
            evidence.push("its lost-link count was reset".to_owned());
        }
        // Not the driver, but a transaction: see `later_transaction`.
        let is_ours = scene.later.is_some_and(|(_, write)| write.knob == "channels");
        for (kind, then, now) in
            [("receive", then.rx_queues, now.rx_queues), ("transmit", then.tx_queues, now.tx_queues)]
        {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
                && !is_ours
            {
                let queues = if then == 1 { "queue" } else { "queues" };
                evidence.push(format!("{} had {then} {kind} {queues}, now {now}", nic.name));
            }
        }
    }
    let seen = !evidence.is_empty();
    if let Some(live) = scene.live.filter(|_| !seen && scene.is_fresh()) {
        evidence.push(format!("{live} is the value of a new queue"));
    }
    Suspect::from_evidence(Culprit::NewQueues, seen, evidence)
}

/// The link went down, as when a driver resets its device: some drivers then set up interrupts,
/// rings and coalescing again.
fn link_reset(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    let nic = scene.nic()?;
    let (then, now) = scene.device()?;
    let lost = now.carrier_downs?.checked_sub(then.carrier_downs?).filter(|lost| *lost > 0)?;
    let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
    // A virtual interface has nothing to set up again, and a reset never leaves a chosen value.
    let probable = nic.kind == NicKind::Device && scene.is_fresh();
    let evidence = vec![format!("{} lost its link {times} since it was set", nic.name)];
    Suspect::from_evidence(Culprit::LinkReset, probable, evidence)
}

/// Knobs whose values the kernel or a driver changes when CPUs go offline or come online.
const CHANGED: [&str; 3] = ["irq_affinity", "xps_cpus", "affinity"];

/// Of a thread only the loss of its last CPU changes the value.
const THREAD: &str = "napi_affinity";

/// CPUs went offline or came online. An interrupt whose last CPU goes offline moves to all online CPUs
/// and stays there when the CPU returns; virtio spreads its interrupts again at each such event.
fn cpu_hotplug(scene: &Scene<'_>) -> Option<Suspect> {
    let live = scene.live?;
    let wanted = scene.knob.cpus(&scene.touched.wanted)?;
    let online = scene.now.online.as_ref()?;
    let changed = CHANGED.contains(&scene.knob.name());
    let is_thread = scene.knob.name() == THREAD;
    let is_everywhere = live == ALL || scene.knob.cpus(live).as_ref() == Some(online);
    let mut evidence = Vec::new();
    let mut probable = false;
    let offline = wanted.difference(online);
    if !offline.is_empty() {
        let (cpus, are) = if offline.len() == 1 { ("CPU", "is") } else { ("CPUs", "are") };
        evidence.push(format!("{cpus} {offline} of the wanted {wanted} {are} offline"));
        probable = changed || (is_thread && is_everywhere && offline == wanted);
    }
    let then = scene.then.and_then(|then| then.online.as_ref());
    if let Some(then) = then.filter(|then| *then != online) {
        evidence.push(format!("CPUs {then} were online when it was set, {online} are now"));
        let spreads = scene.nic().is_some_and(|nic| nic.driver_facts().spreads_irqs_on_hotplug);
        probable |= changed && (spreads || scene.is_fresh());
    }
    let is_fallback = (changed || is_thread) && is_everywhere && wanted != *online;
    if evidence.is_empty() && is_fallback {
        evidence
            .push("all online CPUs, as the kernel sets when the last CPU of a value goes offline".to_owned());
    }
    Suspect::from_evidence(Culprit::CpuHotplug, probable, evidence)
}

/// A later transaction wrote a value that replaces this one, such as that of the whole interface, or removed its queue.
/// Values that a write only resets are set again after it. If the live value is not the one written, another program set it later.
fn later_transaction(scene: &Scene<'_>) -> Option<Suspect> {
    let (id, write) = scene.later?;
    let replaces = knob::find(&write.knob)?.replaces().contains(&scene.knob.name());
    if replaces && scene.live.is_some_and(|live| !scene.knob.same(&write.wanted, live)) {
        return None;
    }
    let target = scene.nic().map_or_else(|| write.target.clone(), |nic| write.target.of_nic(&nic.name));
    let evidence = vec![format!("{id} set {} {target} = {}", write.knob, write.wanted)];
    Suspect::from_evidence(Culprit::LaterTransaction, replaces || scene.live.is_none(), evidence)
}

/// irqbalance moves every interrupt that is not banned in it, by default every 10 s.
fn irqbalance(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    if scene.knob.name() != "irq_affinity" {
        return None;
    }
    let Fact::Known(Some(irqbalance)) = &scene.model.irqbalance else { return None };
    let found = interrupts(scene.nic()?, scene.target?).into_iter();
    let free = found.filter(|irq| !irqbalance.leaves(irq.number, &irq.action));
    let irqs: Vec<IrqId> = free.map(|irq| irq.number).collect();
    let is_told = irqbalance.banned_irqs.known().is_some();
    if irqs.is_empty() {
        return None;
    }
    let numbers = irqs.iter().map(IrqId::to_string).collect::<Vec<_>>().join(", ");
    let about = match (is_told, irqs.len()) {
        (true, 1) => format!("interrupt {numbers} is not banned there"),
        (true, _) => format!("interrupts {numbers} are not banned there"),
        (false, _) => format!("it does not report if interrupt {numbers} is banned"),
    };
    let mut evidence = vec![format!("running (pid {})", irqbalance.pid), about];
    let script =
        irqbalance.policy_script().map(|script| format!("its policy script {script} may leave any alone"));
    let is_probable = is_told && script.is_none();
    evidence.extend(script);
    Suspect::from_evidence(Culprit::Irqbalance, is_probable, evidence)
}

/// Commands that change values.
const VERBS: [&str; 9] =
    ["apply", "undo", "reapply", "restore", "trial", "tune", "interference", "demo", "guard"];

/// Another rxlab that changes values and keeps its journal elsewhere: our own lock excludes others.
/// One that has ended is not visible.
fn another_rxlab(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    let own = scene.host.link("proc/self").ok();
    let processes = scene.host.list("proc").ok()?;
    let pids = processes.into_iter().filter(|name| name.parse::<u32>().is_ok() && Some(name) != own.as_ref());
    let evidence = pids.filter_map(|pid| {
        let comm = scene.host.read_text(&format!("proc/{pid}/comm")).ok()?;
        if thread_name(&comm) != "rxlab" {
            return None;
        }
        // First: reading the arguments of a user's process may take as long as the user wants.
        if !may_be_of_root(scene.host, pid.parse().ok()?) {
            return None;
        }
        let line = scene.host.read_text(&format!("proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let verb = words.iter().find(|word| VERBS.contains(word))?;
        // The transaction's own guard reverts the value, but no sooner than due.
        (!words.contains(&scene.id)).then(|| format!("`rxlab {verb}` is running (pid {pid})"))
    });
    Suspect::from_evidence(Culprit::AnotherRxlab, false, evidence.collect())
}

#[cfg(test)]
mod tests {
    use super::super::in_words;
    use super::super::scene::{Case, ID};
    use rxlab_base::units::{Fact, IrqId, Need};

    const UNKNOWN: &str = "cause unknown";

    #[track_caller]
    fn expect(case: &Case, words: &str) {
        assert_eq!(in_words(&case.suspects()), words);
    }

    #[test]
    fn an_address_that_no_interface_has() {
        let words = "probably the device is gone: no interface has the address pci:0000:00:03.0";
        expect(&Case::new("rps eth0/rx-0 = 2").without_nics(), words);
    }

    #[test]
    fn queues_that_were_made_again() {
        let case = Case::new("rps eth0/rx-0 = 2").live("off");
        let probably = "probably new queues created by the driver:";
        expect(
            &Case::new("rps veth0/rx-0 = 2").live("off").ifindex(3, 9),
            &format!("{probably} ifindex of veth0 changed from 3 to 9: it was recreated"),
        );
        let fewer = format!("{probably} eth0 had 4 receive queues, now 2");
        expect(&case.clone().rx_queues(4, 2), &fewer);
        // Also of a queue that is gone.
        expect(&Case::new("rps eth0/rx-3 = 2").rx_queues(4, 2), &fewer);
        // Which rxlab has removed itself.
        let by_us = case.clone().rx_queues(4, 2).later("channels eth0 = combined 2").suspects();
        assert!(!in_words(&by_us).contains("created by the driver: eth0 had"), "{by_us:?}");
        // A count that was reset is not a lost link.
        expect(&case.clone().downs(5, 1), &format!("{probably} its lost-link count was reset"));
        // A default alone is a mere possibility.
        let possibly = "possibly new queues created by the driver:";
        expect(&case, &format!("{possibly} off is the value of a new queue"));
        let rfs = Case::new("rfs eth0/rx-0 = 4096");
        expect(&rfs.clone().live("0"), &format!("{possibly} 0 is the value of a new queue"));
        expect(&rfs.live("512"), UNKNOWN);
        // A thread that is older than the transaction was not made again.
        let thread = Case::new("napi_affinity eth0/rx-0 = 2").live("all");
        let offline =
            "CPU hotplug: all online CPUs, as the kernel sets when the last CPU of a value goes offline";
        expect(&thread.clone().thread(5), &format!("possibly {offline}"));
        expect(&thread.thread(500), &format!("{possibly} all is the value of a new queue; or {offline}"));
    }

    #[test]
    fn a_lost_link_is_probable_with_a_default_only() {
        let case = Case::new("irq_affinity eth0/rx-0 = 2");
        let lost = "a link reset: eth0 lost its link 2 times since it was set";
        expect(&case.clone().live("0-6").downs(0, 2), &format!("probably {lost}"));
        expect(&case.clone().live("4").downs(0, 2), &format!("possibly {lost}"));
        expect(&case.live("4").downs(2, 2), UNKNOWN);
        // The machine's own values have no link.
        expect(&Case::new("rfs_entries host = 4096").live("0").downs(0, 2), UNKNOWN);
    }

    #[test]
    fn cpus_that_went_offline() {
        expect(
            &Case::new("irq_affinity eth0/rx-0 = 5").live("0-4,6").online("0-6", "0-4,6"),
            "probably CPU hotplug: CPU 5 of the wanted 5 is offline, CPUs 0-6 were online when it was set, \
             0-4,6 are now",
        );
        // The kernel keeps RPS masks when CPUs go offline: a change of one has another cause.
        expect(
            &Case::new("rps eth0/rx-0 = 4-5").live("4").online("0-6", "0-4,6"),
            "possibly CPU hotplug: CPU 5 of the wanted 4-5 is offline, CPUs 0-6 were online when it was set, \
             0-4,6 are now",
        );
        let elsewhere = Case::new("irq_affinity eth0/rx-0 = 2").live("3").online("0-6", "0-5");
        let then_and_now = "CPU hotplug: CPUs 0-6 were online when it was set, 0-5 are now";
        expect(&elsewhere, &format!("possibly {then_and_now}"));
        // virtio spreads its interrupts at every event.
        expect(&elsewhere.driver("virtio_net"), &format!("probably {then_and_now}"));
        expect(
            &Case::new("napi_affinity eth0/rx-0 = 5").live("all").online("0-6", "0-4,6"),
            "probably CPU hotplug: CPU 5 of the wanted 5 is offline, CPUs 0-6 were online when it was set, \
             0-4,6 are now",
        );
        let pinned = Case::new("napi_affinity eth0/rx-0 = 5").live("3").driver("virtio_net");
        assert!(in_words(&pinned.online("0-6", "0-4,6").suspects()).starts_with("possibly CPU hotplug"));
        // Numbers are no CPUs.
        expect(&Case::new("rfs eth0/rx-0 = 4").live("8").online("0-6", "0-3"), UNKNOWN);
    }

    #[test]
    fn irqbalance_moves_interrupts_that_are_not_banned() {
        let banned = |irqs: &[u32]| Fact::Known(irqs.iter().copied().map(IrqId).collect());
        let running = "irqbalance: running (pid 700),";
        let case = Case::new("irq_affinity eth0/rx-1 = 2").live("3");
        for (irqs, words) in [
            (&[][..], format!("probably {running} interrupts 25, 26 are not banned there")),
            (&[26], format!("probably {running} interrupt 25 is not banned there")),
            (&[25, 26], UNKNOWN.to_owned()),
        ] {
            expect(&case.clone().irqbalance(banned(irqs)), &words);
        }
        let of_device = Case::new("irq_affinity eth0/irq-virtio0-config = 2").live("3").config(30);
        expect(
            &of_device.irqbalance(banned(&[])),
            &format!("probably {running} interrupt 30 is not banned there"),
        );
        let case = Case::new("irq_affinity eth0/rx-0 = 2").live("3").irqbalance(Fact::Denied(Need::Root));
        expect(&case, &format!("possibly {running} it does not report if interrupt 24 is banned"));
        // It does not touch anything else.
        expect(&Case::new("rps eth0/rx-0 = 2").live("3").irqbalance(banned(&[])), UNKNOWN);
    }

    #[test]
    fn a_write_of_a_later_transaction() {
        let case = Case::new("queue_defer_hard_irqs eth0/rx-1 = 5").later("napi_defer_hard_irqs eth0 = 3");
        let words = "a later transaction: 000002-abcd set napi_defer_hard_irqs eth0 = 3";
        expect(&case.clone().live("3"), &format!("probably {words}"));
        // Set by others afterwards.
        expect(&case.live("9"), UNKNOWN);
        // Masks are set again after the queues are created.
        let case = Case::new("rps eth0/rx-1 = 5").later("channels eth0 = combined 1");
        let words = "a later transaction: 000002-abcd set channels eth0 = combined 1";
        expect(&case.clone().live("4"), &format!("possibly {words}"));
        expect(&case, &format!("probably {words}"));
    }

    #[test]
    fn one_that_changes_values_and_is_not_this_one() {
        let own_guard = format!("rxlab\0guard\0{ID}\0");
        let case = Case::new("rps eth0/rx-0 = 2")
            .live("3")
            .process(7, "rxlab", "rxlab\0reapply\0")
            .process(8, "rxlab", "rxlab\0--state-dir\0/tmp/x\0trial\0run\0")
            .process(9, "rxlab", "rxlab\0snapshot\0")
            .process(10, "rxlab", &own_guard)
            .process(11, "sh", "sh\0-c\0rxlab apply\0")
            .process(12, "rxlab", "rxlab\0apply\0")
            .file("proc/12/status", "Name:\trxlab\nUid:\t1000\t1000\t1000\t1000\n")
            .itself(7);
        expect(&case, "possibly another rxlab process: `rxlab trial` is running (pid 8)");
    }
}
