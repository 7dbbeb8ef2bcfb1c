//! The Toeplitz hash of receive-side scaling.
//!
//! Microsoft, "RSS Hashing Functions"; the values in the tests are from its "Verifying the RSS Hash Calculation".

/// The hash of `input` (header fields as in the packet) with a device's key; `None` if the key is too short: it
/// needs 4 bytes more than the input.
pub(super) fn toeplitz(key: &[u8], input: &[u8]) -> Option<u32> {
    let (first, rest) = key.split_first_chunk()?;
    if rest.len() < input.len() {
        return None;
    }
    // Each set bit of the input adds the 32 bits of the key that begin at its position.
    let mut window = u32::from_be_bytes(*first);
    let mut hash = 0;
    for (byte, next) in input.iter().zip(rest) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::toeplitz;

    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Destination, source, the hash of addresses and ports, the hash of addresses.
    const PUBLISHED: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x51cc_c178, 0x323e_8fc2),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xc626_b0ea, 0xd718_262a),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0x5c2b_394a, 0xd2d0_a5de),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0xafc7_327f, 0x8298_9176),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x10e8_28a2, 0x5d18_09c5),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x4020_7d3d, 0x2cc1_8cd5),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0xdde5_1bbf, 0x0f0c_461c),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x02d1_feef,
            0x4b61_e985,
        ),
    ];

    #[test]
    fn the_published_values() {
        for (destination, source, with_ports, addresses) in PUBLISHED {
            let ends: [SocketAddr; 2] = [source, destination].map(|end| end.parse().expect("an address"));
            let mut input = Vec::new();
            for end in ends {
                match end {
                    SocketAddr::V4(end) => input.extend(end.ip().octets()),
                    SocketAddr::V6(end) => input.extend(end.ip().octets()),
                }
            }
            assert_eq!(toeplitz(&KEY, &input), Some(addresses), "{destination}");
            ends.iter().for_each(|end| input.extend(end.port().to_be_bytes()));
            assert_eq!(toeplitz(&KEY, &input), Some(with_ports), "{destination}");
        }
        assert_eq!(toeplitz(&KEY[..15], &[0; 12]), None, "the key ends before the input");
        assert!(toeplitz(&KEY[..16], &[0xff; 12]).is_some());
    }

    /// Bit `at` of `bytes`, most significant first.
    fn bit(bytes: &[u8], at: usize) -> bool {
        bytes[at / 8] & (0x80 >> (at % 8)) != 0
    }

    proptest! {
        /// By the definition: bit `n` of the hash is the parity of the bits that input and key, shifted by `n`, share.
        #[test]
        fn each_bit_is_a_parity(key in vec(any::<u8>(), 40), input in vec(any::<u8>(), 0..=36)) {
            let parity = |n: usize| {
                (0..8 * input.len()).filter(|at| bit(&input, *at) && bit(&key, at + n)).count() % 2
            };
            let defined = (0..32).fold(0, |hash, n| hash << 1 | parity(n) as u32);
            prop_assert_eq!(toeplitz(&key, &input), Some(defined));
        }
    }
}
