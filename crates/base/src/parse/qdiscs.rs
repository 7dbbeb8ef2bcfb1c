//! Queueing disciplines: the answer to rtnetlink's `RTM_GETQDISC`.
//!
//! Each message is a `struct tcmsg` and attributes; numbers are those of include/uapi/linux/rtnetlink.h and
//! gen_stats.h.

use super::{Attributes, WireError, messages};

/// A queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    pub ifindex: u32,
    /// Its kind: `fq_codel`; `ingress` and `clsact` hold the filters of received packets.
    pub kind: String,
    /// Packets dropped so far; of `ingress` and `clsact` those that a filter dropped. 32 bits wide.
    pub drops: u32,
}

// struct tcmsg: family, 3 bytes of padding, interface, handle, parent, information.
pub const TCMSG: usize = 20;
const IFINDEX_AT: usize = 4;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// In `struct gnet_stats_queue`, after the length and the backlog.
const DROPS_AT: usize = 8;

/// The queueing disciplines of an answer. Those without statistics are left out.
pub fn qdiscs(answer: &[u8]) -> Result<Vec<Qdisc>, WireError> {
    messages(answer)?.into_iter().filter_map(|message| one(message).transpose()).collect()
}

fn one(message: &[u8]) -> Result<Option<Qdisc>, WireError> {
    let (fixed, attributes) =
        message.split_at_checked(TCMSG).ok_or_else(|| WireError::new("a qdisc without its fixed part"))?;
    let attributes = Attributes::parse(attributes)?;
    let ifindex = fixed[IFINDEX_AT..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let kind = attributes.text(TCA_KIND)?;
    let statistics = attributes.nested(TCA_STATS2)?;
    let queue = statistics.get(TCA_STATS_QUEUE);
    let drops =
        queue.and_then(|queue| queue.get(DROPS_AT..)?.first_chunk()).map(|bytes| u32::from_ne_bytes(*bytes));
    let (Some(ifindex), Some(kind), Some(drops)) = (ifindex, kind, drops) else { return Ok(None) };
    Ok(Some(Qdisc { ifindex, kind: kind.to_owned(), drops }))
}

#[cfg(test)]
mod tests {
    use super::{Qdisc, TCMSG, qdiscs};
    use crate::parse::{attribute, one_message, words};

    fn message(drops: Option<u32>) -> Vec<u8> {
        let mut fixed = vec![0; TCMSG];
        fixed[4..8].copy_from_slice(&7u32.to_ne_bytes());
        let queue = |drops| attribute(7 | 0x8000, attribute(3, words(&[1, 2, drops, 4, 5])));
        one_message(&[fixed, attribute(1, b"clsact\0"), drops.map(queue).unwrap_or_default()].concat())
    }

    #[test]
    fn drops_by_interface() {
        let found = Qdisc { ifindex: 7, kind: "clsact".to_owned(), drops: 900 };
        assert_eq!(qdiscs(&message(Some(900))), Ok(vec![found]));
        assert_eq!(qdiscs(&message(None)), Ok(vec![]), "no statistics are not 0");
        assert!(qdiscs(&one_message(&[0; TCMSG - 1])).is_err());
        assert_eq!(qdiscs(&[]), Ok(vec![]));
    }
}
