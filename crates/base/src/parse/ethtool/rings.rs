//! `ETHTOOL_MSG_RINGS_GET` and `ETHTOOL_MSG_RINGS_SET`: ring sizes.

use super::{Count, Rings, count, only};
use crate::parse::{Attributes, WireError, attribute};

const A_RX_MINI: u16 = 7;
const A_RX_JUMBO: u16 = 8;

/// The rings of one interface; kinds whose maximum is 0 are `None`.
pub fn rings(answer: &[u8]) -> Result<Rings, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    Ok(Rings {
        rx: count(&message, RingKind::Rx as u16)?,
        rx_mini: count(&message, A_RX_MINI)?,
        rx_jumbo: count(&message, A_RX_JUMBO)?,
        tx: count(&message, RingKind::Tx as u16)?,
    })
}

/// The rings that every driver with rings has, by the attribute of their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingKind {
    Rx = 6,
    Tx = 9,
}

impl RingKind {
    /// The attribute of `ETHTOOL_MSG_RINGS_SET` that requests this number of descriptors per ring.
    pub fn attribute(self, size: u32) -> Vec<u8> {
        attribute(self as u16, size.to_ne_bytes())
    }
}

impl Rings {
    pub fn count(&self, kind: RingKind) -> Option<Count> {
        match kind {
            RingKind::Rx => self.rx,
            RingKind::Tx => self.tx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RingKind, rings};
    use crate::parse::ethtool::{Count, Rings};
    use crate::parse::wire::testing::answer;
    use crate::parse::with_attributes;

    const ETH0: &str = "1800018008000100040000000900020065746830000000000800020000010000080006000001000008000500\
                        00010000080009000001000005000d000000000005000e0000000000";

    #[test]
    fn a_captured_answer() {
        let full = Some(Count { now: 256, max: 256 });
        assert_eq!(rings(&answer(&[ETH0])), Ok(Rings { rx: full, tx: full, ..Rings::default() }));
    }

    #[test]
    fn what_is_set_is_read() {
        let after =
            |kind: RingKind| with_attributes(&answer(&[ETH0]), &kind.attribute(64)).expect("one message");
        for kind in [RingKind::Rx, RingKind::Tx] {
            let after = rings(&after(kind)).expect("valid");
            assert_eq!(after.count(kind), Some(Count { now: 64, max: 256 }));
            assert_eq!([after.rx, after.tx].iter().flatten().map(|count| count.now).sum::<u32>(), 64 + 256);
        }
    }
}
