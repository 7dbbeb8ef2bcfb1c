//! Common code of several knobs: interfaces and queues as targets, CPU lists and table sizes as values, and
//! files of one value.

use super::error::Meanings;
use super::{KnobError, Result};
use crate::host::{Action, EthtoolGet, Host, Question};
use crate::model::{Model, Nic, RxQueue, TxQueue};
use crate::parse::WireError;
use crate::plan::{Target, set_of};
use crate::units::{CpuMask, Direction, NicName, QueueId};

/// Form of the targets of a per-queue knob.
pub(super) const RX_QUEUE: &str = "a receive queue (NIC/rx-N)";

/// The largest RFS table that the kernel allows, 2^29 entries.
pub(super) const MAX_FLOWS: u32 = 1 << 29;

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

/// Refuses any target but the whole machine.
pub(super) fn only_host(knob: &'static str, target: &Target) -> Result {
    let acts_on = "the whole machine (host)";
    match target {
        Target::Host => Ok(()),
        _ => Err(KnobError::wrong(knob, target, acts_on)),
    }
}

/// The transmit queue that `target` names.
pub(super) fn tx_queue<'m>(
    knob: &'static str,
    model: &'m Model,
    target: &Target,
) -> Result<(&'m Nic, &'m TxQueue)> {
    let acts_on = "a transmit queue (NIC/tx-N)";
    queue(knob, model, target, (Direction::Tx, acts_on), |nic| &nic.tx, |tx| QueueId::tx(tx.index))
}

/// The receive queue that `target` names.
pub(super) fn rx_queue<'m>(
    knob: &'static str,
    model: &'m Model,
    target: &Target,
) -> Result<(&'m Nic, &'m RxQueue)> {
    queue(knob, model, target, (Direction::Rx, RX_QUEUE), |nic| &nic.rx, |rx| QueueId::rx(rx.index))
}

/// The queue that `target` names among those of `all`, which `id` tells apart. A target of the other
/// direction is wrong.
fn queue<'m, Q>(
    knob: &'static str,
    model: &'m Model,
    target: &Target,
    (direction, acts_on): (Direction, &'static str),
    all: fn(&Nic) -> &[Q],
    id: fn(&Q) -> QueueId,
) -> Result<(&'m Nic, &'m Q)> {
    let wrong = || KnobError::wrong(knob, target, acts_on);
    let Target::Queue { nic: name, queue } = target else { return Err(wrong()) };
    if queue.direction != direction {
        return Err(wrong());
    }
    let nic = known_nic(model, name)?;
    let found = all(nic).iter().find(|one| id(one) == *queue);
    let found = found.ok_or_else(|| KnobError::UnknownQueue {
        nic: name.clone(),
        queue: *queue,
        known: all(nic).iter().map(id).collect(),
    })?;
    Ok((nic, found))
}

/// Refuses a value that names receive queues which the interface does not have.
pub(super) fn check_queues(knob: &'static str, nic: &Nic, value: &str, queues: &[u32]) -> Result {
    match queues.iter().find(|queue| nic.rx.iter().all(|rx| rx.index != **queue)) {
        None => Ok(()),
        Some(queue) => {
            let why = format!("{} has {} receive queues, and no rx-{queue}", nic.name, nic.rx.len());
            Err(KnobError::bad(knob, value, why))
        }
    }
}

/// Every interface that can have it, as far as is known.
pub(super) fn nic_targets(model: &Model, can: impl Fn(&Nic) -> bool) -> Vec<Target> {
    model.nics.iter().filter(|nic| can(nic)).map(|nic| Target::Nic(nic.name.clone())).collect()
}

/// The interface that `target` is.
pub(super) fn nic<'m>(knob: &'static str, model: &'m Model, target: &Target) -> Result<&'m Nic> {
    let Target::Nic(name) = target else {
        return Err(KnobError::wrong(knob, target, "an interface (NIC)"));
    };
    known_nic(model, name)
}

/// The interface of that name.
pub(super) fn known_nic<'m>(model: &'m Model, name: &NicName) -> Result<&'m Nic> {
    model.nic(name).ok_or_else(|| KnobError::UnknownNic {
        nic: name.clone(),
        known: model.nics.iter().map(|nic| nic.name.clone()).collect(),
    })
}

/// Parses `value` as a list of CPUs that exist and are online.
pub(super) fn online_cpus(
    knob: &'static str,
    model: &Model,
    target: &Target,
    value: &str,
) -> Result<CpuMask> {
    let mask: CpuMask = value
        .parse()
        .map_err(|error: crate::units::MaskError| KnobError::bad(knob, value, error.to_string()))?;
    let online = model.online();
    let present: CpuMask = model.cpus.iter().map(|cpu| cpu.id).collect();
    let refuse = |cpus: CpuMask, why: String| {
        if cpus.is_empty() {
            return Ok(());
        }
        Err(KnobError::UnusableCpus { knob, target: target.clone(), cpus, why })
    };
    let they = |cpus: &CpuMask| if cpus.len() == 1 { "does" } else { "do" };
    let missing = mask.difference(&present);
    let why = format!("{} not exist on this machine (online: {online})", they(&missing));
    refuse(missing, why)?;
    let offline = mask.difference(&online);
    let is = if offline.len() == 1 { "is" } else { "are" };
    refuse(offline, format!("{is} offline (online: {online})"))?;
    Ok(mask)
}

/// Parses `value` as a number of flows; `off` is 0.
pub(super) fn flows(knob: &'static str, value: &str) -> Result<String> {
    let bad = |why: String| KnobError::bad(knob, value, why);
    if value == "off" {
        return Ok("0".to_owned());
    }
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    match value.parse::<u64>() {
        Ok(flows) if digits && flows <= u64::from(MAX_FLOWS) => Ok(flows.to_string()),
        Err(_) if !digits => Err(bad("expected a number of flows, such as 4096, or off".to_owned())),
        _ => Err(bad(format!("the largest table has {MAX_FLOWS} entries"))),
    }
}

/// True if a table of `want` flows is shown as `got`: the kernel rounds up to a power of two.
pub(super) fn same_flows(want: &str, got: &str) -> bool {
    let rounded = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0).map(u32::next_power_of_two);
    want == got || (rounded(want).is_some() && rounded(want).map(|n| n.to_string()).as_deref() == Some(got))
}

/// A file that holds a CPU mask.
pub(super) fn mask(path: &str, text: &str) -> Result<CpuMask> {
    let broken =
        |_| KnobError::Broken { path: path.to_owned(), text: text.trim().to_owned(), expected: "a CPU mask" };
    CpuMask::from_hex(text).map_err(broken)
}

/// A value as the kernel's files take it.
pub(super) fn hex(knob: &'static str, value: &str) -> Result<String> {
    let why = "expected a list such as 2-7, or off".to_owned();
    let mask = set_of(value).ok_or_else(|| KnobError::bad(knob, value, why))?;
    Ok(mask.to_hex())
}

/// Members of `want` that are not in `got`.
pub(super) fn dropped(want: &str, got: &str) -> CpuMask {
    set_of(want).zip(set_of(got)).map(|(want, got)| want.difference(&got)).unwrap_or_default()
}

/// True if every member of `live` is in `value`, and both are sets.
pub(super) fn is_part(live: &str, value: &str) -> bool {
    set_of(live).zip(set_of(value)).is_some_and(|(live, value)| live.difference(&value).is_empty())
}

/// Reads the one file of a knob whose errors have no special meaning.
pub(super) fn read_plain(knob: &'static str, host: &dyn Host, target: &Target, path: &str) -> Result<String> {
    host.read_text(path).map_err(|error| KnobError::from_host(knob, target, None, &error, "", &[]))
}

/// The driver's answer, parsed by `parse`.
pub(super) fn ethtool<T>(
    knob: &'static str,
    host: &dyn Host,
    target: &Target,
    get: EthtoolGet,
    nic: &NicName,
    parse: fn(&[u8]) -> Result<T, WireError>,
) -> Result<T> {
    let question = Question::Ethtool(get, nic.clone());
    let answer = host.ask(&question);
    let answer = answer.map_err(|error| KnobError::from_host(knob, target, None, &error, "", &[]))?;
    parse(&answer).map_err(|error| KnobError::Broken {
        path: question.path(),
        text: error.to_string(),
        expected: "an answer of ethtool",
    })
}

/// Path of the driver's answer.
pub(super) fn ethtool_path(
    knob: &'static str,
    model: &Model,
    target: &Target,
    get: EthtoolGet,
) -> Result<Vec<String>> {
    Ok(vec![Question::Ethtool(get, nic(knob, model, target)?.name.clone()).path()])
}

/// Carries out the change that sets `value`.
pub(super) fn act(
    knob: &'static str,
    host: &dyn Host,
    target: &Target,
    value: &str,
    action: &Action,
    meanings: Meanings,
) -> Result {
    host.act(action).map_err(|error| {
        KnobError::from_host(knob, target, Some(value), &error, " (needs CAP_NET_ADMIN)", meanings)
    })
}

/// [`act`] on a driver that may report a value without letting it be set: `why` is the error then.
pub(super) fn act_or(
    knob: &'static str,
    host: &dyn Host,
    target: &Target,
    value: &str,
    action: &Action,
    meanings: Meanings,
    why: &'static str,
) -> Result {
    act(knob, host, target, value, action, meanings).map_err(|error| error.or_lacks(why))
}

/// Parses `value` as a switch.
pub(super) fn switch(knob: &'static str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => {
            let why = "expected on or off".to_owned();
            Err(KnobError::bad(knob, value, why))
        }
    }
}

/// A switch as [`switch`] reads it.
pub(super) fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Parses `value` as a 32-bit number, described by `what`.
pub(super) fn number32(knob: &'static str, value: &str, what: &str) -> Result<u32> {
    plain_number(value).ok_or_else(|| {
        let why = format!("expected {what}");
        KnobError::bad(knob, value, why)
    })
}

/// Parses digits only, of at most 32 bits.
pub(super) fn plain_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{flows, same_flows};

    #[test]
    fn flows_are_numbers_up_to_the_kernels_limit() {
        assert_eq!(flows("rfs", "off").as_deref(), Ok("0"));
        assert_eq!(flows("rfs", "04096").as_deref(), Ok("4096"));
        assert_eq!(flows("rfs", "536870912").as_deref(), Ok("536870912"));
        for (bad, why) in [
            ("536870913", "the largest table has 536870912 entries"),
            ("99999999999999999999999", "the largest table has 536870912 entries"),
            ("-1", "expected a number of flows, such as 4096, or off"),
            ("4k", "expected a number of flows, such as 4096, or off"),
        ] {
            assert!(flows("rfs", bad).expect_err(bad).to_string().ends_with(why), "{bad}");
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
            if let Ok(flows) = flows("rfs", &text) {
                prop_assert!(flows.parse::<u32>().is_ok());
            }
        }
    }
}
