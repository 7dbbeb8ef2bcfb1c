//! `gro_max_size` and `gro_ipv4_max_size`: the length to which GRO merges packets.
//!
//! Kernel: ip-link(8), `gro_max_size`.

use rustix::io::Errno;

use super::error::Meanings;
use super::{Doc, Knob, Result, Site, value};
use crate::journal::Armed;
use rxlab_base::parse::{self, GroSize};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, Query};

/// A length of merged packets.
pub(super) struct GroSizeKnob {
    doc: Doc,
    size: GroSize,
    /// Error on a kernel that does not report it.
    absent: &'static str,
}

/// `GRO_MAX_SIZE` of the kernel, in bytes.
const MAX: u32 = 8 * 65_535;
const VALUES: &str = "bytes from 1 to 524280; the kernel begins with 65536";
const LOST: &str = "Re-creating the interface, for example by reloading its driver.";
const MEANINGS: Meanings = &[(Errno::INVAL, "this kernel does not accept this length")];

/// IPv6, and IPv4 before 6.3.
pub(super) static GRO_MAX_SIZE: GroSizeKnob = GroSizeKnob {
    doc: Doc {
        name: "gro_max_size",
        summary: "Length to which GRO merges packets of an IPv6 flow (\"BIG TCP\"), headers included: with more than \
                  65536, fewer and larger packets for each gigabyte.",
        target: "`NIC`",
        values: VALUES,
        example: "gro_max_size eth0 = 185000",
        source: "ip-link(8), \"gro_max_size\"",
        since: "5.19",
        lost: LOST,
        beware: "More than 65536 is for TCP over IPv6 only, and applications that capture packets must understand \
                 such lengths. Up to 65536 the kernel sets `gro_ipv4_max_size` to the same; rxlab sets that again. \
                 Before 6.3 it is the length for IPv4 too.",
    },
    size: GroSize::All,
    absent: "this kernel does not have it (5.19 and later do)",
};

/// IPv4 packets only, since 6.3.
pub(super) static GRO_IPV4_MAX_SIZE: GroSizeKnob = GroSizeKnob {
    doc: Doc {
        name: "gro_ipv4_max_size",
        summary: "Length to which GRO merges packets of an IPv4 flow, headers included.",
        target: "`NIC`",
        values: VALUES,
        example: "gro_ipv4_max_size eth0 = 185000",
        source: "ip-link(8), \"gro_ipv4_max_size\"",
        since: "6.3",
        lost: LOST,
        beware: "Packets of more than 65536 bytes have an IPv4 header whose length is 0: applications that capture \
                 packets, and netfilter rules that look at the length, must understand that. Applied after \
                 `gro_max_size`, which may set it too.",
    },
    size: GroSize::Ipv4,
    absent: "this kernel does not have it (6.3 and later do)",
};

impl Knob for GroSizeKnob {
    fn doc(&self) -> &Doc {
        &self.doc
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
        size.map(|bytes| bytes.to_string()).ok_or_else(|| site.lacks_since(self.doc.since, self.absent))
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
