//! Which interrupt is shown for which receive queue, on the machines of `machines/published.txt` and `machines/composed.txt`.

use crate::model::Model;
use crate::sample::{Inventory, Scope, pci_function};
use rxlab_sys::RecordedHost;

struct Machine {
    name: &'static str,
    /// Lines of /proc/interrupts without counts.
    interrupts: Vec<String>,
    devices: Vec<Device>,
}

struct Device {
    /// Below `/sys/devices`.
    path: &'static str,
    driver: &'static str,
    /// First and last interrupt of its function's list, if that has one.
    list: Option<(u32, u32)>,
    /// The interrupt of each receive queue, if it can be known.
    irqs: Vec<Option<u32>>,
}

const PCI: &str = "pci0000:00/0000:04:00.0/net/eth0";

fn published() -> Vec<Machine> {
    let machine = |block: &'static str| {
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        let name = lines.next()?;
        let (devices, interrupts): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("nic "));
        let interrupts = interrupts.into_iter().map(str::to_owned).collect();
        Some(Machine { name, interrupts, devices: devices.into_iter().map(device).collect() })
    };
    include_str!("machines/published.txt").split("\n\n").filter_map(machine).collect()
}

/// `nic PATH DRIVER [list FIRST-LAST] queues IRQ...`
fn device(line: &'static str) -> Device {
    let (words, irqs) = line.split_once(" queues ").expect(line);
    let words: Vec<&str> = words.split(' ').collect();
    let (path, driver, list) = match words[..] {
        ["nic", path, driver] => (path, driver, None),
        ["nic", path, driver, "list", list] => (path, driver, list.split_once('-')),
        _ => panic!("{line}"),
    };
    Device { path, driver, list: list.map(|(first, last)| (number(first), number(last))), irqs: each(irqs) }
}

fn composed() -> Vec<Machine> {
    let machine = |row: &'static str| {
        let columns: Vec<&str> = row.split(" | ").collect();
        let [device, actions, irqs] = columns[..] else { panic!("{row}") };
        let words: Vec<&str> = device.split(' ').collect();
        let (driver, path, is_listed) = match words[..] {
            [driver] => (driver, PCI, true),
            [driver, path] => (driver, path, false),
            [driver, path, "list"] => (driver, path, true),
            _ => panic!("{row}"),
        };
        let interrupts = numbered(&actions.split("; ").collect::<Vec<_>>());
        let list = is_listed.then_some((40, 39 + interrupts.len() as u32));
        Machine { name: driver, interrupts, devices: vec![Device { path, driver, list, irqs: each(irqs) }] }
    };
    let rows = include_str!("machines/composed.txt").lines();
    rows.filter(|row| !row.is_empty() && !row.starts_with('#')).map(machine).collect()
}

/// Two interfaces of one function, of which the second has no interrupts of its own, or shares all.
fn ports() -> Vec<Machine> {
    let machine = |driver, actions: &[&str], irqs: [Option<u32>; 2]| {
        let paths = [PCI, "pci0000:00/0000:04:00.0/net/eth1"].into_iter().zip(irqs);
        let device = |(path, irq)| Device { path, driver, list: Some((40, 49)), irqs: vec![irq] };
        Machine { name: driver, interrupts: numbered(actions), devices: paths.map(device).collect() }
    };
    vec![
        // A representor of a virtual function next to the physical one.
        machine("ice", &["ice-0000:04:00.0:misc", "ice-eth0-TxRx-0"], [Some(41), None]),
        machine("nfp", &["eth0-exn", "eth0-rxtx-0"], [Some(41), None]),
        machine("sky2", &["sky2@pci:0000:04:00.0"], [Some(40), Some(40)]),
        machine("mlxsw_spectrum", &["mlxsw_spectrum"], [Some(40), Some(40)]),
    ]
}

/// Lines of /proc/interrupts, numbered from 40.
fn numbered(actions: &[&str]) -> Vec<String> {
    (40..).zip(actions).map(|(number, action)| format!("{number}: GICv3 {number} Level {action}")).collect()
}

fn each(irqs: &str) -> Vec<Option<u32>> {
    irqs.split(' ').map(|irq| (irq != "-").then(|| number(irq))).collect()
}

fn number(text: &str) -> u32 {
    text.parse().expect(text)
}

impl Device {
    fn name(&self) -> &'static str {
        self.path.rsplit('/').next().expect("a name")
    }

    /// The host with its files in sysfs.
    fn render(&self, host: RecordedHost, ifindex: u32) -> RecordedHost {
        let base = format!("sys/class/net/{}", self.name());
        let mut host = host
            .with_link(&base, &format!("../../devices/{}", self.path))
            .with(&format!("{base}/ifindex"), format!("{ifindex}\n"))
            .with(&format!("{base}/operstate"), "up\n");
        if self.driver != "-" {
            let driver = format!("../../bus/drivers/{}", self.driver);
            host = host.with_link(&format!("{base}/device/driver"), &driver);
        }
        for queue in 0..self.irqs.len() {
            host = host.with(&format!("{base}/queues/rx-{queue}/rps_cpus"), "0\n");
        }
        let function = pci_function(self.path);
        for number in self.list.into_iter().flat_map(|(first, last)| first..=last) {
            let function = function.expect("a list is of a function");
            host = host.with(&format!("sys/bus/pci/devices/{function}/msi_irqs/{number}"), "msix\n");
        }
        host
    }
}

/// What is shown of machines with this kernel and is not so.
fn wrong(release: &str, machines: &[Machine]) -> Vec<String> {
    assert!(!machines.is_empty());
    let mut wrong = Vec::new();
    for machine in machines {
        let mut table = "  CPU0\n".to_owned();
        for line in &machine.interrupts {
            let (number, rest) = line.split_once(' ').expect("a number");
            table += &format!(" {number} 0 {rest}\n");
        }
        let host =
            RecordedHost::new().with("proc/interrupts", table).with("proc/sys/kernel/osrelease", release);
        let host = (2..).zip(&machine.devices).fold(host, |host, (index, device)| device.render(host, index));
        let model = Model::new(&Inventory::take(&host, Scope::All));
        for device in &machine.devices {
            let nic = model.nics.iter().find(|nic| nic.name.as_str() == device.name()).expect("shown");
            let shown: Vec<Vec<u32>> =
                nic.rx.iter().map(|rx| rx.irqs.iter().map(|irq| irq.number.0).collect()).collect();
            let expected: Vec<Vec<u32>> = device.irqs.iter().map(|irq| Vec::from_iter(*irq)).collect();
            if shown != expected {
                wrong.push(format!("{}, {}: {shown:?}, are {expected:?}", machine.name, nic.name));
            }
        }
    }
    wrong
}

#[test]
fn interrupts_of_published_machines() {
    assert_eq!(wrong("6.6.0\n", &published()), [""; 0]);
}

#[test]
fn interrupts_of_composed_machines() {
    assert_eq!(wrong("6.12.0\n", &composed()), [""; 0]);
}

#[test]
fn interrupts_of_two_interfaces_of_a_function() {
    assert_eq!(wrong("6.12.0\n", &ports()), [""; 0]);
}
