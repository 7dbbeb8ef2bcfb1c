//! `ETHTOOL_MSG_FEATURES_GET` and `ETHTOOL_MSG_FEATURES_SET`: offloads, as bitsets that name their bits.

use std::collections::BTreeSet;

use super::{Feature, only};
use crate::parse::{Attributes, NESTED, WireError, attribute, one_message};

const A_HW: u16 = 2;
const A_WANTED: u16 = 3;
const A_ACTIVE: u16 = 4;
const A_NOCHANGE: u16 = 5;
const A_BITSET_BITS: u16 = 3;
const A_BITS_BIT: u16 = 1;
const A_BIT_NAME: u16 = 2;
const A_BIT_VALUE: u16 = 3;

/// The offloads of one interface, in the kernel's order: all that this kernel knows, including those that
/// cannot be turned on.
pub fn features(answer: &[u8]) -> Result<Vec<Feature>, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    // For "hw" the kernel lists every bit and its value; for the others only set bits.
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

/// The offloads of one interface that were requested to be on, whether they are or not.
pub fn requested(answer: &[u8]) -> Result<Vec<String>, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    Ok(bits(&message, A_WANTED)?.into_iter().map(|(name, _)| name.to_owned()).collect())
}

/// The attribute of `ETHTOOL_MSG_FEATURES_SET` that requests one offload to be on or off.
pub fn wanted(name: &str, on: bool) -> Vec<u8> {
    bitset(A_WANTED, [(name, on)])
}

/// A bitset that lists these bits, each set or not.
fn bitset<'a>(kind: u16, listed: impl IntoIterator<Item = (&'a str, bool)>) -> Vec<u8> {
    let bit = |(name, set): (&str, bool)| {
        let value = set.then(|| attribute(A_BIT_VALUE, []));
        let name = attribute(A_BIT_NAME, format!("{name}\0"));
        attribute(A_BITS_BIT | NESTED, [name, value.unwrap_or_default()].concat())
    };
    let list: Vec<u8> = listed.into_iter().flat_map(bit).collect();
    attribute(kind | NESTED, attribute(A_BITSET_BITS | NESTED, list))
}

/// The answer after setting `attributes`, made by [`wanted`]. As in the kernel, unchangeable offloads
/// stay as they are.
pub fn with_wanted(answer: &[u8], attributes: &[u8]) -> Result<Vec<u8>, WireError> {
    let asked = Attributes::parse(attributes)?;
    let asked = bits(&asked, A_WANTED)?;
    let after: Vec<Feature> = features(answer)?
        .into_iter()
        .map(|feature| match asked.iter().find(|(name, _)| *name == feature.name) {
            Some((_, on)) if feature.changeable => Feature { on: *on, ..feature },
            _ => feature,
        })
        .collect();
    let mut message = Vec::new();
    for (kind, value) in Attributes::parse(only(answer)?)?.iter() {
        if kind == A_ACTIVE {
            let active = after.iter().filter(|feature| feature.on);
            // Without values: the list contains only set bits.
            message.extend(bitset(kind, active.map(|feature| (feature.name.as_str(), false))));
        } else {
            message.extend(attribute(kind, value));
        }
    }
    Ok(one_message(&message))
}

/// The bits that a bitset lists, with their values.
fn bits<'a>(message: &Attributes<'a>, kind: u16) -> Result<Vec<(&'a str, bool)>, WireError> {
    // The kernel sends an empty list if no bit is set. A missing list means the compact form,
    // whose bits have no names.
    let bits = message.nested(kind)?.get(A_BITSET_BITS);
    let bits = bits.ok_or_else(|| WireError::new(format!("bitset {kind} has no list of bits")))?;
    let bits = Attributes::parse(bits)?;
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
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{features, requested, wanted, with_wanted};
    use crate::parse::ethtool::Feature;
    use crate::parse::wire::testing::answer;

    /// Shortened to six of the 64 offloads.
    const ETH0: &str = "180001800800010004000000090002006574683000000000d40002800800020040000000c8000380280001800800\
        0100000000001600020074782d736361747465722d676174686572000000040003002c0001800800010003000000\
        1b00020074782d636865636b73756d2d69702d67656e657269630000040003001800018008000100050000000c00\
        020068696768646d61001c000180080001000e0000000b00020072782d67726f0000040003001800018008000100\
        0f0000000b00020072782d6c726f00002400018008000100260000001500020072782d6e7475706c652d66696c74\
        65720000000078000380040001000800020040000000680003802400018008000100000000001600020074782d73\
        6361747465722d6761746865720000002800018008000100030000001b00020074782d636865636b73756d2d6970\
        2d67656e65726963000018000180080001000e0000000b00020072782d67726f0000900004800400010008000200\
        40000000800003802400018008000100000000001600020074782d736361747465722d6761746865720000002800\
        018008000100030000001b00020074782d636865636b73756d2d69702d67656e6572696300001800018008000100\
        050000000c00020068696768646d610018000180080001000e0000000b00020072782d67726f0000140005800400\
        0100080002004000000004000380";

    #[test]
    fn a_captured_answer() {
        let expected = [
            ("tx-scatter-gather", true, true),
            ("tx-checksum-ip-generic", true, true),
            ("highdma", true, false),
            ("rx-gro", true, true),
            ("rx-lro", false, false),
            ("rx-ntuple-filter", false, false),
        ];
        let feature =
            |(name, on, changeable): (&str, bool, bool)| Feature { name: name.to_owned(), on, changeable };
        assert_eq!(features(&answer(&[ETH0])), Ok(expected.map(feature).to_vec()));
        let on = ["tx-scatter-gather", "tx-checksum-ip-generic", "rx-gro"].map(str::to_owned);
        assert_eq!(requested(&answer(&[ETH0])), Ok(on.to_vec()), "the others cannot be");
        let without_the_last_list = format!("{}0c000580040001000800020040000000", &ETH0[..ETH0.len() - 40]);
        assert!(features(&answer(&[&without_the_last_list[..]])).is_err());
        assert!(features(&answer(&[&ETH0[..48]])).is_err(), "a name and nothing else");
    }

    #[test]
    fn what_is_wanted_is_active_unless_it_is_fixed() {
        let on = |name: &str, to: bool| {
            let after = with_wanted(&answer(&[ETH0]), &wanted(name, to)).expect("valid");
            let features = features(&after).expect("valid");
            assert_eq!(features.len(), 6);
            features.into_iter().filter(|feature| feature.on).map(|feature| feature.name).collect::<Vec<_>>()
        };
        let before = ["tx-scatter-gather", "tx-checksum-ip-generic", "highdma", "rx-gro"];
        assert_eq!(on("rx-gro", true), before);
        assert_eq!(on("rx-gro", false), before[..3]);
        assert_eq!(on("rx-lro", true), before, "the device cannot do it");
        assert_eq!(on("rx-rainbow", true), before);
    }

    proptest! {
        #[test]
        fn a_damaged_answer_keeps_its_features(at in any::<proptest::sample::Index>(), byte in any::<u8>(), on in any::<bool>()) {
            let mut damaged = answer(&[ETH0]);
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let wanted = wanted("rx-gro", on);
            let before = features(&damaged).ok();
            let after = with_wanted(&damaged, &wanted).ok();
            prop_assert_eq!(before.is_some(), after.is_some());
            if let Some((before, after)) = before.zip(after) {
                let name = |feature: Feature| feature.name;
                let after = features(&after).expect("written by us");
                prop_assert_eq!(before.into_iter().map(name).collect::<Vec<_>>(), after.into_iter().map(name).collect::<Vec<_>>());
            }
        }
    }
}
