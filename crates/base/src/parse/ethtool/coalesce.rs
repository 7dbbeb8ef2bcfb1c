//! `ETHTOOL_MSG_COALESCE_GET` and `ETHTOOL_MSG_COALESCE_SET`: interrupt moderation.

use super::{Coalesce, only};
use crate::parse::{Attributes, WireError, attribute};

const A_RX_USECS: u16 = 2;
const A_RX_MAX_FRAMES: u16 = 3;
const A_TX_USECS: u16 = 6;
const A_TX_MAX_FRAMES: u16 = 7;
const A_USE_ADAPTIVE_RX: u16 = 11;
const A_USE_ADAPTIVE_TX: u16 = 12;

/// The moderation of one interface; unsupported values are `None`.
pub fn coalesce(answer: &[u8]) -> Result<Coalesce, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    let flag = |kind| Ok(message.number(kind)?.map(|value| value != 0));
    Ok(Coalesce {
        rx_usecs: message.number32(A_RX_USECS)?,
        rx_frames: message.number32(A_RX_MAX_FRAMES)?,
        tx_usecs: message.number32(A_TX_USECS)?,
        tx_frames: message.number32(A_TX_MAX_FRAMES)?,
        adaptive_rx: flag(A_USE_ADAPTIVE_RX)?,
        adaptive_tx: flag(A_USE_ADAPTIVE_TX)?,
    })
}

/// A number of the moderation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceParameter {
    RxUsecs,
    RxFrames,
    TxUsecs,
    TxFrames,
}

/// A switch of the moderation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adaptive {
    Rx,
    Tx,
}

impl CoalesceParameter {
    /// The attribute of `ETHTOOL_MSG_COALESCE_SET` that requests it.
    pub fn attribute(self, value: u32) -> Vec<u8> {
        let kind = match self {
            CoalesceParameter::RxUsecs => A_RX_USECS,
            CoalesceParameter::RxFrames => A_RX_MAX_FRAMES,
            CoalesceParameter::TxUsecs => A_TX_USECS,
            CoalesceParameter::TxFrames => A_TX_MAX_FRAMES,
        };
        attribute(kind, value.to_ne_bytes())
    }
}

impl Adaptive {
    /// The attribute of `ETHTOOL_MSG_COALESCE_SET` that switches it.
    pub fn attribute(self, on: bool) -> Vec<u8> {
        let kind = match self {
            Adaptive::Rx => A_USE_ADAPTIVE_RX,
            Adaptive::Tx => A_USE_ADAPTIVE_TX,
        };
        attribute(kind, [u8::from(on)])
    }
}

impl Coalesce {
    /// One of its numbers.
    pub fn holdback(&self, which: CoalesceParameter) -> Option<u32> {
        match which {
            CoalesceParameter::RxUsecs => self.rx_usecs,
            CoalesceParameter::RxFrames => self.rx_frames,
            CoalesceParameter::TxUsecs => self.tx_usecs,
            CoalesceParameter::TxFrames => self.tx_frames,
        }
    }

    /// One of its switches.
    pub fn adaptive(&self, which: Adaptive) -> Option<bool> {
        match which {
            Adaptive::Rx => self.adaptive_rx,
            Adaptive::Tx => self.adaptive_tx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Adaptive, CoalesceParameter, coalesce};
    use crate::parse::ethtool::Coalesce;
    use crate::parse::wire::testing::answer;
    use crate::parse::with_attributes;

    const ETH0: &str = "1800018008000100040000000900020065746830000000000800020000000000080003000100000008000600\
                        00000000080007000100000005000b0000000000";

    #[test]
    fn a_captured_answer() {
        let expected = Coalesce {
            rx_usecs: Some(0),
            rx_frames: Some(1),
            tx_usecs: Some(0),
            tx_frames: Some(1),
            adaptive_rx: Some(false),
            adaptive_tx: None,
        };
        assert_eq!(coalesce(&answer(&[ETH0])), Ok(expected));
    }

    #[test]
    fn what_is_set_is_read() {
        let before = coalesce(&answer(&[ETH0])).expect("valid");
        let after = |attribute: Vec<u8>| {
            let answer = with_attributes(&answer(&[ETH0]), &attribute).expect("one message");
            coalesce(&answer).expect("valid")
        };
        for which in [
            CoalesceParameter::RxUsecs,
            CoalesceParameter::RxFrames,
            CoalesceParameter::TxUsecs,
            CoalesceParameter::TxFrames,
        ] {
            let after = after(which.attribute(70_000));
            assert_eq!(after.holdback(which), Some(70_000));
            assert_ne!(after, before);
        }
        assert_eq!(after(Adaptive::Rx.attribute(true)), Coalesce { adaptive_rx: Some(true), ..before });
        assert_eq!(after(Adaptive::Tx.attribute(false)).adaptive(Adaptive::Tx), Some(false));
    }
}
