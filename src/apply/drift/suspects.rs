//! Suspects for a changed value: one function each, which returns the evidence. [`SUSPECTS`] is the only list.

use super::{Culprit, Scene, Suspect};
use crate::model::{Fact, NicKind};
use crate::parse::thread_name;
use crate::plan::interrupts;
use crate::units::IrqId;

/// All suspects, those that affect most values first.
pub(super) static SUSPECTS: &[fn(&Scene<'_>) -> Option<Suspect>] =
    &[device_gone, new_queues, link_reset, cpu_hotplug, irqbalance, another_rxlab];

/// The device is gone: unplugged, unbound from its driver, or moved to another namespace.
fn device_gone(scene: &Scene<'_>) -> Option<Suspect> {
    if scene.target.is_some() {
        return None;
    }
    let evidence = scene.touched.device.iter().map(|device| format!("no interface has the address {device}"));
    Suspect::from_evidence(Culprit::DeviceGone, true, evidence.collect())
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
            evidence.push(format!(
                "interface number of {} changed from {then} to {now}: it was recreated",
                nic.name
            ));
        }
        if let (Some(then), Some(now)) = (then.carrier_downs, now.carrier_downs)
            && now < then
        {
            evidence.push("its lost-link count was reset".to_owned());
        }
        for (kind, then, now) in
            [("receive", then.rx_queues, now.rx_queues), ("transmit", then.tx_queues, now.tx_queues)]
        {
            if let (Some(then), Some(now)) = (then, now)
                && then != now
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

/// CPUs went offline or came online. An interrupt whose last CPU goes offline moves to all online CPUs
/// and stays there when the CPU returns; virtio spreads its interrupts again at each such event.
fn cpu_hotplug(scene: &Scene<'_>) -> Option<Suspect> {
    let live = scene.live?;
    let wanted = scene.knob.cpus(&scene.touched.wanted)?;
    let online = scene.now.online.as_ref()?;
    let changed = CHANGED.contains(&scene.knob.name());
    let mut evidence = Vec::new();
    let mut probable = false;
    let offline = wanted.difference(online);
    if !offline.is_empty() {
        let (cpus, are) = if offline.len() == 1 { ("CPU", "is") } else { ("CPUs", "are") };
        evidence.push(format!("{cpus} {offline} of the wanted {wanted} {are} offline"));
        probable = changed;
    }
    let then = scene.then.and_then(|then| then.online.as_ref());
    if let Some(then) = then.filter(|then| *then != online) {
        evidence.push(format!("CPUs {then} were online when it was set, {online} are now"));
        let spreads = scene.nic().is_some_and(|nic| nic.driver.as_deref() == Some("virtio_net"));
        probable |= changed && (spreads || scene.is_fresh());
    }
    let everywhere = changed && scene.knob.cpus(live).as_ref() == Some(online) && wanted != *online;
    if evidence.is_empty() && everywhere {
        evidence.push("all online CPUs, as after the last CPU of a value goes offline".to_owned());
    }
    Suspect::from_evidence(Culprit::CpuHotplug, probable, evidence)
}

/// irqbalance moves every interrupt that is not banned in it, by default every 10 s.
fn irqbalance(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    if scene.knob.name() != "irq_affinity" {
        return None;
    }
    let Fact::Known(Some(irqbalance)) = &scene.model.irqbalance else { return None };
    let found = interrupts(scene.nic()?, scene.target?);
    let mut irqs: Vec<IrqId> = found.iter().map(|irq| irq.number).collect();
    let banned = irqbalance.banned_irqs.known();
    irqs.retain(|irq| !banned.is_some_and(|banned| banned.contains(irq)));
    if irqs.is_empty() {
        return None;
    }
    let numbers = irqs.iter().map(IrqId::to_string).collect::<Vec<_>>().join(", ");
    let about = match (banned.is_some(), irqs.len()) {
        (true, 1) => format!("interrupt {numbers} is not banned there"),
        (true, _) => format!("interrupts {numbers} are not banned there"),
        (false, _) => format!("it does not report if interrupt {numbers} is banned"),
    };
    let evidence = vec![format!("running (pid {})", irqbalance.pid), about];
    Suspect::from_evidence(Culprit::Irqbalance, banned.is_some(), evidence)
}

/// Commands that change values.
const VERBS: [&str; 6] = ["apply", "undo", "reapply", "trial", "demo", "guard"];

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
    use super::super::scene::{Case, ID};
    use super::super::{Culprit, Likelihood, in_words};
    use crate::units::{Fact, IrqId, Need};

    #[test]
    fn an_address_that_no_interface_has() {
        let [suspect] = &Case::new("rps eth0/rx-0 = 2").without_nics().suspects()[..] else { panic!("one") };
        assert_eq!(suspect.who, Culprit::DeviceGone);
        assert_eq!(suspect.evidence, ["no interface has the address pci:0000:00:03.0"]);
    }

    #[test]
    fn another_interface_number() {
        let suspects = Case::new("rps veth0/rx-0 = 2").live("off").ifindex(3, 9).suspects();
        assert_eq!(
            in_words(&suspects),
            "probably new queues created by the driver: \
             interface number of veth0 changed from 3 to 9: it was recreated"
        );
    }

    #[test]
    fn another_number_of_queues() {
        let suspects = Case::new("rps eth0/rx-0 = 2").live("off").rx_queues(4, 2).suspects();
        assert_eq!(suspects[0].evidence, ["eth0 had 4 receive queues, now 2"]);
        assert_eq!(suspects[0].likelihood, Likelihood::Probable);
        let gone = Case::new("rps eth0/rx-3 = 2").rx_queues(4, 2).suspects();
        assert_eq!((gone.len(), gone[0].who), (1, Culprit::NewQueues), "also of a queue that is gone");
    }

    #[test]
    fn a_count_that_was_reset_is_not_a_lost_link() {
        let suspects = Case::new("rps eth0/rx-0 = 2").live("off").downs(5, 1).suspects();
        assert_eq!((suspects.len(), suspects[0].who), (1, Culprit::NewQueues));
    }

    #[test]
    fn a_default_alone_is_a_mere_possibility() {
        for (setting, live) in [("rps eth0/rx-0 = 2", "off"), ("rfs eth0/rx-0 = 4096", "0")] {
            let suspects = Case::new(setting).live(live).suspects();
            assert_eq!((suspects.len(), suspects[0].likelihood), (1, Likelihood::Possible), "{setting}");
            assert_eq!(suspects[0].evidence, [format!("{live} is the value of a new queue")]);
        }
        assert_eq!(Case::new("rfs eth0/rx-0 = 4096").live("512").suspects(), []);
    }

    #[test]
    fn a_lost_link_and_a_default_are_probable() {
        let suspects = Case::new("irq_affinity eth0/rx-0 = 2").live("0-6").downs(0, 2).suspects();
        assert_eq!(suspects[0].evidence, ["eth0 lost its link 2 times since it was set"]);
        assert_eq!(suspects[0].likelihood, Likelihood::Probable);
    }

    #[test]
    fn a_lost_link_and_a_chosen_value_are_not() {
        let chosen = Case::new("irq_affinity eth0/rx-0 = 2").live("4").downs(0, 2).suspects();
        assert_eq!((chosen.len(), chosen[0].likelihood), (1, Likelihood::Possible));
        assert_eq!(Case::new("irq_affinity eth0/rx-0 = 2").live("4").downs(2, 2).suspects(), []);
        let host = Case::new("rfs_entries host = 4096").live("0").downs(0, 2).suspects();
        assert_eq!(host, [], "the machine's own values have no link");
    }

    #[test]
    fn a_wanted_cpu_is_offline() {
        let suspects =
            Case::new("irq_affinity eth0/rx-0 = 5").live("0-4,6").online("0-6", "0-4,6").suspects();
        assert_eq!(
            in_words(&suspects),
            "probably CPU hotplug: CPU 5 of the wanted 5 is offline, CPUs 0-6 were online when it was set, \
             0-4,6 are now"
        );
    }

    /// The kernel keeps RPS masks when CPUs go offline: a change of one has another cause.
    #[test]
    fn what_the_kernel_leaves_alone_is_a_mere_possibility() {
        let suspects = Case::new("rps eth0/rx-0 = 4-5").live("4").online("0-6", "0-4,6").suspects();
        assert_eq!((suspects.len(), suspects[0].likelihood), (1, Likelihood::Possible));
        let elsewhere = Case::new("irq_affinity eth0/rx-0 = 2").live("3").online("0-6", "0-5").suspects();
        assert_eq!((elsewhere.len(), elsewhere[0].likelihood), (1, Likelihood::Possible));
    }

    #[test]
    fn virtio_spreads_at_every_event() {
        let case =
            Case::new("irq_affinity eth0/rx-0 = 2").live("3").online("0-6", "0-5").driver("virtio_net");
        let suspects = case.suspects();
        assert_eq!((suspects[0].who, suspects[0].likelihood), (Culprit::CpuHotplug, Likelihood::Probable));
    }

    #[test]
    fn numbers_are_no_cpus() {
        assert_eq!(Case::new("rfs eth0/rx-0 = 4").live("8").online("0-6", "0-3").suspects(), []);
    }

    #[test]
    fn what_is_not_banned_is_probably_moved() {
        let case = Case::new("irq_affinity eth0/rx-1 = 2").live("3");
        let words = |banned: &[u32]| {
            let banned = banned.iter().copied().map(IrqId).collect();
            in_words(&case.clone().irqbalance(Fact::Known(banned)).suspects())
        };
        assert_eq!(
            words(&[]),
            "probably irqbalance: running (pid 700), interrupts 25, 26 are not banned there"
        );
        assert_eq!(words(&[26]), "probably irqbalance: running (pid 700), interrupt 25 is not banned there");
        assert_eq!(words(&[25, 26]), "cause unknown");
    }

    #[test]
    fn every_interrupt_of_the_device_may_be_moved() {
        let case = Case::new("irq_affinity eth0/irq-virtio0-config = 2").live("3").config(30);
        let words = in_words(&case.irqbalance(Fact::Known(Vec::new())).suspects());
        assert_eq!(words, "probably irqbalance: running (pid 700), interrupt 30 is not banned there");
    }

    #[test]
    fn one_that_does_not_tell_is_a_possibility() {
        let case = Case::new("irq_affinity eth0/rx-0 = 2").live("3").irqbalance(Fact::Denied(Need::Root));
        assert_eq!(case.suspects()[0].likelihood, Likelihood::Possible);
    }

    #[test]
    fn it_does_not_touch_anything_else() {
        let case = Case::new("rps eth0/rx-0 = 2").live("3").irqbalance(Fact::Known(Vec::new()));
        assert_eq!(case.suspects(), []);
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
            .itself(7);
        assert_eq!(
            in_words(&case.suspects()),
            "possibly another rxlab process: `rxlab trial` is running (pid 8)"
        );
    }
}
