//! The device is gone: unplugged, unbound from its driver, or moved to another namespace.

use super::{Culprit, Scene, Suspect};

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
    if scene.target.is_some() {
        return None;
    }
    let evidence = scene.touched.device.iter().map(|device| format!("no interface has the address {device}"));
    Suspect::of(Culprit::DeviceGone, true, evidence.collect())
}

#[cfg(test)]
mod tests {
    use super::super::Culprit;
    use super::super::scene::Case;

    #[test]
    fn an_address_that_no_interface_has() {
        let [suspect] = &Case::new("rps eth0/rx-0 = 2").without_nics().suspects()[..] else { panic!("one") };
        assert_eq!(suspect.who, Culprit::DeviceGone);
        assert_eq!(suspect.evidence, ["no interface has the address pci:0000:00:03.0"]);
    }
}
