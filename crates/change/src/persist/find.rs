//! Maps a persisted plan to the interfaces of a machine, and interfaces to persistent addresses.

use rxlab_base::units::NicName;
use rxlab_path::model::{DeviceAddress, Model, Nic};
use rxlab_setting::{Plan, PlannedSetting, Setting};
use rxlab_sys::Host;

/// Settings of a plan, by presence of their interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Present ones: as in the plan, and with current names.
    pub here: Vec<(PlannedSetting, PlannedSetting)>,
    /// Absent ones, as in the plan; not reported when one interface was asked for.
    pub absent: Vec<Setting>,
}

/// Finds the interface of each setting by the address in the plan, else by name. `mac` returns the
/// permanent hardware address of an interface. With `only` it keeps just the settings of that one.
pub fn found(
    plan: &Plan,
    model: &Model,
    mac: impl Fn(&NicName) -> Option<String>,
    only: Option<&NicName>,
) -> Found {
    let mut result = Found { here: Vec::new(), absent: Vec::new() };
    for planned in &plan.settings {
        let Some(name) = planned.set.target.nic() else {
            if only.is_none() {
                result.here.push((planned.clone(), planned.clone()));
            }
            continue;
        };
        let is_it = |nic: &&Nic| match planned.device.as_ref().map(|device| device.0.as_str()) {
            Some(address) => match address.strip_prefix("mac:") {
                Some(wanted) => mac(&nic.name).is_some_and(|mac| mac.eq_ignore_ascii_case(wanted)),
                None => nic.address.0 == address,
            },
            None => nic.name == *name,
        };
        match model.nics.iter().find(is_it) {
            Some(nic) if only.is_none_or(|only| *only == nic.name) => {
                let target = planned.set.target.of_nic(&nic.name);
                let set = Setting { target, ..planned.set.clone() };
                let device = Some(nic.address.clone());
                result.here.push((planned.clone(), PlannedSetting { set, device, ..planned.clone() }));
            }
            // Of an interface not asked for.
            Some(_) => {}
            None if only.is_none() => result.absent.push(planned.set.clone()),
            None => {}
        }
    }
    result
}

/// The plan with a persistent address for each interface: the hardware address from `mac`, else that of
/// the device. It belongs to the machine with that disk, so it names no host: host names change.
pub fn lasting(plan: &Plan, model: &Model, mac: impl Fn(&NicName) -> Option<String>) -> Plan {
    let mut plan = Plan { host: None, ..plan.clone() };
    for planned in &mut plan.settings {
        let nic = planned.set.target.nic().and_then(|name| model.nic(name));
        planned.device = nic.map(|nic| {
            let mac = mac(&nic.name).map(|mac| DeviceAddress(format!("mac:{mac}")));
            mac.unwrap_or_else(|| nic.address.clone())
        });
    }
    plan
}

/// Permanent hardware address of an interface; one that was assigned later does not last.
pub fn permanent_mac(host: &dyn Host, nic: &NicName) -> Option<String> {
    let read = |file: &str| host.read_text(&format!("sys/class/net/{nic}/{file}")).ok();
    let permanent = read("addr_assign_type")?.trim() == "0";
    permanent.then(|| read("address"))?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Found, found, lasting};
    use crate::knob::testbed::model;
    use rxlab_base::units::NicName;
    use rxlab_setting::{Plan, PlannedSetting};

    fn plan() -> Plan {
        let settings = ["rps eth0/rx-0 = 1", "rps veth0/rx-0 = 2", "rfs_entries host = 4096"];
        Plan::new("x", &settings.map(|setting| setting.parse().expect("a setting")))
    }

    fn mac(nic: &NicName) -> Option<String> {
        ["eth0", "lan0"].contains(&nic.as_str()).then(|| "52:54:00:98:00:0A".to_owned())
    }

    fn said(settings: &[(PlannedSetting, PlannedSetting)]) -> Vec<String> {
        settings.iter().map(|(_, planned)| planned.set.to_string()).collect()
    }

    /// After the boot another interface has the name `eth0`.
    #[test]
    fn an_interface_is_found_by_what_lasts() {
        let mut now = model();
        now.nics[0].name = "lan0".parse().expect("a name");
        now.nics[1].name = "eth0".parse().expect("a name");
        for by_mac in [false, true] {
            let kept = lasting(&plan(), &model(), |nic| mac(nic).filter(|_| by_mac));
            let address = &kept.settings[0].device.as_ref().expect("given").0;
            assert_eq!(address, if by_mac { "mac:52:54:00:98:00:0A" } else { "pci:0000:00:03.0" });
            assert_eq!(Plan::from_toml(&kept.to_toml()).as_ref(), Ok(&kept));
            let Found { here, absent } = found(&kept, &now, mac, None);
            let (rps, rfs) = ("rps lan0/rx-0 = 1".to_owned(), "rfs_entries host = 4096".to_owned());
            // A virtual one is identified by its name, which another one now has.
            assert_eq!(said(&here), [rps.clone(), "rps eth0/rx-0 = 2".to_owned(), rfs]);
            assert!(absent.is_empty());
            let only = found(&kept, &now, mac, Some(&"lan0".parse().expect("a name")));
            assert_eq!(said(&only.here), [rps]);
        }
    }

    #[test]
    fn what_is_not_here_is_named() {
        let mut now = model();
        let kept = lasting(&plan(), &now, |_| None);
        now.nics.remove(0);
        let Found { here, absent } = found(&kept, &now, |_| None, None);
        assert_eq!((here.len(), absent.len()), (2, 1));
        assert_eq!(absent[0].to_string(), "rps eth0/rx-0 = 1");
    }
}
