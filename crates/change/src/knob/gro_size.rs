//! `gro_max_size` and `gro_ipv4_max_size`: the length to which GRO merges packets.
//!
//! Kernel: ip-link(8), `gro_max_size`.

use rustix::io::Errno;

use super::error::Meanings;
use super::{Knob, Result, Site, value};
use crate::journal::Armed;
use rxlab_base::parse::{self, GroSize};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, Query};

/// A length of merged packets.
pub(super) struct GroSizeKnob {
    name: &'static str,
    size: GroSize,
    /// The first kernel that has it.
    since: &'static str,
    /// Error on a kernel that does not report it.
    absent: &'static str,
}

/// `GRO_MAX_SIZE` of the kernel, in bytes.
const MAX: u32 = 8 * 65_535;
const MEANINGS: Meanings = &[(Errno::INVAL, "this kernel does not accept this length")];

/// IPv6, and IPv4 before 6.3.
pub(super) static GRO_MAX_SIZE: GroSizeKnob = GroSizeKnob {
    name: "gro_max_size",
    size: GroSize::All,
    since: "5.19",
    absent: "this kernel does not have it (5.19 and later do)",
};

/// IPv4 packets only, since 6.3.
pub(super) static GRO_IPV4_MAX_SIZE: GroSizeKnob = GroSizeKnob {
    name: "gro_ipv4_max_size",
    size: GroSize::Ipv4,
    since: "6.3",
    absent: "this kernel does not have it (6.3 and later do)",
};

impl Knob for GroSizeKnob {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |_| true)
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        self.read(site)?;
        match value::plain_number(value) {
            Some(bytes) if (1..=MAX).contains(&bytes) => Ok(bytes.to_string()),
            _ => Err(site.bad(value, format!("must be from 1 to {MAX}"))),
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let nic = site.nic()?;
        let links = site.query(&Query::Links, parse::links, "a list of interfaces")?;
        let size = links.iter().find(|link| link.name == nic.name).and_then(|link| self.size.value(link));
        size.map(|bytes| bytes.to_string()).ok_or_else(|| site.lacks_since(self.since, self.absent))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let nic = site.nic()?.name.clone();
        let bytes = site.number(value, "a number of bytes")?;
        let action = Action::Link { nic, attributes: self.size.attribute(bytes) };
        site.act(value, &action, MEANINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::{GRO_IPV4_MAX_SIZE, GRO_MAX_SIZE};
    use crate::knob::testbed::{check, read, refusal, write};
    use rxlab_base::parse::{GroSize, attribute, one_message};
    use rxlab_sys::RecordedHost;

    /// `eth0` as a kernel reports it that has only the first of the two.
    fn host() -> RecordedHost {
        let link = [vec![0; 16], attribute(3, b"eth0\0"), GroSize::All.attribute(65_536)].concat();
        RecordedHost::new().with("netlink/route/link-get", one_message(&link))
    }

    #[test]
    fn lengths_are_set() {
        let host = host();
        assert_eq!(check(&GRO_MAX_SIZE, &host, "eth0", "185000").as_deref(), Ok("185000"));
        write(&GRO_MAX_SIZE, &host, "eth0", "185000").expect("written");
        assert_eq!(read(&GRO_MAX_SIZE, &host, "eth0").as_deref(), Ok("185000"));
        for bad in ["0", "524281", "off"] {
            let error = refusal(&GRO_MAX_SIZE, &host, "eth0", bad);
            assert!(error.ends_with("must be from 1 to 524280"), "{error}");
        }
    }

    #[test]
    fn older_kernels_are_named() {
        let expected = "eth0 has no gro_ipv4_max_size: this kernel does not have it (6.3 and later do)";
        assert_eq!(refusal(&GRO_IPV4_MAX_SIZE, &host(), "eth0", "65536"), expected);
    }
}
