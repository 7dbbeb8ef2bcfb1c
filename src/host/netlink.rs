//! Netlink sockets: one request out, its answers in, as bytes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use netlink_packet_core::{
    Emitable, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer, NetlinkHeader,
};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

use crate::parse::{Attributes, push_attribute, push_message};

/// Length of a netlink message's header.
const HEADER: usize = 16;
/// Length of a generic netlink header: command, version, two spare bytes.
const GENERIC_HEADER: usize = 4;

// The controller, which knows the numbers of the families (include/uapi/linux/genetlink.h).
const CONTROLLER: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// One request, or one that wants every object there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    One,
    Dump,
}

/// The sockets of one network namespace: that of the thread which opens them.
#[derive(Debug)]
pub(super) struct Netlink {
    // Locked for the length of a request, so that answers of two threads do not mix.
    generic: Mutex<Socket>,
    route: Mutex<Socket>,
    families: Mutex<BTreeMap<&'static str, u16>>,
}

impl Netlink {
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self {
            generic: Mutex::new(socket(NETLINK_GENERIC)?),
            route: Mutex::new(socket(NETLINK_ROUTE)?),
            families: Mutex::new(BTreeMap::new()),
        })
    }

    /// The attributes of every message with which a generic netlink family answers `command`, in the
    /// form of a recording. A family that this kernel does not have is ENOENT.
    pub(super) fn generic(
        &self,
        family: &'static str,
        command: u8,
        attributes: &[u8],
        extent: Extent,
    ) -> Result<Vec<u8>, Errno> {
        let family = self.family(family)?;
        let socket = self.generic.lock().expect("no asker panicked");
        exchange(&socket, family, &generic_payload(command, attributes), extent, GENERIC_HEADER)
    }

    /// The answers to a routing request, each with the fixed header of its type.
    pub(super) fn route(&self, kind: u16, payload: &[u8], extent: Extent) -> Result<Vec<u8>, Errno> {
        let socket = self.route.lock().expect("no asker panicked");
        exchange(&socket, kind, payload, extent, 0)
    }

    /// A socket of this network namespace, for what is asked by ioctl.
    pub(super) fn socket(&self) -> MutexGuard<'_, Socket> {
        self.generic.lock().expect("no asker panicked")
    }

    fn family(&self, name: &'static str) -> Result<u16, Errno> {
        let mut families = self.families.lock().expect("no asker panicked");
        if let Some(id) = families.get(name) {
            return Ok(*id);
        }
        let mut attributes = Vec::new();
        push_attribute(&mut attributes, CTRL_ATTR_FAMILY_NAME, format!("{name}\0").as_bytes());
        let payload = generic_payload(CTRL_CMD_GETFAMILY, &attributes);
        let socket = self.generic.lock().expect("no asker panicked");
        let answer = exchange(&socket, CONTROLLER, &payload, Extent::One, GENERIC_HEADER)?;
        let messages = crate::parse::messages(&answer).map_err(|_| Errno::BADMSG)?;
        let first = messages.first().ok_or(Errno::NOENT)?;
        let attributes = Attributes::parse(first).map_err(|_| Errno::BADMSG)?;
        let id = attributes.number(CTRL_ATTR_FAMILY_ID).map_err(|_| Errno::BADMSG)?;
        let id = id.and_then(|id| u16::try_from(id).ok()).ok_or(Errno::BADMSG)?;
        families.insert(name, id);
        Ok(id)
    }
}

fn socket(protocol: isize) -> Result<Socket, Errno> {
    let mut socket = Socket::new(protocol).map_err(errno)?;
    socket.bind_auto().map_err(errno)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
    Ok(socket)
}

fn generic_payload(command: u8, attributes: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0], attributes].concat()
}

/// Sends one request and collects its answers: up to the end mark of a dump, else one. `skip` bytes at
/// the start of each answer are a header that says nothing new.
fn exchange(
    socket: &Socket,
    kind: u16,
    payload: &[u8],
    extent: Extent,
    skip: usize,
) -> Result<Vec<u8>, Errno> {
    socket.send(&request(kind, payload, extent), 0).map_err(errno)?;
    let mut answers = Vec::new();
    loop {
        let (packet, _) = socket.recv_from_full().map_err(errno)?;
        let mut rest = packet.as_slice();
        while !rest.is_empty() {
            let message = NetlinkBuffer::new_checked(rest).map_err(|_| Errno::BADMSG)?;
            let length = message.length() as usize;
            let body = rest.get(HEADER..length).ok_or(Errno::BADMSG)?;
            match message.message_type() {
                NLMSG_NOOP => {}
                // Both carry an errno, 0 for "done" and "acknowledged".
                NLMSG_ERROR | NLMSG_DONE => return failure(body).map_or(Ok(answers), Err),
                _ => push_message(&mut answers, body.get(skip..).ok_or(Errno::BADMSG)?),
            }
            // Messages are padded to four bytes; the last one need not be.
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        if extent == Extent::One {
            return Ok(answers);
        }
    }
}

fn request(kind: u16, payload: &[u8], extent: Extent) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.length = u32::try_from(HEADER + payload.len()).expect("requests are short");
    header.message_type = kind;
    header.flags = match extent {
        Extent::One => NLM_F_REQUEST,
        Extent::Dump => NLM_F_REQUEST | NLM_F_DUMP,
    };
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// The errno at the start of an error or an end mark, if it is one.
fn failure(body: &[u8]) -> Option<Errno> {
    let code = i32::from_ne_bytes(*body.first_chunk()?);
    (code != 0).then(|| Errno::from_raw_os_error(code.saturating_neg()))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
