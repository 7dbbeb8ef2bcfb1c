//! The device's hash: its key, the header fields that it covers, and whether both directions of a flow have the same.
//!
//! Kernel: `Documentation/networking/scaling.rst`, "RSS".

use rustix::io::Errno;

use super::error::Meanings;
use super::ntuple_rule::{Before, keep_all_of_driver};
use super::{Knob, KnobError, Result, Site, rss, value};
use crate::journal::{Armed, Displaced};
use rxlab_base::parse::ethtool::{hash_fields, hash_letters, hash_letters_of, hash_letters_of_bits};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, EthtoolChange, EthtoolGet, Query};

pub(super) struct RssHashKnob {
    name: &'static str,
    part: Part,
}

#[derive(Clone, Copy)]
enum Part {
    Key,
    /// Fields of one kind of packet.
    Fields(&'static str),
    Symmetry,
}

pub(super) static RSS_KEY: RssHashKnob = RssHashKnob { name: "rss_key", part: Part::Key };
pub(super) static RSS_FIELDS_TCP4: RssHashKnob =
    RssHashKnob { name: "rss_fields_tcp4", part: Part::Fields("tcp4") };
pub(super) static RSS_FIELDS_UDP4: RssHashKnob =
    RssHashKnob { name: "rss_fields_udp4", part: Part::Fields("udp4") };
pub(super) static RSS_FIELDS_TCP6: RssHashKnob =
    RssHashKnob { name: "rss_fields_tcp6", part: Part::Fields("tcp6") };
pub(super) static RSS_FIELDS_UDP6: RssHashKnob =
    RssHashKnob { name: "rss_fields_udp6", part: Part::Fields("udp6") };
/// Both directions of a flow.
pub(super) static RSS_SYMMETRIC: RssHashKnob = RssHashKnob { name: "rss_symmetric", part: Part::Symmetry };

/// Values of [`RSS_SYMMETRIC`]: the kernel's name and its `RXH_XFRM_*` bit.
const TRANSFORMS: [(&str, &str, u8); 2] = [("xor", "symmetric-xor", 1), ("or-xor", "symmetric-or-xor", 2)];

const NO_FIELDS: &str = "the driver does not report such packets";
const NO_KEY: &str = "the driver does not report its hash key";
const FIXED: &str = "the driver does not let it be changed";

impl RssHashKnob {
    /// The hash's query and its current value.
    fn shown(&self, site: Site<'_>) -> Result<(EthtoolGet, String)> {
        let nic = site.nic()?;
        if let Part::Fields(kind) = self.part {
            let all = site.ethtool(EthtoolGet::HashFields, nic, hash_fields)?;
            let of_kind = all.iter().find(|fields| fields.kind == kind);
            let of_kind = of_kind.ok_or_else(|| site.lacks(NO_FIELDS))?;
            let letters = hash_letters(&of_kind.fields).ok_or_else(|| {
                let path = Query::Ethtool(EthtoolGet::HashFields, nic.name.clone()).path();
                KnobError::broken(&path, of_kind.fields.join(" "), "fields that ethtool has a letter for")
            })?;
            return Ok((EthtoolGet::HashFields, letters));
        }
        let (get, now) = rss::shown(site, nic)?;
        let value = match (self.part, now.transform.as_deref()) {
            (Part::Key, _) => now.key.ok_or_else(|| site.lacks(NO_KEY))?,
            (_, None) => "off".to_owned(),
            (_, Some(transform)) => {
                let known = TRANSFORMS.iter().find(|(_, name, _)| *name == transform);
                known.map_or(transform, |(word, ..)| word).to_owned()
            }
        };
        Ok((get, value))
    }

    /// The meaning of errnos; what EINVAL means depends on what is set.
    fn meanings(&self) -> Meanings {
        match self.part {
            Part::Key => &[(Errno::INVAL, "the driver does not accept this key")],
            Part::Fields(_) => &[(
                Errno::INVAL,
                "the driver does not hash this combination of fields, or the hash is symmetric (rss_symmetric)",
            )],
            Part::Symmetry => &[(
                Errno::INVAL,
                "the kernel does not have it (6.8 and later do), or the hashed fields are not symmetric",
            )],
        }
    }
}

impl RssHashKnob {
    /// Refuses to go on if the driver would delete flow rules: key and symmetry are set by its function that sets the table.
    fn keep_all(&self, site: Site<'_>, before: Before) -> Result {
        match self.part {
            Part::Key | Part::Symmetry => keep_all_of_driver(site, |deletes| deletes.rss, before),
            Part::Fields(_) => Ok(()),
        }
    }
}

impl Knob for RssHashKnob {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| match self.part {
            Part::Fields(kind) => {
                value::may_have(&nic.hardware.hash_fields, |all| all.iter().any(|fields| fields.kind == kind))
            }
            _ => value::may_have(&nic.hardware.rss, |rss| !rss.table.is_empty()),
        })
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let (_, now) = self.shown(site)?;
        let checked = match self.part {
            Part::Key => {
                let is_hex = value.bytes().all(|digit| digit.is_ascii_hexdigit());
                if !is_hex || value.len() != now.len() {
                    let why = format!("the key of {} has {} hexadecimal digits", site.target, now.len());
                    return Err(site.bad(value, why));
                }
                value.to_ascii_lowercase()
            }
            Part::Fields(_) => {
                let fields = hash_letters_of(value);
                let letters = fields.and_then(hash_letters_of_bits);
                letters
                    .ok_or_else(|| site.bad(value, "expected letters of sdfnmvter, such as sdfn, or none"))?
            }
            Part::Symmetry if value == "off" || TRANSFORMS.iter().any(|(word, ..)| *word == value) => {
                value.to_owned()
            }
            Part::Symmetry => return Err(site.bad(value, "expected off, xor or or-xor")),
        };
        if checked != now {
            self.keep_all(site, Before::Change)?;
        }
        Ok(checked)
    }

    fn check_restore(&self, site: Site<'_>, _value: &str, _kept: &[Displaced]) -> Result {
        self.keep_all(site, Before::Undo)
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        self.shown(site).map(|(_, value)| value)
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let nic = site.nic()?.name.clone();
        let (get, _) = self.shown(site)?;
        let change = match self.part {
            Part::Key => {
                let pairs = value.as_bytes().chunks(2).map(|pair| {
                    std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
                });
                let key: Option<Vec<u8>> = pairs.collect();
                EthtoolChange::HashKey { get, key: key.ok_or_else(|| site.bad(value, "not a key"))? }
            }
            Part::Fields(kind) => {
                let fields = hash_letters_of(value).ok_or_else(|| site.bad(value, "not fields"))?;
                EthtoolChange::HashFields { kind, fields }
            }
            Part::Symmetry => {
                let bits = TRANSFORMS.iter().find(|(word, ..)| *word == value).map_or(0, |(.., bit)| *bit);
                EthtoolChange::HashTransform { get, bits }
            }
        };
        let action = Action::EthtoolIoctl { nic, change };
        site.act(value, &action, self.meanings()).map_err(|error| error.or_lacks(FIXED))
    }
}

#[cfg(test)]
mod tests {
    use super::{RSS_FIELDS_TCP6, RSS_FIELDS_UDP4, RSS_KEY, RSS_SYMMETRIC};
    use crate::knob::Knob;
    use crate::knob::testbed::{
        answer, check, model, path, read, refusal, refusing, target, with_rules, write,
    };
    use rxlab_base::parse::one_message;
    use rxlab_sys::{Cause, EthtoolGet, Host, RecordedHost};

    /// A table of two entries, a key of four bytes, and UDP over IPv4 hashed by addresses.
    fn host(get: EthtoolGet) -> RecordedHost {
        let (table, key) = ([0u32, 1].map(u32::to_ne_bytes).concat(), [0x6d, 0x5a, 0x01, 0xff]);
        let rss = match get {
            EthtoolGet::Rss => answer(&[(3, &1u32.to_ne_bytes()), (4, &table), (5, &key)]),
            _ => {
                let header = [0x46u32, 0, 2, 4, 1, 0].map(u32::to_ne_bytes).concat();
                one_message(&[header, table, key.to_vec()].concat())
            }
        };
        let mut fields = vec![0; 192];
        (fields[4], fields[8]) = (2, 0x30);
        RecordedHost::new().with(&path(get), rss).with(&path(EthtoolGet::HashFields), one_message(&fields))
    }

    #[test]
    fn key_and_symmetry_are_set_by_either_interface() {
        let eth0 = "eth0";
        for get in [EthtoolGet::Rss, EthtoolGet::RssIoctl] {
            let host = host(get);
            let read = |knob: &dyn Knob| read(knob, &host, eth0).expect("there");
            assert_eq!((read(&RSS_KEY).as_str(), read(&RSS_SYMMETRIC).as_str()), ("6d5a01ff", "off"));
            assert_eq!(check(&RSS_KEY, &host, eth0, "00AAbbcc").as_deref(), Ok("00aabbcc"));
            write(&RSS_KEY, &host, "eth0", "00aabbcc").expect("written");
            for value in ["xor", "or-xor", "off", "xor"] {
                assert_eq!(check(&RSS_SYMMETRIC, &host, eth0, value).as_deref(), Ok(value));
                write(&RSS_SYMMETRIC, &host, "eth0", value).expect("written");
                assert_eq!(read(&RSS_SYMMETRIC), value);
            }
            assert_eq!(read(&RSS_KEY), "00aabbcc");
            for bad in ["00aabb", "00aabbcg", ""] {
                let error = refusal(&RSS_KEY, &host, eth0, bad);
                assert!(error.ends_with("the key of eth0 has 8 hexadecimal digits"), "{error}");
            }
        }
    }

    #[test]
    fn fields_are_letters_of_ethtool() {
        let (host, eth0) = (host(EthtoolGet::Rss), "eth0");
        let shown = || read(&RSS_FIELDS_UDP4, &host, eth0).expect("there");
        assert_eq!(shown(), "sd");
        assert_eq!(check(&RSS_FIELDS_UDP4, &host, eth0, "nfsd").as_deref(), Ok("sdfn"));
        for value in ["sdfn", "none", "r", "mvtsdfne"] {
            write(&RSS_FIELDS_UDP4, &host, "eth0", value).expect("written");
            assert_eq!(shown(), value);
        }
        let error = refusal(&RSS_FIELDS_UDP4, &host, eth0, "sx");
        assert!(error.ends_with("expected letters of sdfnmvter, such as sdfn, or none"), "{error}");
        let error = read(&RSS_FIELDS_TCP6, &host, eth0).expect_err("not reported").to_string();
        assert_eq!(error, "eth0 has no rss_fields_tcp6: the driver does not report such packets");
    }

    /// Composed: bnxt_en deletes rules with a new key or table, and keeps them with other fields.
    #[test]
    fn rules_that_the_driver_deletes_are_not_lost() {
        let of_rules = with_rules(true, &[7]).read(&path(EthtoolGet::Rules)).expect("there");
        let host = host(EthtoolGet::Rss).with(&path(EthtoolGet::Rules), of_rules);
        let (mut model, eth0) = (model(), target("eth0"));
        let mut rings = vec![0; 192];
        rings[8] = 2;
        let host = host.with(&path(EthtoolGet::RxRings), one_message(&rings));
        model.nics[0].driver = Some("bnxt_en".to_owned());
        let table = crate::knob::find("rss").expect("a knob");
        let all: [(&dyn Knob, &str, &str, bool); 6] = [
            (&RSS_KEY, "00aabbcc", "6d5a01ff", true),
            (&RSS_SYMMETRIC, "xor", "off", true),
            (table, "equal 1", "default", true),
            (&RSS_FIELDS_UDP4, "sdfn", "sd", false),
            (&RSS_FIELDS_UDP4, "sd", "sd", false),
            (table, "default", "default", false),
        ];
        for (knob, value, now, deletes) in all {
            let site = knob.site(&host, &model, &eth0);
            assert_eq!(knob.check(site, now).as_deref(), Ok(now), "nothing is written");
            let checked = [knob.check(site, value).map(drop), knob.check_restore(site, value, &[])];
            for result in checked.into_iter().take(if value == now { 1 } else { 2 }) {
                let expected = format!(
                    "{} eth0: undo could not restore a flow rule that eth0 has and would lose: remove first, as with \
                     `ntuple_rule eth0/rule-7 = none`",
                    knob.name()
                );
                assert_eq!(
                    result.map_err(|error| error.to_string()),
                    if deletes { Err(expected) } else { Ok(()) }
                );
            }
        }
    }

    #[test]
    fn older_kernels_are_named() {
        let host = refusing(host(EthtoolGet::RssIoctl), "grssh/eth0", Cause::Errno(22));
        let error = write(&RSS_SYMMETRIC, &host, "eth0", "xor").expect_err("refused").to_string();
        assert!(error.contains("the kernel does not have it (6.8 and later do)"), "{error}");
    }
}
