//! Files of systemd.link(5): the first one that matches an interface, with its drop-ins, sets values of it.
//!
//! udev compares when the interface appears; here its current properties are compared. A condition about anything that is
//! not visible from here leaves open if the file applies.

use std::collections::BTreeMap;

use super::{Effect, OtherOwner, Wanted, assignment, first_of_each_name, is_ours, owner};
use rxlab_base::parse::{ConfigurationEntry, configuration_entries, matches_glob};
use rxlab_path::model::{Model, Nic};
use rxlab_sys::Host;

/// Directories of the files, by precedence.
const DIRECTORIES: [&str; 4] = [
    "etc/systemd/network",
    "run/systemd/network",
    "usr/local/lib/systemd/network",
    "usr/lib/systemd/network",
];

/// Options of systemd.link(5), section `[Link]`.
const LINK: [(&str, &str); 16] = [
    ("ring_rx", "RxBufferSize"),
    ("ring_tx", "TxBufferSize"),
    ("channels", "RxChannels"),
    ("channels", "TxChannels"),
    ("channels", "CombinedChannels"),
    ("rx_checksum", "ReceiveChecksumOffload"),
    ("gro", "GenericReceiveOffload"),
    ("gro_hw", "GenericReceiveOffloadHardware"),
    ("lro", "LargeReceiveOffload"),
    ("ntuple", "NTupleFilter"),
    ("adaptive_rx", "UseAdaptiveRxCoalesce"),
    ("adaptive_tx", "UseAdaptiveTxCoalesce"),
    ("rx_usecs", "RxCoalesceSec"),
    ("rx_frames", "RxMaxCoalescedFrames"),
    ("tx_usecs", "TxCoalesceSec"),
    ("rps", "ReceivePacketSteeringCPUMask"),
];

/// Prefix of the options of systemd.link(5) about interrupts.
const IRQ_OPTIONS: &str = "IRQAffinity";

/// Answer to a condition of a file. The least one of all conditions is that of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    Maybe,
    Yes,
}

/// A file and its drop-ins, in the order in which systemd reads them.
struct LinkFile {
    name: String,
    texts: Vec<(String, String)>,
}

/// Lines of these files that set wanted values.
pub(super) fn owners(host: &dyn Host, model: &Model, wanted: &[Wanted<'_>]) -> Vec<OtherOwner> {
    let files: Vec<LinkFile> = first_of_each_name(host, &DIRECTORIES, "", ".link")
        .into_iter()
        .filter_map(|(name, path)| LinkFile::read(host, name, path))
        .collect();
    let mut found = Vec::new();
    for &(knob, nic) in wanted {
        let Some(nic) = nic.and_then(|nic| model.nic(nic)) else { continue };
        for file in &files {
            let entries = file.entries();
            let is_match = matches(host, nic, &entries);
            if is_match == Match::No {
                continue;
            }
            let effect = if is_match == Match::Yes { Effect::Sets } else { Effect::MaySet };
            // The last assignment of a key counts.
            let of_knob: BTreeMap<&str, &(&str, ConfigurationEntry<'_>)> = entries
                .iter()
                .filter(|(_, entry)| is_of_link(entry, knob))
                .map(|one| (one.1.key, one))
                .collect();
            let lines = of_knob.into_values().filter(|_| !is_ours(&file.name));
            found.extend(
                lines.map(|(path, entry)| owner(knob, "systemd .link", path, assignment(entry), effect)),
            );
            if is_match == Match::Yes {
                break;
            }
        }
    }
    found
}

impl LinkFile {
    /// `None` for a file without any entry, such as a link to `/dev/null`: it masks those of its name.
    fn read(host: &dyn Host, name: String, path: String) -> Option<Self> {
        let text = host.read_text(&path).ok().filter(|text| !configuration_entries(text).is_empty())?;
        let directories = DIRECTORIES.map(|directory| format!("{directory}/{name}.d"));
        let directories: Vec<&str> = directories.iter().map(String::as_str).collect();
        let drop_ins = first_of_each_name(host, &directories, "", ".conf").into_values();
        let drop_ins = drop_ins.filter_map(|path| Some((path.clone(), host.read_text(&path).ok()?)));
        let texts = [(path, text)].into_iter().chain(drop_ins).collect();
        Some(Self { name, texts })
    }

    /// Entries with the paths of their files.
    fn entries<'a>(&'a self) -> Vec<(&'a str, ConfigurationEntry<'a>)> {
        let of_text = |one: &'a (String, String)| {
            let entries = configuration_entries(&one.1).into_iter();
            entries.map(|entry| (one.0.as_str(), entry))
        };
        self.texts.iter().flat_map(of_text).collect()
    }
}

fn is_of_link(entry: &ConfigurationEntry<'_>, knob: &str) -> bool {
    entry.section == "Link"
        && (LINK.contains(&(knob, entry.key))
            || (knob == "irq_affinity" && entry.key.starts_with(IRQ_OPTIONS)))
}

/// All conditions of a file have to hold; without any it is for every interface. An empty value drops the list before it.
fn matches(host: &dyn Host, nic: &Nic, entries: &[(&str, ConfigurationEntry<'_>)]) -> Match {
    let mut conditions: BTreeMap<&str, String> = BTreeMap::new();
    for (_, entry) in entries.iter().filter(|(_, entry)| entry.section == "Match") {
        if entry.value.is_empty() {
            conditions.remove(entry.key);
        } else {
            let list = conditions.entry(entry.key).or_default();
            *list = format!("{list} {}", entry.value).trim_start().to_owned();
        }
    }
    let all = conditions.iter().map(|(key, list)| condition(host, nic, key, list));
    all.min().unwrap_or(Match::Yes)
}

fn condition(host: &dyn Host, nic: &Nic, key: &str, list: &str) -> Match {
    let attribute = |name: &str| {
        let text = host.read_text(&format!("sys/class/net/{}/{name}", nic.name)).ok()?;
        Some(text.trim().to_owned())
    };
    match key {
        "OriginalName" => {
            // 4 = renamed by a program, which hides the name that the kernel gave.
            let is_renamed = attribute("name_assign_type").as_deref() == Some("4");
            let name = (!is_renamed).then_some(nic.name.as_str());
            any_of(list, |pattern| glob(pattern, name))
        }
        "Driver" => {
            let driver = nic.hardware.driver.known().map(|info| info.driver.as_str());
            let driver = driver.or(nic.driver.as_deref());
            any_of(list, |pattern| glob(pattern, driver))
        }
        "Path" => any_of(list, |pattern| path(pattern, nic)),
        "Type" => {
            let kind = attribute("uevent").and_then(|text| {
                text.lines().find_map(|line| line.strip_prefix("DEVTYPE=").map(str::to_owned))
            });
            let kind = kind.or_else(|| match attribute("type")?.as_str() {
                "1" => Some("ether".to_owned()),
                "32" => Some("infiniband".to_owned()),
                "772" => Some("loopback".to_owned()),
                _ => None,
            });
            any_of(list, |pattern| glob(pattern, kind.as_deref()))
        }
        "MACAddress" => {
            let address = attribute("address");
            any_of(list, |wanted| hardware_address(wanted, address.as_deref()))
        }
        "PermanentMACAddress" => {
            // 0 = the address is the permanent one.
            let is_permanent = attribute("addr_assign_type").as_deref() == Some("0");
            let address = attribute("address").filter(|_| is_permanent);
            any_of(list, |wanted| hardware_address(wanted, address.as_deref()))
        }
        _ => Match::Maybe,
    }
}

/// One of the words has to match; `!` before the list inverts it.
fn any_of(list: &str, is_match: impl Fn(&str) -> Match) -> Match {
    let (inverted, list) = match list.strip_prefix('!') {
        Some(list) => (true, list),
        None => (false, list),
    };
    let one = list.split_whitespace().map(is_match).max().unwrap_or(Match::No);
    match one {
        Match::Yes if inverted => Match::No,
        Match::No if inverted => Match::Yes,
        one => one,
    }
}

/// `*` matches also what is not known.
fn glob(pattern: &str, found: Option<&str>) -> Match {
    match found {
        _ if pattern == "*" => Match::Yes,
        Some(found) if matches_glob(pattern, found) => Match::Yes,
        // Sets of characters are not compared here.
        Some(_) if !pattern.contains('[') => Match::No,
        _ => Match::Maybe,
    }
}

/// `ID_PATH` of udev is `pci-0000:03:00.0` for a function on the PCI bus, on some machines with what is above the bus
/// before it.
fn path(pattern: &str, nic: &Nic) -> Match {
    let function = nic.address.pci_function();
    let is_match = glob(pattern, function.map(|function| format!("pci-{function}")).as_deref());
    match is_match {
        _ if nic.address.is_virtual() => Match::No,
        Match::No if !pattern.starts_with("pci-") => Match::Maybe,
        is_match => is_match,
    }
}

/// Delimiters and case do not count.
fn hardware_address(wanted: &str, found: Option<&str>) -> Match {
    let digits = |text: &str| text.replace([':', '-', '.'], "").to_ascii_lowercase();
    match found {
        Some(found) if digits(found) == digits(wanted) => Match::Yes,
        Some(_) => Match::No,
        None => Match::Maybe,
    }
}

#[cfg(test)]
mod tests {
    use super::super::other_owners;
    use crate::knob::testbed::model;
    use rxlab_base::parse::ethtool::DriverInfo;
    use rxlab_path::model::{Fact, Model};
    use rxlab_sys::RecordedHost;

    /// `eth0` is the function 0000:00:03.0 with the driver ixgbe.
    fn ixgbe() -> Model {
        let mut model = model();
        let driver = DriverInfo { driver: "ixgbe".to_owned(), ..DriverInfo::default() };
        model.nics[0].hardware.driver = Fact::Known(driver);
        model
    }

    fn found(host: &RecordedHost, setting: &str) -> Vec<String> {
        let settings = [setting.parse().expect("a setting")];
        other_owners(host, &ixgbe(), &settings).iter().map(ToString::to_string).collect()
    }

    fn sysfs() -> RecordedHost {
        RecordedHost::new()
            .with("sys/class/net/eth0/address", "00:11:22:aa:bb:cc\n")
            .with("sys/class/net/eth0/addr_assign_type", "0\n")
            .with("sys/class/net/eth0/name_assign_type", "1\n")
            .with("sys/class/net/eth0/uevent", "INTERFACE=eth0\nIFINDEX=2\n")
            .with("sys/class/net/eth0/type", "1\n")
    }

    const SETS: &str = "also sets";
    const MAY: &str = "may change";
    const NOTHING: &str = "";

    /// Text about a file with this condition.
    #[track_caller]
    fn expect(host: RecordedHost, condition: &str, expected: &str) {
        let text = format!("[Match]\n{condition}\n[Link]\nRxBufferSize=max\n");
        let found = found(&host.with("etc/systemd/network/10-e.link", text), "ring_rx eth0 = 512");
        match expected {
            NOTHING => assert_eq!(found, [""; 0], "{condition}"),
            _ => assert!(found.len() == 1 && found[0].contains(expected), "{condition}: {found:?}"),
        }
    }

    #[test]
    fn each_condition_is_compared() {
        for (condition, expected) in [
            ("", SETS),
            ("Driver=ixgbe", SETS),
            ("Driver=virtio_net", NOTHING),
            ("Driver=i40e ixg*", SETS),
            ("Driver=!ixgbe i40e", NOTHING),
            ("Driver=!i40e", SETS),
            ("OriginalName=eth*", SETS),
            ("OriginalName=wl*", NOTHING),
            ("OriginalName=e[nt]h0", MAY),
            ("MACAddress=00-11-22-AA-BB-CC", SETS),
            ("MACAddress=0011.22aa.bbcd", NOTHING),
            ("PermanentMACAddress=00:11:22:aa:bb:cc", SETS),
            ("Path=pci-0000:00:03.0", SETS),
            ("Path=pci-0000:00:03.*", SETS),
            ("Path=pci-0000:04:00.0-*", NOTHING),
            ("Path=platform-*-pci-0000:00:03.0", MAY),
            ("Type=ether", SETS),
            ("Type=wlan", NOTHING),
            ("Host=web1", MAY),
            ("Kind=!*", MAY),
            ("Driver=ixgbe\nHost=web1", MAY),
            ("Driver=virtio_net\nHost=web1", NOTHING),
            ("Driver=virtio_net\nDriver=ixgbe", SETS),
            ("Driver=virtio_net\nDriver=", SETS),
        ] {
            expect(sysfs(), condition, expected);
        }
    }

    #[test]
    fn what_is_not_visible_is_left_open() {
        let unknown = RecordedHost::new;
        for condition in
            ["MACAddress=00:11:22:aa:bb:cc", "PermanentMACAddress=00:11:22:aa:bb:cc", "Type=ether"]
        {
            expect(unknown(), condition, MAY);
        }
        let renamed = || sysfs().with("sys/class/net/eth0/name_assign_type", "4\n");
        expect(renamed(), "OriginalName=eth*", MAY);
        expect(renamed(), "OriginalName=*", SETS);
        let assigned = sysfs().with("sys/class/net/eth0/addr_assign_type", "3\n");
        expect(assigned, "PermanentMACAddress=00:11:22:aa:bb:cc", MAY);
        let vlan = sysfs().with("sys/class/net/eth0/uevent", "DEVTYPE=vlan\nINTERFACE=eth0\n");
        expect(vlan, "Type=ether", NOTHING);
    }

    /// udev reads no file after it.
    #[test]
    fn the_first_file_that_matches_counts() {
        let link =
            |condition: &str, size: u32| format!("[Match]\n{condition}\n[Link]\nRxBufferSize={size}\n");
        let host = sysfs()
            .with("etc/systemd/network/05-a.link", link("Driver=virtio_net", 1))
            .with("etc/systemd/network/06-b.link", "")
            .with("usr/lib/systemd/network/06-b.link", link("Driver=ixgbe", 2))
            .with("run/systemd/network/07-c.link", link("Host=web1", 3))
            .with("usr/lib/systemd/network/10-d.link", link("Driver=ixgbe", 4))
            .with("etc/systemd/network/20-e.link", link("OriginalName=*", 5));
        let expected = [
            "/run/systemd/network/07-c.link:4 (systemd .link) may change ring_rx: RxBufferSize = 3",
            "/usr/lib/systemd/network/10-d.link:4 (systemd .link) also sets ring_rx: RxBufferSize = 4",
        ];
        assert_eq!(found(&host, "ring_rx eth0 = 512"), expected);
        let exported = host.with("etc/systemd/network/01-rxlab-eth0.link", link("OriginalName=eth0", 6));
        assert_eq!(found(&exported, "ring_rx eth0 = 512"), [""; 0], "ours is the one that applies");
    }

    #[test]
    fn drop_ins_are_part_of_their_file() {
        let host = sysfs()
            .with("usr/lib/systemd/network/10-e.link", "[Match]\nDriver=ixgbe\n[Link]\nRxBufferSize=max\n")
            .with(
                "etc/systemd/network/10-e.link.d/tune.conf",
                "[Link]\nIRQAffinityPolicy=spread\nRxBufferSize=9\n",
            )
            .with("usr/lib/systemd/network/10-e.link.d/tune.conf", "[Link]\nIRQAffinityPolicy=clear\n");
        let drop_in = "/etc/systemd/network/10-e.link.d/tune.conf";
        assert_eq!(
            found(&host, "irq_affinity eth0/rx-0 = 1"),
            [format!("{drop_in}:2 (systemd .link) also sets irq_affinity: IRQAffinityPolicy = spread")]
        );
        let overridden = [format!("{drop_in}:3 (systemd .link) also sets ring_rx: RxBufferSize = 9")];
        assert_eq!(found(&host, "ring_rx eth0 = 512"), overridden);
        let narrowed = host.with("run/systemd/network/10-e.link.d/z.conf", "[Match]\nOriginalName=wl*\n");
        assert_eq!(found(&narrowed, "ring_rx eth0 = 512"), [""; 0]);
    }
}
