//! Reserved addresses, one for each real one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Stand-in of each address.
#[derive(Debug, Default)]
pub(super) struct StandIns {
    given: BTreeMap<IpAddr, IpAddr>,
    macs: BTreeMap<[u8; 6], [u8; 6]>,
}

impl StandIns {
    /// The stand-in of an address: in 198.18.0.0/15 (RFC 2544, benchmarks) or 2001:db8::/32 (RFC 3849,
    /// documentation). "Any" and loopback identify no network and stay.
    pub(super) fn ip(&mut self, address: IpAddr) -> IpAddr {
        if address.is_unspecified() || address.is_loopback() {
            return address;
        }
        let next = u32::try_from(self.given.len()).unwrap_or(u32::MAX).saturating_add(1);
        *self.given.entry(address).or_insert_with(|| match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(0xC612_0000 | (next & 0x0001_FFFF))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | u128::from(next))),
        })
    }

    /// The stand-in of an address as bytes, as many as the address has. An IPv4 address mapped into IPv6
    /// stays mapped.
    pub(super) fn octets(&mut self, address: IpAddr) -> Vec<u8> {
        let inner = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(outer) => outer.to_ipv4_mapped(),
        };
        match (inner, self.ip(inner.map_or(address, IpAddr::V4))) {
            (None, IpAddr::V4(stand_in)) => stand_in.octets().to_vec(),
            (Some(_), IpAddr::V4(stand_in)) => stand_in.to_ipv6_mapped().octets().to_vec(),
            (_, IpAddr::V6(stand_in)) => stand_in.octets().to_vec(),
        }
    }

    /// The stand-in of a MAC address: locally administered, so without a vendor. "None" and broadcast stay.
    pub(super) fn mac(&mut self, address: [u8; 6]) -> [u8; 6] {
        if address == [0; 6] || address == [0xff; 6] {
            return address;
        }
        let next = u32::try_from(self.macs.len()).unwrap_or(u32::MAX).saturating_add(1);
        *self.macs.entry(address).or_insert_with(|| {
            let [a, b, c, d] = next.to_be_bytes();
            [2, 0, a, b, c, d]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StandIns;

    #[test]
    fn one_for_each_and_always_the_same() {
        let mut given = StandIns::default();
        let mut stand_in = |text: &str| given.ip(text.parse().expect("an address")).to_string();
        assert_eq!(stand_in("10.0.0.7"), "198.18.0.1");
        assert_eq!(stand_in("fe80::1"), "2001:db8::2");
        assert_eq!(stand_in("10.0.0.7"), "198.18.0.1");
        assert_eq!(
            (stand_in("0.0.0.0"), stand_in("127.0.0.53"), stand_in("::1")),
            ("0.0.0.0".into(), "127.0.0.53".into(), "::1".into())
        );
    }
}
