//! Reads the environment of a transaction's values, for the journal and for comparison with it.

use crate::journal::{DeviceThen, Environment, Touched};
use rxlab_base::units::NicName;
use rxlab_path::model::{DeviceAddress, Model};
use rxlab_sys::Host;

/// Current environment of `touched`. Read from the files and not from `model`, which may predate
/// the writes: it only provides device names.
pub(super) fn environment(host: &dyn Host, model: &Model, touched: &[Touched]) -> Environment {
    let online = host.read_text("sys/devices/system/cpu/online").ok();
    let mut devices: Vec<DeviceThen> = Vec::new();
    for address in touched.iter().filter_map(|touched| touched.device.as_ref()) {
        let nic = model.nics.iter().find(|nic| nic.address == *address);
        if let Some(nic) = nic.filter(|_| devices.iter().all(|then| then.device != *address)) {
            devices.push(device(host, address, &nic.name));
        }
    }
    Environment { online: online.and_then(|list| list.trim().parse().ok()), devices }
}

/// True if the queue counts of an interface differ from `then`.
pub(super) fn has_other_queues(host: &dyn Host, then: &DeviceThen, nic: &NicName) -> bool {
    let now = device(host, &then.device, nic);
    let differs = |then: Option<u64>, now: Option<u64>| then.is_some() && now.is_some() && then != now;
    differs(then.rx_queues.map(u64::from), now.rx_queues.map(u64::from))
        || differs(then.tx_queues.map(u64::from), now.tx_queues.map(u64::from))
}

fn device(host: &dyn Host, address: &DeviceAddress, nic: &NicName) -> DeviceThen {
    let text = |file: &str| host.read_text(&format!("sys/class/net/{nic}/{file}")).ok();
    let queues = host.list(&format!("sys/class/net/{nic}/queues")).ok();
    let count = |kind: &str| {
        let names = queues.as_ref()?.iter().filter(|name| name.starts_with(kind));
        u32::try_from(names.count()).ok()
    };
    DeviceThen {
        device: address.clone(),
        ifindex: text("ifindex").and_then(|text| text.trim().parse().ok()),
        carrier_downs: text("carrier_down_count").and_then(|text| text.trim().parse().ok()),
        rx_queues: count("rx-"),
        tx_queues: count("tx-"),
    }
}

#[cfg(test)]
mod tests {
    use super::environment;
    use crate::journal::{DeviceThen, Environment, History, Intent, Record};
    use crate::knob::testbed::model;
    use rxlab_path::model::DeviceAddress;
    use rxlab_sys::RecordedHost;

    #[test]
    fn each_touched_device_once_and_no_other() {
        let address = DeviceAddress("pci:0000:00:03.0".into());
        let intent = |seq, name: &str, device: Option<&DeviceAddress>| {
            Record::Intent(Intent { seq, device: device.cloned(), ..Intent::sample("rps", name, "off", "1") })
        };
        let gone = DeviceAddress("pci:0000:00:09.0".into());
        let records = vec![
            intent(1, "eth0/rx-0", Some(&address)),
            intent(2, "eth0/rx-1", Some(&address)),
            intent(3, "eth9/rx-0", Some(&gone)),
            intent(4, "host", None),
        ];
        let touched = History { records, valid_bytes: 0 }.touched();
        let host = RecordedHost::new()
            .with("sys/devices/system/cpu/online", "0-6\n")
            .with("sys/class/net/eth0/ifindex", "4\n")
            .with("sys/class/net/eth0/carrier_down_count", "many\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")
            .with("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n");
        let then = DeviceThen {
            device: address,
            ifindex: Some(4),
            carrier_downs: None,
            rx_queues: Some(2),
            tx_queues: Some(1),
        };
        let online = Some("0-6".parse().expect("a list"));
        assert_eq!(environment(&host, &model(), &touched), Environment { online, devices: vec![then] });
        let bare = environment(&RecordedHost::new(), &model(), &[]);
        assert_eq!(bare, Environment::default());
    }
}
