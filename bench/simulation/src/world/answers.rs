//! Answers of the simulated kernel over sockets.

use rxlab_base::parse::{attribute, link_request, one_message};
use rxlab_change::knob::testbed::features_answer;
use rxlab_sys::Query;

use super::kernel::{Device, MAX_QUEUES, Machine, Queue};
use super::schedule::{NicValue, QueueValue};

/// The queues of the devices of a namespace, or their NAPIs.
pub(super) fn napis(machine: &Machine, cookie: u64, query: &Query) -> Vec<u8> {
    let mut answer = Vec::new();
    for (_, device) in machine.in_netns(cookie) {
        let queues = (0..).zip(&device.queues).take(usize::try_from(device.count()).unwrap_or(0));
        for (number, queue) in queues {
            // A veth does not say which NAPI polls a queue.
            let napi = device.pci.map(|_| (4, queue.napi));
            let numbers: Vec<(u16, u32)> = match query {
                Query::Napis if !device.has_napis() => continue,
                Query::Napis => napi_of(device, queue),
                _ => [(1, number), (2, device.ifindex), (3, 0)].into_iter().chain(napi).collect(),
            };
            let attributes: Vec<u8> = numbers
                .into_iter()
                .flat_map(|(kind, number)| attribute(kind, number.to_ne_bytes()))
                .collect();
            answer.extend(one_message(&attributes));
        }
    }
    answer
}

/// The settings of a NAPI, by their attributes.
pub(super) const SETTINGS: [(u16, QueueValue); 4] =
    [(5, QueueValue::Defer), (6, QueueValue::Flush), (7, QueueValue::Suspend), (8, QueueValue::Threaded)];

fn napi_of(device: &Device, queue: &Queue) -> Vec<(u16, u32)> {
    let number = |value| u32::try_from(queue.value(value).now).unwrap_or(0);
    let thread = (number(QueueValue::Threaded) == 1).then_some((4, queue.thread.tid));
    let ids = [(1, device.ifindex), (2, queue.napi)].into_iter().chain(thread);
    ids.chain(SETTINGS.map(|(kind, value)| (kind, number(value)))).collect()
}

/// The interfaces of a namespace, with their kinds. One whose name is not UTF-8 is left out: nothing can name it.
pub(super) fn links(machine: &Machine, cookie: u64) -> Vec<u8> {
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    let message = |device: &Device| {
        let name = device.name.parse().ok().filter(|_| !device.is_odd)?;
        let kind = attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"veth\0"));
        let mut message = link_request(&name, if device.pci.is_none() { &kind } else { &[] });
        message[4..8].copy_from_slice(&device.ifindex.to_ne_bytes());
        Some(one_message(&message))
    };
    machine.in_netns(cookie).filter_map(|(_, device)| message(device)).flatten().collect()
}

pub(super) fn rings(device: &Device) -> Vec<u8> {
    let size = u32::try_from(device.nic_value(NicValue::Ring).now).unwrap_or(0);
    one_message(
        &[(2, 4096), (6, size)]
            .map(|(kind, count): (u16, u32)| attribute(kind, count.to_ne_bytes()))
            .concat(),
    )
}

/// The offloads of a veth, of which the world has one.
pub(super) fn offloads(device: &Device) -> Vec<u8> {
    let is_on = device.nic_value(NicValue::Gro).now == 1;
    features_answer(&[GRO], if is_on { &[GRO] } else { &[] }, &[])
}

pub(super) const GRO: &str = "rx-gro";

pub(super) fn channels(device: &Device) -> Vec<u8> {
    let counts = [(5, u32::from(MAX_QUEUES)), (9, u32::try_from(device.count()).unwrap_or(0))];
    one_message(&counts.map(|(kind, count)| attribute(kind, count.to_ne_bytes())).concat())
}

/// The number of a request of one attribute: length, kind, 32 bits.
pub(super) fn number32(attributes: &[u8]) -> Option<u64> {
    attributes.get(4..8)?.try_into().ok().map(u32::from_ne_bytes).map(u64::from)
}
