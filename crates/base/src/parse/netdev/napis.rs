//! `napi-get` (since 6.8) and `napi-set` (since 6.13): the interrupt, the thread and the settings of a NAPI.

use crate::parse::wire::{attributes_replaced, with_message};
use crate::parse::{Attributes, WireError, attribute, messages};
use crate::units::IrqId;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetdevNapi {
    /// NAPI ID, the number that `SO_INCOMING_NAPI_ID` returns.
    pub id: u32,
    pub ifindex: u32,
    /// Its interrupt, if reported by the driver.
    pub irq: Option<IrqId>,
    /// Its kernel thread, if it is polled by one.
    pub pid: Option<u32>,
    /// Empty polls before interrupts are switched on again (since 6.13).
    pub defer_hard_irqs: Option<u32>,
    /// GRO flush timeout in nanoseconds (since 6.13).
    pub gro_flush_timeout_ns: Option<u64>,
    /// Time for which its interrupt stays off while an application polls it, in nanoseconds (since 6.13).
    pub irq_suspend_timeout_ns: Option<u64>,
    /// 1 if a thread polls it (since 6.17), 2 if that never sleeps (since 6.19).
    pub threaded: Option<u32>,
}

const A_IFINDEX: u16 = 1;
const A_ID: u16 = 2;
const A_IRQ: u16 = 3;
const A_PID: u16 = 4;

/// A setting of a NAPI, by its attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NapiSetting {
    DeferHardIrqs = 5,
    GroFlushTimeout = 6,
    IrqSuspendTimeout = 7,
    Threaded = 8,
}

impl NapiSetting {
    /// Its value; `None` if the kernel does not report it.
    pub fn value(self, napi: &NetdevNapi) -> Option<u64> {
        match self {
            NapiSetting::DeferHardIrqs => napi.defer_hard_irqs.map(u64::from),
            NapiSetting::GroFlushTimeout => napi.gro_flush_timeout_ns,
            NapiSetting::IrqSuspendTimeout => napi.irq_suspend_timeout_ns,
            NapiSetting::Threaded => napi.threaded.map(u64::from),
        }
    }

    /// The attribute that sets it. All but `Threaded` and `DeferHardIrqs` may be longer than 32 bits; the kernel takes
    /// either length for its `uint`.
    pub fn attribute(self, value: u64) -> Vec<u8> {
        match u32::try_from(value) {
            Ok(value) => attribute(self as u16, value.to_ne_bytes()),
            Err(_) => attribute(self as u16, value.to_ne_bytes()),
        }
    }
}

/// The request of `napi-set` for one NAPI.
pub fn napi_request(id: u32, settings: &[u8]) -> Vec<u8> {
    [attribute(A_ID, id.to_ne_bytes()), settings.to_vec()].concat()
}

/// The answer of `napi-get` after these attributes of one NAPI were set.
pub fn with_napi_settings(answer: &[u8], id: u32, settings: &[u8]) -> Result<Vec<u8>, WireError> {
    with_message(answer, |message| {
        if one(message)?.id == id { attributes_replaced(message, settings).map(Some) } else { Ok(None) }
    })
}

/// The NAPI instances of every interface that is up.
pub fn netdev_napis(answer: &[u8]) -> Result<Vec<NetdevNapi>, WireError> {
    messages(answer)?.into_iter().map(one).collect()
}

fn one(message: &[u8]) -> Result<NetdevNapi, WireError> {
    let message = Attributes::parse(message)?;
    let (Some(id), Some(ifindex)) = (message.number32(A_ID)?, message.number32(A_IFINDEX)?) else {
        return Err(WireError::new("a NAPI without number or interface"));
    };
    Ok(NetdevNapi {
        id,
        ifindex,
        irq: message.number32(A_IRQ)?.map(IrqId),
        pid: message.number32(A_PID)?,
        defer_hard_irqs: message.number32(NapiSetting::DeferHardIrqs as u16)?,
        gro_flush_timeout_ns: message.number(NapiSetting::GroFlushTimeout as u16)?,
        irq_suspend_timeout_ns: message.number(NapiSetting::IrqSuspendTimeout as u16)?,
        threaded: message.number32(NapiSetting::Threaded as u16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{A_IRQ, A_PID, NapiSetting, NetdevNapi, netdev_napis, with_napi_settings};
    use crate::parse::wire::testing::{answer, hex};
    use crate::parse::{attribute, one_message};
    use crate::units::IrqId;

    /// Linux 6.18, virtio_net, which does not report its interrupt.
    const ETH0: &str = "08000200010100000800010004000000080008000000000008000500000000000800070000000000\
                        0800060000000000";

    #[test]
    fn a_captured_answer() {
        let napi = NetdevNapi {
            id: 257,
            ifindex: 4,
            defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            irq_suspend_timeout_ns: Some(0),
            threaded: Some(0),
            ..NetdevNapi::default()
        };
        assert_eq!(netdev_napis(&answer(&[ETH0])), Ok(vec![napi]));

        // Composed: no available machine has a driver that reports it.
        let (irq, pid) = (attribute(A_IRQ, 41u32.to_ne_bytes()), attribute(A_PID, 733u32.to_ne_bytes()));
        let told = one_message(&[hex(ETH0), irq, pid].concat());
        let told = netdev_napis(&told).expect("valid");
        assert_eq!(told, [NetdevNapi { irq: Some(IrqId(41)), pid: Some(733), ..napi }]);

        assert!(netdev_napis(&answer(&[&ETH0[..16]])).is_err(), "no interface");
    }

    #[test]
    fn settings_of_one_napi() {
        let mut other = hex(ETH0);
        other[4..8].copy_from_slice(&258u32.to_ne_bytes());
        let both = [answer(&[ETH0]), one_message(&other)].concat();
        let all = [
            (NapiSetting::DeferHardIrqs, 2),
            (NapiSetting::GroFlushTimeout, 20_000),
            (NapiSetting::IrqSuspendTimeout, 1 << 33),
            (NapiSetting::Threaded, 1),
        ];
        for (setting, value) in all {
            let after = with_napi_settings(&both, 258, &setting.attribute(value)).expect("it is there");
            let napis = netdev_napis(&after).expect("valid");
            assert_eq!(
                napis.iter().map(|napi| setting.value(napi)).collect::<Vec<_>>(),
                [Some(0), Some(value)]
            );
        }
        assert!(with_napi_settings(&both, 259, &[]).is_err());
    }
}
