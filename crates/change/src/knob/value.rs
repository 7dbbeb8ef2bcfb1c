//! Common code of several knobs: interfaces and queues as targets, and values that are lists, switches and numbers.

use rxlab_base::units::{CpuMask, QueueId};
use rxlab_path::model::{Fact, Model, Nic, RxQueue, TxQueue};
use rxlab_setting::{Target, set_of};

/// The largest RFS table that the kernel allows, 2^29 entries.
const MAX_FLOWS: u64 = 1 << 29;

/// Every receive queue of every interface for which `wanted` is true.
pub(super) fn rx_targets(model: &Model, wanted: impl Fn(&RxQueue) -> bool) -> Vec<Target> {
    queue_targets(model, |nic| {
        nic.rx.iter().filter(|rx| wanted(rx)).map(|rx| QueueId::rx(rx.index)).collect()
    })
}

/// Every transmit queue of every interface for which `wanted` is true.
pub(super) fn tx_targets(model: &Model, wanted: impl Fn(&TxQueue) -> bool) -> Vec<Target> {
    queue_targets(model, |nic| {
        nic.tx.iter().filter(|tx| wanted(tx)).map(|tx| QueueId::tx(tx.index)).collect()
    })
}

fn queue_targets(model: &Model, queues: impl Fn(&Nic) -> Vec<QueueId>) -> Vec<Target> {
    let of_nic = |nic: &Nic| {
        let name = nic.name.clone();
        queues(nic).into_iter().map(move |queue| Target::queue(&name, queue))
    };
    model.nics.iter().flat_map(of_nic).collect()
}

/// Every interface that can have it, as far as is known.
pub(super) fn nic_targets(model: &Model, can: impl Fn(&Nic) -> bool) -> Vec<Target> {
    model.nics.iter().filter(|nic| can(nic)).map(|nic| Target::Nic(nic.name.clone())).collect()
}

/// Parses a number of flows; `off` is 0. The error says what is expected.
pub(super) fn flows(value: &str) -> Result<String, String> {
    match value.parse::<u64>() {
        _ if value == "off" => Ok("0".to_owned()),
        _ if !is_digits(value) => Err("expected a number of flows, such as 4096, or off".to_owned()),
        Ok(flows) if flows <= MAX_FLOWS => Ok(flows.to_string()),
        _ => Err(format!("the largest table has {MAX_FLOWS} entries")),
    }
}

/// True if a known value has something, or if it may become known.
pub(super) fn may_have<T: PartialEq>(fact: &Fact<T>, has: impl FnOnce(&T) -> bool) -> bool {
    match fact {
        Fact::Known(known) => has(known),
        other => *other != Fact::Unsupported,
    }
}

/// True if a table of `want` flows is shown as `got`: the kernel rounds up to a power of two.
pub(super) fn same_flows(want: &str, got: &str) -> bool {
    let rounded = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0).map(u32::next_power_of_two);
    want == got || (rounded(want).is_some() && rounded(want).map(|n| n.to_string()).as_deref() == Some(got))
}

/// Members of `want` that are not in `got`.
pub(super) fn dropped(want: &str, got: &str) -> CpuMask {
    set_of(want).zip(set_of(got)).map(|(want, got)| want.difference(&got)).unwrap_or_default()
}

/// True if every member of `live` is in `value`, and both are sets.
pub(super) fn is_part(live: &str, value: &str) -> bool {
    set_of(live).zip(set_of(value)).is_some_and(|(live, value)| live.difference(&value).is_empty())
}

/// A switch as [`super::site::Site::switch`] reads it.
pub(super) fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Parses digits only, of at most 32 bits.
pub(super) fn plain_number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| is_digits(text))
}

/// True for digits only, and at least one.
pub(super) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{flows, same_flows};

    #[test]
    fn flows_are_numbers_up_to_the_kernels_limit() {
        assert_eq!(flows("off").as_deref(), Ok("0"));
        assert_eq!(flows("04096").as_deref(), Ok("4096"));
        assert_eq!(flows("536870912").as_deref(), Ok("536870912"));
        for (bad, why) in [
            ("536870913", "the largest table has 536870912 entries"),
            ("99999999999999999999999", "the largest table has 536870912 entries"),
            ("-1", "expected a number of flows, such as 4096, or off"),
            ("4k", "expected a number of flows, such as 4096, or off"),
        ] {
            assert_eq!(flows(bad), Err(why.to_owned()));
        }
    }

    #[test]
    fn the_kernel_rounds_up_to_a_power_of_two() {
        assert!(same_flows("3000", "4096"));
        assert!(same_flows("4096", "4096"));
        assert!(same_flows("0", "0"));
        assert!(!same_flows("0", "1"));
        assert!(!same_flows("4097", "4096"));
        assert!(!same_flows("3000", "2048"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_of_flows_or_an_error(text in ".{0,30}") {
            if let Ok(flows) = flows(&text) {
                prop_assert!(flows.parse::<u32>().is_ok());
            }
        }
    }
}
