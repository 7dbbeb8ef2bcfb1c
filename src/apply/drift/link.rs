//! The link went down, as when a driver resets its device: some drivers then set up interrupts,
//! rings and coalescing again.

use super::{Culprit, Scene, Suspect};
use crate::model::NicKind;

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    let nic = scene.nic()?;
    let (then, now) = scene.device()?;
    let lost = now.carrier_downs?.checked_sub(then.carrier_downs?).filter(|lost| *lost > 0)?;
    let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
    // A virtual interface has nothing to set up again, and a reset never leaves a chosen value.
    let probable = nic.kind == NicKind::Device && scene.is_fresh();
    let evidence = vec![format!("{} lost its link {times} since it was set", nic.name)];
    Suspect::of(Culprit::LinkReset, probable, evidence)
}

#[cfg(test)]
mod tests {
    use super::super::Likelihood;
    use super::super::scene::Case;

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
}
