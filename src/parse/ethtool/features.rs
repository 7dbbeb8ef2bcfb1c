//! `ETHTOOL_MSG_FEATURES_GET`: offloads, as bitsets that name their bits.

use std::collections::BTreeSet;

use super::{Feature, only};
use crate::parse::{Attributes, WireError};

const A_HW: u16 = 2;
const A_ACTIVE: u16 = 4;
const A_NOCHANGE: u16 = 5;
const A_BITSET_BITS: u16 = 4;
const A_BITS_BIT: u16 = 1;
const A_BIT_NAME: u16 = 2;
const A_BIT_VALUE: u16 = 3;

/// The offloads of one interface, in the kernel's order: all that this kernel knows, also those that
/// are off and stay off.
pub fn features(answer: &[u8]) -> Result<Vec<Feature>, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    // Of "hw" the kernel lists every bit and whether it is set; of the others those that are.
    let known = bits(&message, A_HW)?;
    let names = |kind| Ok(bits(&message, kind)?.into_iter().map(|(name, _)| name).collect());
    let (active, fixed): (BTreeSet<&str>, BTreeSet<&str>) = (names(A_ACTIVE)?, names(A_NOCHANGE)?);
    let feature = |(name, by_device): (&str, bool)| Feature {
        name: name.to_owned(),
        on: active.contains(name),
        changeable: by_device && !fixed.contains(name),
    };
    Ok(known.into_iter().map(feature).collect())
}

/// The bits that a bitset lists, and whether each is set.
fn bits<'a>(message: &Attributes<'a>, kind: u16) -> Result<Vec<(&'a str, bool)>, WireError> {
    let bits = message.nested(kind)?.nested(A_BITSET_BITS)?;
    let bits = bits.iter().filter(|(kind, _)| *kind == A_BITS_BIT);
    bits.map(|(_, bit)| {
        let bit = Attributes::parse(bit)?;
        let name = bit.text(A_BIT_NAME)?.ok_or_else(|| WireError::new("a bit without a name"))?;
        Ok((name, bit.get(A_BIT_VALUE).is_some()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{A_ACTIVE, A_BIT_NAME, A_BIT_VALUE, A_BITS_BIT, A_BITSET_BITS, A_HW, A_NOCHANGE, features};
    use crate::parse::ethtool::Feature;
    use crate::parse::{push_attribute, push_message};

    fn bitset(bits: &[(&str, bool)]) -> Vec<u8> {
        let mut list = Vec::new();
        for (name, set) in bits {
            let mut bit = Vec::new();
            push_attribute(&mut bit, A_BIT_NAME, format!("{name}\0").as_bytes());
            if *set {
                push_attribute(&mut bit, A_BIT_VALUE, &[]);
            }
            push_attribute(&mut list, A_BITS_BIT | 0x8000, &bit);
        }
        let mut bitset = Vec::new();
        push_attribute(&mut bitset, A_BITSET_BITS | 0x8000, &list);
        bitset
    }

    /// Composed as a kernel composes it: a whole answer has 3 KiB.
    #[test]
    fn on_off_and_fixed() {
        let mut message = Vec::new();
        let hw = [("rx-gro", true), ("rx-lro", false), ("tx-scatter-gather", true), ("highdma", true)];
        push_attribute(&mut message, A_HW | 0x8000, &bitset(&hw));
        let active = [("rx-gro", false), ("highdma", false)];
        push_attribute(&mut message, A_ACTIVE | 0x8000, &bitset(&active));
        push_attribute(&mut message, A_NOCHANGE | 0x8000, &bitset(&[("highdma", false)]));
        let mut answer = Vec::new();
        push_message(&mut answer, &message);
        let expected = [
            ("rx-gro", true, true),
            ("rx-lro", false, false),
            ("tx-scatter-gather", false, true),
            ("highdma", true, false),
        ];
        let feature =
            |(name, on, changeable): (&str, bool, bool)| Feature { name: name.to_owned(), on, changeable };
        assert_eq!(features(&answer), Ok(expected.map(feature).to_vec()));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let mut answer = Vec::new();
            push_message(&mut answer, &bytes);
            let _ = (features(&bytes), features(&answer));
        }
    }
}
