//! Questions to a driver: choice of the message of the `ethtool` generic netlink family, or of the ioctl.

use rustix::io::Errno;

use super::ethtool_ioctl as ioctl;
use super::netlink::{Extent, Netlink};
use super::{EthtoolChange, EthtoolGet};
use rxlab_base::parse::{NESTED, attribute};
use rxlab_base::units::NicName;

// Messages and attributes of include/uapi/linux/ethtool_netlink.h and ethtool_netlink_generated.h.
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const RINGS_GET: u8 = 15;
const RINGS_SET: u8 = 16;
const CHANNELS_GET: u8 = 17;
const CHANNELS_SET: u8 = 18;
const COALESCE_GET: u8 = 19;
const COALESCE_SET: u8 = 20;
const RSS_GET: u8 = 38;
// Every request begins with its header.
const A_HEADER: u16 = 1;
const A_HEADER_DEV_NAME: u16 = 2;
const A_RSS_START_CONTEXT: u16 = 7;

pub(super) fn query(netlink: &Netlink, get: EthtoolGet, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let one = |command: u8| netlink.generic("ethtool", command, &header(nic), Extent::One);
    match get {
        EthtoolGet::Channels => one(CHANNELS_GET),
        EthtoolGet::Rings => one(RINGS_GET),
        EthtoolGet::Coalesce => one(COALESCE_GET),
        EthtoolGet::Features => one(FEATURES_GET),
        EthtoolGet::Rss => one(RSS_GET),
        EthtoolGet::RssContexts => {
            // Context 0 is the answer to RSS_GET.
            let request = [header(nic), attribute(A_RSS_START_CONTEXT, 1u32.to_ne_bytes())].concat();
            netlink.generic("ethtool", RSS_GET, &request, Extent::Dump)
        }
        EthtoolGet::RssIoctl => ioctl::rss(&*netlink.socket(), nic),
        EthtoolGet::Driver => ioctl::driver(&*netlink.socket(), nic),
        EthtoolGet::StatNames => ioctl::stat_names(&*netlink.socket(), nic),
        EthtoolGet::Stats => ioctl::stats(&*netlink.socket(), nic),
        EthtoolGet::Rules => ioctl::rules(&*netlink.socket(), nic),
        EthtoolGet::RxRings => ioctl::rx_rings(&*netlink.socket(), nic),
        EthtoolGet::HashFields => ioctl::hash_fields(&*netlink.socket(), nic),
        EthtoolGet::QueueCoalesce => ioctl::queue_coalesce(&*netlink.socket(), nic),
    }
}

/// Sets attributes of the message that answers `get`; EOPNOTSUPP if netlink cannot set them.
pub(super) fn set(netlink: &Netlink, get: EthtoolGet, nic: &NicName, attributes: &[u8]) -> Result<(), Errno> {
    let command = match get {
        EthtoolGet::Features => FEATURES_SET,
        EthtoolGet::Rings => RINGS_SET,
        EthtoolGet::Channels => CHANNELS_SET,
        EthtoolGet::Coalesce => COALESCE_SET,
        _ => return Err(Errno::OPNOTSUPP),
    };
    let request = [header(nic), attributes.to_vec()].concat();
    netlink.generic("ethtool", command, &request, Extent::Change).map(|_| ())
}

/// Makes a change for which netlink has no message, or only a recent one.
pub(super) fn change(netlink: &Netlink, nic: &NicName, change: &EthtoolChange) -> Result<(), Errno> {
    let socket = &*netlink.socket();
    match change {
        EthtoolChange::Table { reset: true, .. } => ioctl::set_table(socket, nic, &[]),
        EthtoolChange::Table { queues, .. } => ioctl::set_table(socket, nic, queues),
        EthtoolChange::HashKey { key, .. } => ioctl::set_key(socket, nic, key),
        EthtoolChange::HashTransform { bits, .. } => ioctl::set_transform(socket, nic, *bits),
        EthtoolChange::HashFields { kind, fields } => ioctl::set_fields(socket, nic, kind, *fields),
        EthtoolChange::QueueDelay { queue, which, value } => {
            ioctl::set_queue_delay(socket, nic, *queue, *which, *value)
        }
        EthtoolChange::NewContext { id, queues } => {
            match ioctl::set_context(socket, nic, ioctl::NEW_CONTEXT, queues)? {
                given if given == *id => Ok(()),
                other => {
                    ioctl::set_context(socket, nic, other, &[])?;
                    Err(Errno::EXIST)
                }
            }
        }
        EthtoolChange::Context { id, queues } => ioctl::set_context(socket, nic, *id, queues).map(drop),
        EthtoolChange::NoContext { id } => ioctl::set_context(socket, nic, *id, &[]).map(drop),
        EthtoolChange::Rule { rule, .. } => ioctl::insert_rule(socket, nic, rule),
        EthtoolChange::NoRule { location } => ioctl::delete_rule(socket, nic, *location),
    }
}

fn header(nic: &NicName) -> Vec<u8> {
    attribute(A_HEADER | NESTED, attribute(A_HEADER_DEV_NAME, format!("{nic}\0")))
}
