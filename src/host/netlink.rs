//! The kernel's `netdev` generic netlink family, as far as it is asked: packets by queue.
//!
//! Documentation/netlink/specs/netdev.yaml; the family exists since 6.3, `qstats-get` since 6.9.

mod qstats;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

use self::qstats::Qstats;
pub use self::qstats::QueueStats;

/// Packets by queue of every interface in this thread's network namespace. Drivers that do not
/// count by queue are left out.
pub(super) fn queue_stats() -> Result<Vec<QueueStats>, Errno> {
    let mut socket = Socket::new(NETLINK_GENERIC).map_err(errno)?;
    socket.bind_auto().map_err(errno)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
    let family = family_id(&socket, Qstats::family_name())?;
    let mut message = GenlMessage::from_payload(Qstats::request());
    message.set_resolved_family_id(family);
    let answers = exchange(&socket, message, NLM_F_REQUEST | NLM_F_DUMP)?;
    Ok(answers.into_iter().filter_map(|answer| answer.payload.stats).collect())
}

fn family_id(socket: &Socket, name: &str) -> Result<u16, Errno> {
    let nlas = vec![GenlCtrlAttrs::FamilyName(name.to_owned())];
    let message = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas });
    let answers = exchange(socket, message, NLM_F_REQUEST)?;
    let attributes = answers.into_iter().flat_map(|answer| answer.payload.nlas);
    let mut ids = attributes.filter_map(|attribute| match attribute {
        GenlCtrlAttrs::FamilyId(id) => Some(id),
        _ => None,
    });
    ids.next().ok_or(Errno::NOENT)
}

/// Sends one request and collects its answers: up to the end mark of a dump, else one.
fn exchange<F>(socket: &Socket, request: GenlMessage<F>, flags: u16) -> Result<Vec<GenlMessage<F>>, Errno>
where
    F: std::fmt::Debug,
    GenlMessage<F>: NetlinkSerializable + NetlinkDeserializable,
{
    let mut message = NetlinkMessage::from(request);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).map_err(errno)?;
    let mut answers = Vec::new();
    loop {
        let (packet, _) = socket.recv_from_full().map_err(errno)?;
        let mut rest = packet.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<GenlMessage<F>>::deserialize(rest).map_err(|_| Errno::BADMSG)?;
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Error(error) => {
                    return Err(error.code.map_or(Errno::IO, |code| Errno::from_raw_os_error(-code.get())));
                }
                NetlinkPayload::Done(_) => return Ok(answers),
                _ => {}
            }
            // Messages are padded to four bytes; the last one need not be.
            let length = (message.header.length as usize).next_multiple_of(4).max(4);
            rest = rest.get(length..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP != NLM_F_DUMP {
            return Ok(answers);
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
