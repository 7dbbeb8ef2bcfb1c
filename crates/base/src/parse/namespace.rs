//! Numbers of network namespaces: the answer to rtnetlink's `RTM_GETNSID`, and the text of the links
//! `/proc/PID/ns/*`.

use super::{Attributes, WireError, digits, messages};

const RTGENMSG: usize = 4;
const NETNSA_NSID: u16 = 1;
/// `NETNSA_NSID_NOT_ASSIGNED` of the kernel: -1 as 32 bits.
const NOT_ASSIGNED: u64 = u32::MAX as u64;

/// The number of one namespace in another; `None` if it has no number there, which is the case
/// until an interface joins the two.
pub fn namespace_id(answer: &[u8]) -> Result<Option<u32>, WireError> {
    let [message] = messages(answer)?[..] else { return Err(WireError::new("expected one message")) };
    let attributes =
        message.get(RTGENMSG..).ok_or_else(|| WireError::new("an answer without its fixed header"))?;
    let id = Attributes::parse(attributes)?.number(NETNSA_NSID)?;
    let id = id.ok_or_else(|| WireError::new("an answer without a number"))?;
    if id == NOT_ASSIGNED {
        return Ok(None);
    }
    // The kernel's number is signed; assigned ones are not negative.
    let given = u32::try_from(id).ok().filter(|id| i32::try_from(*id).is_ok());
    given.map(Some).ok_or_else(|| WireError::new(format!("invalid namespace number {id}")))
}

/// The inode in a link such as `net:[4026531840]`, which identifies a namespace.
pub fn namespace_inode(link: &str) -> Option<u64> {
    digits(link.strip_prefix("net:[")?.strip_suffix(']')?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{namespace_id, namespace_inode};
    use crate::parse::{attribute, one_message};

    fn answer(id: i32) -> Vec<u8> {
        one_message(&[vec![0; 4], attribute(1, id.to_ne_bytes())].concat())
    }

    #[test]
    fn minus_one_is_none_and_not_a_number() {
        assert_eq!(namespace_id(&answer(0)), Ok(Some(0)));
        assert_eq!(namespace_id(&answer(-1)), Ok(None));
        assert!(namespace_id(&answer(-2)).is_err());
        assert!(namespace_id(&[]).is_err());
        assert!(namespace_id(&answer(7)[..6]).is_err());
    }

    #[test]
    fn only_links_of_network_namespaces() {
        assert_eq!(namespace_inode("net:[4026531840]"), Some(4_026_531_840));
        for bad in ["mnt:[4026531840]", "net:[]", "net:[+1]", "net:4026531840"] {
            assert_eq!(namespace_inode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(id in 0i32..) {
            prop_assert_eq!(namespace_id(&answer(id)), Ok(Some(id.unsigned_abs())));
            prop_assert_eq!(namespace_inode(&format!("net:[{id}]")), Some(u64::from(id.unsigned_abs())));
        }
    }
}
