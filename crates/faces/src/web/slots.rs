//! Bounds on what clients hold at once, in total and for each address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// A number of things to hold, such as threads.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    most_per_peer: usize,
    held: Mutex<BTreeMap<IpAddr, usize>>,
}

impl Slots {
    pub(super) fn new(most: usize, most_per_peer: usize) -> Self {
        Self { most, most_per_peer, held: Mutex::default() }
    }

    /// Takes one for a client; `None` if all are taken, or all that one address may have.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Slot<'_>> {
        let peer = origin(peer);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.get(&peer).copied().unwrap_or(0);
        if own >= self.most_per_peer || held.values().sum::<usize>() >= self.most {
            return None;
        }
        held.insert(peer, own + 1);
        Some(Slot { slots: self, peer })
    }
}

/// One of [`Slots`], until it is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    peer: IpAddr,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut held = self.slots.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

/// The address by which a client is counted: one machine can use all IPv6 addresses of its /64.
pub(super) fn origin(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Slots;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let slots = Slots::new(3, 2);
        let own = [slots.take(address("10.0.0.1")), slots.take(address("::ffff:10.0.0.1"))];
        assert!(own.iter().all(Option::is_some) && slots.take(address("10.0.0.1")).is_none());
        let other = slots.take(address("10.0.0.2"));
        assert!(other.is_some() && slots.take(address("10.0.0.3")).is_none(), "all are taken");
        drop(own);
        assert!(slots.take(address("10.0.0.1")).is_some(), "given back");
    }

    #[test]
    fn a_network_of_one_machine_is_one_address() {
        let slots = Slots::new(9, 1);
        let _held = slots.take(address("2001:db8::1"));
        assert!(slots.take(address("2001:db8::ffff:2")).is_none());
        assert!(slots.take(address("2001:db8:0:1::1")).is_some());
    }
}
