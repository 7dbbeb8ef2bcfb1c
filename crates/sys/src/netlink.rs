//! The netlink sockets of a network namespace, and the numbers of the families of generic netlink.

mod channel;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_SOCK_DIAG};
use rustix::io::Errno;

use channel::Channel;
pub(super) use channel::Extent;
use rxlab_base::parse::{Attributes, attribute};

/// Length of a generic netlink header: command, version, two spare bytes.
const GENERIC_HEADER: usize = 4;

// The controller, which assigns the numbers of the families (include/uapi/linux/genetlink.h).
const CONTROLLER: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// The sockets of one network namespace: that of the thread which opens them.
#[derive(Debug)]
pub(super) struct Netlink {
    // Locked for the length of a request, so that answers of two threads do not mix.
    generic: Mutex<Channel>,
    route: Mutex<Channel>,
    // Kernels may be built without it; the other sockets still work.
    diag: Result<Mutex<Channel>, Errno>,
    families: Mutex<BTreeMap<&'static str, u16>>,
}

impl Netlink {
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self {
            generic: Mutex::new(Channel::open(NETLINK_GENERIC)?),
            route: Mutex::new(Channel::open(NETLINK_ROUTE)?),
            diag: Channel::open(NETLINK_SOCK_DIAG).map(Mutex::new),
            families: Mutex::new(BTreeMap::new()),
        })
    }

    /// The attributes of every message with which a generic netlink family answers `command`, in the
    /// form of a recording. ENOENT if this kernel does not have the family.
    pub(super) fn generic(
        &self,
        family: &'static str,
        command: u8,
        attributes: &[u8],
        extent: Extent,
    ) -> Result<Vec<u8>, Errno> {
        let family = self.family(family)?;
        let mut channel = self.generic.lock().expect("no asker panicked");
        channel.exchange(family, &generic_payload(command, attributes), extent, GENERIC_HEADER)
    }

    /// The answers to a routing request, each with the fixed header of its type.
    pub(super) fn route(&self, kind: u16, payload: &[u8], extent: Extent) -> Result<Vec<u8>, Errno> {
        let mut channel = self.route.lock().expect("no asker panicked");
        channel.exchange(kind, payload, extent, 0)
    }

    /// The answers to a query about sockets, each with the fixed part of its type.
    pub(super) fn diagnose(&self, kind: u16, payload: &[u8], extent: Extent) -> Result<Vec<u8>, Errno> {
        let channel = self.diag.as_ref().map_err(|errno| *errno)?;
        let mut channel = channel.lock().expect("no asker panicked");
        channel.exchange(kind, payload, extent, 0)
    }

    /// A socket of this network namespace, for ioctls.
    pub(super) fn socket(&self) -> MutexGuard<'_, Channel> {
        self.generic.lock().expect("no asker panicked")
    }

    fn family(&self, name: &'static str) -> Result<u16, Errno> {
        let mut families = self.families.lock().expect("no asker panicked");
        if let Some(id) = families.get(name) {
            return Ok(*id);
        }
        let payload =
            generic_payload(CTRL_CMD_GETFAMILY, &attribute(CTRL_ATTR_FAMILY_NAME, format!("{name}\0")));
        let mut channel = self.generic.lock().expect("no asker panicked");
        let answer = channel.exchange(CONTROLLER, &payload, Extent::One, GENERIC_HEADER)?;
        let messages = rxlab_base::parse::messages(&answer).map_err(|_| Errno::BADMSG)?;
        let first = messages.first().ok_or(Errno::NOENT)?;
        let attributes = Attributes::parse(first).map_err(|_| Errno::BADMSG)?;
        let id = attributes.number(CTRL_ATTR_FAMILY_ID).map_err(|_| Errno::BADMSG)?;
        let id = id.and_then(|id| u16::try_from(id).ok()).ok_or(Errno::BADMSG)?;
        families.insert(name, id);
        Ok(id)
    }
}

fn generic_payload(command: u8, attributes: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0], attributes].concat()
}
