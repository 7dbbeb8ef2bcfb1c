//! One answer of `qstats-get` with the scope "queue".

use netlink_packet_core::{DecodeError, Emitable, NLA_TYPE_MASK, NlasIterator, ParseableParametrized};
use netlink_packet_generic::{GenlFamily, GenlHeader};

use crate::units::QueueId;

/// Packets and bytes of one queue since the interface was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// The interface's index (`/sys/class/net/NAME/ifindex`).
    pub ifindex: u32,
    /// Which queue.
    pub queue: QueueId,
    /// Packets received or sent.
    pub packets: u64,
}

// Numbers of enum netdev_a and friends in include/uapi/linux/netdev.h.
const CMD_QSTATS_GET: u8 = 12;
const A_IFINDEX: u16 = 1;
const A_QUEUE_TYPE: u16 = 2;
const A_QUEUE_ID: u16 = 3;
const A_SCOPE: u16 = 4;
const A_RX_PACKETS: u16 = 8;
const A_TX_PACKETS: u16 = 10;
const QUEUE_TYPE_RX: u64 = 0;
const SCOPE_QUEUE: u32 = 1;

/// The request, or an answer; an answer without packet counts carries no statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Qstats {
    pub(super) stats: Option<QueueStats>,
}

impl Qstats {
    pub(super) fn request() -> Self {
        Self { stats: None }
    }
}

impl GenlFamily for Qstats {
    fn family_name() -> &'static str {
        "netdev"
    }

    fn command(&self) -> u8 {
        CMD_QSTATS_GET
    }

    fn version(&self) -> u8 {
        1
    }
}

/// A request is one attribute: the scope, as a 32-bit `uint`.
impl Emitable for Qstats {
    fn buffer_len(&self) -> usize {
        8
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer[..2].copy_from_slice(&8u16.to_ne_bytes());
        buffer[2..4].copy_from_slice(&A_SCOPE.to_ne_bytes());
        buffer[4..8].copy_from_slice(&SCOPE_QUEUE.to_ne_bytes());
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Qstats {
    fn parse_with_param(bytes: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        let (mut ifindex, mut kind, mut index, mut rx, mut tx) = (None, None, None, None, None);
        for attribute in NlasIterator::new(bytes) {
            let attribute = attribute?;
            let slot = match attribute.kind() & NLA_TYPE_MASK {
                A_IFINDEX => &mut ifindex,
                A_QUEUE_TYPE => &mut kind,
                A_QUEUE_ID => &mut index,
                A_RX_PACKETS => &mut rx,
                A_TX_PACKETS => &mut tx,
                _ => continue,
            };
            *slot = unsigned(attribute.value());
        }
        let narrow = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
        let stats = || {
            let receive = kind? == QUEUE_TYPE_RX;
            let index = narrow(index)?;
            let queue = if receive { QueueId::rx(index) } else { QueueId::tx(index) };
            Some(QueueStats { ifindex: narrow(ifindex)?, queue, packets: if receive { rx? } else { tx? } })
        };
        Ok(Self { stats: stats() })
    }
}

/// The kernel's `uint` is four or eight bytes long, whatever fits.
fn unsigned(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::ParseableParametrized;
    use netlink_packet_generic::GenlHeader;
    use proptest::prelude::{any, proptest};

    use super::{A_IFINDEX, A_QUEUE_ID, A_QUEUE_TYPE, A_RX_PACKETS, Qstats, QueueStats};
    use crate::units::QueueId;

    const HEADER: GenlHeader = GenlHeader { cmd: 12, version: 1 };

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).expect("short");
        [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
    }

    #[test]
    fn an_answer_with_a_wide_count() {
        let bytes = [
            attribute(A_IFINDEX, &3u32.to_ne_bytes()),
            attribute(A_QUEUE_TYPE, &0u32.to_ne_bytes()),
            attribute(A_QUEUE_ID, &7u32.to_ne_bytes()),
            attribute(A_RX_PACKETS, &(1u64 << 40).to_ne_bytes()),
        ]
        .concat();
        let answer = Qstats::parse_with_param(&bytes, HEADER).expect("valid");
        assert_eq!(answer.stats, Some(QueueStats { ifindex: 3, queue: QueueId::rx(7), packets: 1 << 40 }));
        let cut = Qstats::parse_with_param(&bytes[..24], HEADER).expect("valid");
        assert_eq!(cut.stats, None, "no count is no statistics, not 0");
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Qstats::parse_with_param(&bytes, HEADER);
        }
    }
}
