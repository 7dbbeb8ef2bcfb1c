//! The driver recreated the interface or its queues: a reloaded module, a virtual interface
//! deleted and added, a changed channel count. New queues start with the kernel's defaults.

use super::{Culprit, Scene, Suspect};

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
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
    Suspect::of(Culprit::NewQueues, seen, evidence)
}

#[cfg(test)]
mod tests {
    use super::super::scene::Case;
    use super::super::{Culprit, Likelihood, in_words};

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
}
