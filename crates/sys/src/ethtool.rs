//! Questions to a driver: choice of the message of the `ethtool` generic netlink family, or of the ioctl.
//!
//! An interface is its name or, if that may pass to another one meanwhile, its index. An ioctl needs a name: that of the index
//! is read right before.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;

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
const A_HEADER_DEV_INDEX: u16 = 1;
const A_HEADER_DEV_NAME: u16 = 2;
const A_RSS_START_CONTEXT: u16 = 7;

/// A name, and the index that stands for it.
pub(super) type Interface<'a> = (&'a NicName, Option<u32>);

pub(super) fn query(netlink: &Netlink, get: EthtoolGet, nic: Interface<'_>) -> Result<Vec<u8>, Errno> {
    let by_ioctl = |ask: fn(BorrowedFd<'_>, &NicName) -> Result<Vec<u8>, Errno>| {
        let name = name_now(netlink, nic)?;
        ask(netlink.socket().as_fd(), &name)
    };
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
        EthtoolGet::RssIoctl => by_ioctl(ioctl::rss),
        EthtoolGet::Driver => by_ioctl(ioctl::driver),
        EthtoolGet::StatNames => by_ioctl(ioctl::stat_names),
        EthtoolGet::Stats => by_ioctl(ioctl::stats),
        EthtoolGet::Rules => by_ioctl(ioctl::rules),
        EthtoolGet::RuleSlots => by_ioctl(ioctl::rule_slots),
        EthtoolGet::RxRings => by_ioctl(ioctl::rx_rings),
        EthtoolGet::HashFields => by_ioctl(ioctl::hash_fields),
        EthtoolGet::QueueCoalesce => by_ioctl(ioctl::queue_coalesce),
    }
}

/// Sets attributes of the message that answers `get`; EOPNOTSUPP if netlink cannot set them.
pub(super) fn set(
    netlink: &Netlink,
    get: EthtoolGet,
    nic: Interface<'_>,
    attributes: &[u8],
) -> Result<(), Errno> {
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

/// Makes a change for which netlink has no message, or only a recent one: that of RSS tables (`ETHTOOL_MSG_RSS_SET`, since
/// 6.17) leaves out changes behind the first quarter of a table (`rss_set_prep_indir` compares as many bytes as there are
/// entries). EAGAIN if the interface was renamed meanwhile: another one may have been changed.
pub(super) fn change(netlink: &Netlink, nic: Interface<'_>, change: &EthtoolChange) -> Result<(), Errno> {
    let name = name_now(netlink, nic)?;
    make(netlink, &name, change)?;
    if name_now(netlink, nic)? == name { Ok(()) } else { Err(Errno::AGAIN) }
}

fn make(netlink: &Netlink, nic: &NicName, change: &EthtoolChange) -> Result<(), Errno> {
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

fn header((nic, index): Interface<'_>) -> Vec<u8> {
    let device = match index {
        Some(index) => attribute(A_HEADER_DEV_INDEX, index.to_ne_bytes()),
        None => attribute(A_HEADER_DEV_NAME, format!("{nic}\0")),
    };
    attribute(A_HEADER | NESTED, device)
}

/// The name that an ioctl needs.
fn name_now(netlink: &Netlink, (nic, index): Interface<'_>) -> Result<NicName, Errno> {
    let Some(index) = index else { return Ok(nic.clone()) };
    // A name that is not UTF-8, or that no setting can have.
    index_to_name(&*netlink.socket(), index)?.parse().map_err(|_| Errno::ILSEQ)
}
