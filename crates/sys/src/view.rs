//! Two views of one machine: the sysfs that is mounted on `/sys`, and the network namespace of the sockets.
//!
//! They differ after `nsenter -n` and `unshare -n`, and in a container with the `/sys` of its host. A process that may
//! mount its own sysfs has one view; for any other, both are compared.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Host, Query};
use rxlab_base::parse::links::{IFINFOMSG, IFLA_IFNAME};
use rxlab_base::parse::{Attributes, messages};

/// `IFLA_ADDRESS` of include/uapi/linux/if_link.h.
const ADDRESS: u16 = 1;

/// Comparisons until a difference counts: interfaces may come and go between the two lists.
const TRIES: u32 = 5;

/// The files are not those of the machine that this process acts on, or may not be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OtherView {
    /// Those in `/sys` are of another network namespace than the sockets of this process, or may be.
    #[error("/sys shows a network namespace other than this process's: {0}")]
    Namespace(String),
    /// The root has the files of the running kernel, whose changes are in the journal of the root `/`.
    #[error(
        "--root shows a running kernel, whose changes are recorded there: run rxlab in it, without --root"
    )]
    Root,
}

/// An interface as both views have it: its index and its hardware address.
type Seen = (String, String);

/// Compares the interfaces below `sys` with those that the kernel lists over a socket. Two namespaces with nothing but
/// a loopback interface look alike.
pub(super) fn compare(host: &dyn Host) -> Result<(), OtherView> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = in_files(host)
            .and_then(|files| difference(&files, &in_answer(host)?))
            .map_err(OtherView::Namespace);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn in_files(host: &dyn Host) -> Result<BTreeMap<String, Seen>, String> {
    let text = |name: &str, file: &str| host.read_text(&format!("sys/class/net/{name}/{file}"));
    let mut found = BTreeMap::new();
    let entries = host.entries("sys/class/net").map_err(|error| error.to_string())?;
    for entry in entries.into_iter().filter(|entry| entry.is_text) {
        // Plain files are next to the interfaces, and some of these may be gone by now.
        if let (Ok(index), Ok(address)) = (text(&entry.name, "ifindex"), text(&entry.name, "address")) {
            found.insert(entry.name, (index.trim().to_owned(), address.trim().to_owned()));
        }
    }
    Ok(found)
}

fn in_answer(host: &dyn Host) -> Result<BTreeMap<String, Seen>, String> {
    let answer = host.query(&Query::Links).map_err(|error| error.to_string())?;
    let mut found = BTreeMap::new();
    for message in messages(&answer).map_err(|error| error.to_string())? {
        let (header, rest) = message.split_at_checked(IFINFOMSG).ok_or("an answer is too short")?;
        let attributes = Attributes::parse(rest).map_err(|error| error.to_string())?;
        let index = header[4..8].try_into().map(u32::from_ne_bytes).unwrap_or_default();
        let address = attributes.get(ADDRESS).unwrap_or_default();
        let address: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
        // A name that is not UTF-8 cannot be compared; the others of its namespace are.
        if let Ok(Some(name)) = attributes.text(IFLA_IFNAME) {
            found.insert(name.to_owned(), (index.to_string(), address.join(":")));
        }
    }
    Ok(found)
}

fn difference(files: &BTreeMap<String, Seen>, answer: &BTreeMap<String, Seen>) -> Result<(), String> {
    if let Some(name) = answer.keys().find(|name| !files.contains_key(*name)) {
        return Err(format!("it has no {name}"));
    }
    for (name, (index, address)) in files {
        match answer.get(name) {
            None => return Err(format!("its {name} does not exist here")),
            Some((other, _)) if other != index => {
                return Err(format!("{name} has index {index} there and {other} here"));
            }
            Some((_, other)) if other != address => {
                return Err(format!("{name} has the address {address} there and {other} here"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::{Query, RecordedHost};
    use rxlab_base::parse::links::{IFINFOMSG, IFLA_IFNAME};
    use rxlab_base::parse::{attribute, one_message};

    /// A machine with these interfaces in files and in the answer of a socket: name, index and last byte of the address.
    fn machine(files: &[(&str, u32, u8)], answer: &[(&str, u32, u8)]) -> RecordedHost {
        let mut host = RecordedHost::new().with("sys/class/net/bonding_masters", "");
        for (name, index, last) in files {
            let base = format!("sys/class/net/{name}");
            host = host
                .with(&format!("{base}/ifindex"), format!("{index}\n"))
                .with(&format!("{base}/address"), format!("02:00:{last:02x}\n"));
        }
        let message = |(name, index, last): &(&str, u32, u8)| {
            let mut bytes = vec![0; IFINFOMSG];
            bytes[4..8].copy_from_slice(&index.to_ne_bytes());
            bytes.extend(attribute(IFLA_IFNAME, format!("{name}\0")));
            bytes.extend(attribute(super::ADDRESS, [2, 0, *last]));
            one_message(&bytes)
        };
        host.with(&Query::Links.path(), answer.iter().flat_map(message).collect::<Vec<u8>>())
    }

    #[test]
    fn one_view_is_told_from_two() {
        let here = [("lo", 1, 0), ("eth0", 2, 7)];
        assert_eq!(compare(&machine(&here, &here)), Ok(()));
        let none = "cannot query /netlink/route/link-get: not found";
        for (files, answer, why) in [
            (&here[..], &[("lo", 1, 0), ("eth0", 3, 7)][..], "eth0 has index 2 there and 3 here"),
            (&here, &[("lo", 1, 0), ("eth0", 2, 8)], "eth0 has the address 02:00:07 there and 02:00:08 here"),
            (&here, &[("lo", 1, 0)], "its eth0 does not exist here"),
            (&[("lo", 1, 0)], &here, "it has no eth0"),
        ] {
            let said = compare(&machine(files, answer)).expect_err("two views").to_string();
            let start = "/sys shows a network namespace other than this process's: ";
            assert_eq!(said, format!("{start}{why}"));
        }
        let unknown = compare(&RecordedHost::new().with("sys/class/net/lo/ifindex", "1\n"));
        assert!(unknown.expect_err("not proven").to_string().ends_with(none));
    }
}
