//! irqbalance moves every interrupt that is not banned in it, by default every 10 s.

use super::{Culprit, Scene, Suspect};
use crate::model::Fact;
use crate::plan::interrupts;
use crate::units::IrqId;

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
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
    Suspect::of(Culprit::Irqbalance, banned.is_some(), evidence)
}

#[cfg(test)]
mod tests {
    use super::super::scene::Case;
    use super::super::{Likelihood, in_words};
    use crate::units::{Fact, IrqId, Need};

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
}
