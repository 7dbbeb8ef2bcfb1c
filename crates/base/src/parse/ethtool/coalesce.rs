//! `ETHTOOL_MSG_COALESCE_GET` and `ETHTOOL_MSG_COALESCE_SET`: interrupt moderation.

use super::{Coalesce, only};
use crate::parse::{Attributes, WireError, attribute};

/// The moderation of one interface; unsupported values are `None`.
pub fn coalesce(answer: &[u8]) -> Result<Coalesce, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    let number = |which: CoalesceParameter| message.number32(which as u16);
    let flag = |which: Adaptive| Ok(message.number(which as u16)?.map(|value| value != 0));
    Ok(Coalesce {
        rx_usecs: number(CoalesceParameter::RxUsecs)?,
        rx_frames: number(CoalesceParameter::RxFrames)?,
        tx_usecs: number(CoalesceParameter::TxUsecs)?,
        tx_frames: number(CoalesceParameter::TxFrames)?,
        adaptive_rx: flag(Adaptive::Rx)?,
        adaptive_tx: flag(Adaptive::Tx)?,
    })
}

/// A number of the moderation, by its attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceParameter {
    RxUsecs = 2,
    RxFrames = 3,
    TxUsecs = 6,
    TxFrames = 7,
}

/// A switch of the moderation, by its attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adaptive {
    Rx = 11,
    Tx = 12,
}

impl CoalesceParameter {
    /// The attribute of `ETHTOOL_MSG_COALESCE_SET` that requests it.
    pub fn attribute(self, value: u32) -> Vec<u8> {
        attribute(self as u16, value.to_ne_bytes())
    }
}

impl Adaptive {
    /// The attribute of `ETHTOOL_MSG_COALESCE_SET` that switches it.
    pub fn attribute(self, on: bool) -> Vec<u8> {
        attribute(self as u16, [u8::from(on)])
    }
}

impl Coalesce {
    pub fn holdback(&self, which: CoalesceParameter) -> Option<u32> {
        match which {
            CoalesceParameter::RxUsecs => self.rx_usecs,
            CoalesceParameter::RxFrames => self.rx_frames,
            CoalesceParameter::TxUsecs => self.tx_usecs,
            CoalesceParameter::TxFrames => self.tx_frames,
        }
    }

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
