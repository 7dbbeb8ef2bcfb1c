//! CPUs went offline or came online. An interrupt whose last CPU goes offline moves to all online CPUs
//! and stays there when the CPU returns; virtio spreads its interrupts again at each such event.

use super::{Culprit, Scene, Suspect};

/// Knobs whose values the kernel or a driver changes at such an event.
const CHANGED: [&str; 3] = ["irq_affinity", "xps_cpus", "affinity"];

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
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
    Suspect::of(Culprit::CpuHotplug, probable, evidence)
}

#[cfg(test)]
mod tests {
    use super::super::scene::Case;
    use super::super::{Culprit, Likelihood, in_words};

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
}
