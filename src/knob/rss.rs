//! `rss`: the queues that the device's hash leads to.

pub(super) mod form;

use rustix::io::Errno;

use super::error::Meanings;
use super::{Doc, Knob, KnobError, Result, value};
use crate::host::{Action, EthtoolChange, EthtoolGet, Host};
use crate::journal::Armed;
use crate::model::{Model, Nic};
use crate::parse::ethtool::{Rss, rss, rss_ioctl, rx_rings};
use crate::plan::Target;
use crate::units::Fact;

/// The default RSS table of an interface.
///
/// Kernel: `Documentation/networking/scaling.rst`, "RSS". A table that equals the kernel's current default is
/// read as `default`, no matter who wrote it: ethtool does not report that. To restore it, rxlab asks the
/// kernel for its default, because an explicit table stays as it is when the number of queues changes, and
/// forbids fewer.
pub(super) struct RssTable;

static DOC: Doc = Doc {
    name: "rss",
    summary: "The device's indirection table: the receive queues that the hash of a flow leads to, and how \
              many entries each queue has.",
    target: "`NIC`",
    values: "`default`; `equal N` for the first N queues in turn; `weights 1,2,1` for blocks in that \
             proportion; `table 0,1,2,3` entry by entry, repeated if shorter than the device's",
    example: "rss eth0 = equal 4",
    source: "Documentation/networking/scaling.rst, \"RSS: Receive Side Scaling\"",
    since: "2.6.36",
    lost: "Re-creating the interface. A change of the number of queues, for `default`, and in some drivers \
           for any table. Some drivers forget it in a reset.",
    beware: "Each table is shown in the first of these forms that fits, so that `equal 8` on eight queues \
             is `default`, which follows the number of queues if the driver supports that (virtio_net of \
             6.1 does not); all others stay as they are and forbid fewer queues than they use. Some drivers \
             start with a table other than the kernel's default; undo then writes that table explicitly. \
             Hash key and function stay as they are.",
};

const DEFAULT: &str = "default";

/// Error for a device without a table.
pub(super) const NO_TABLE: &str = "the device has no RSS table, or its driver does not report it";

/// The current table, and the question that returned it.
pub(super) fn shown(
    knob: &'static str,
    host: &dyn Host,
    target: &Target,
    nic: &Nic,
) -> Result<(EthtoolGet, Rss)> {
    let by_netlink = value::ethtool(knob, host, target, EthtoolGet::Rss, &nic.name, rss);
    let (get, rss) = match by_netlink {
        Err(KnobError::Unsupported { .. }) => {
            let get = EthtoolGet::RssIoctl;
            (get, value::ethtool(knob, host, target, get, &nic.name, rss_ioctl)?)
        }
        rss => (EthtoolGet::Rss, rss?),
    };
    if rss.table.is_empty() {
        return Err(KnobError::lacks(knob, target, NO_TABLE));
    }
    Ok((get, rss))
}

/// The table that `value` describes.
pub(super) fn entries(knob: &'static str, value: &str, size: usize) -> Result<Vec<u32>> {
    form::table(value, size).map_err(|why| KnobError::bad(knob, value, why))
}

/// [`entries`], limited to queues that the interface has.
pub(super) fn table_of(knob: &'static str, nic: &Nic, value: &str, size: usize) -> Result<Vec<u32>> {
    let table = entries(knob, value, size)?;
    value::check_queues(knob, nic, value, &table)?;
    Ok(table)
}

/// Number of queues that the default spreads over. If the driver does not report it, the queues are counted.
fn rings(knob: &'static str, host: &dyn Host, target: &Target, nic: &Nic) -> Result<u32> {
    match value::ethtool(knob, host, target, EthtoolGet::RxRings, &nic.name, rx_rings) {
        Err(KnobError::Unsupported { .. }) => Ok(u32::try_from(nic.rx.len()).unwrap_or(u32::MAX)),
        rings => rings,
    }
}

impl RssTable {
    /// The table that `value` describes, `None` for the default, and the number of queues that the default
    /// spreads over.
    fn table_and_rings(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<(Option<Vec<u32>>, u32)> {
        let nic = value::nic(self.name(), model, target)?;
        let rings = rings(self.name(), host, target, nic)?;
        if value == DEFAULT {
            return Ok((None, rings));
        }
        let (_, now) = shown(self.name(), host, target, nic)?;
        Ok((Some(entries(self.name(), value, now.table.len())?), rings))
    }
}

const MEANINGS: Meanings =
    &[(Errno::INVAL, "the driver does not accept this table, or the device lost one of its queues")];

impl Knob for RssTable {
    fn doc(&self) -> &Doc {
        &DOC
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| match &nic.hardware.rss {
            Fact::Known(rss) => !rss.table.is_empty(),
            other => *other != Fact::Unsupported,
        })
    }

    fn check(&self, host: &dyn Host, model: &Model, target: &Target, value: &str) -> Result<String> {
        let nic = value::nic(self.name(), model, target)?;
        let (_, now) = shown(self.name(), host, target, nic)?;
        if value == DEFAULT {
            return Ok(value.to_owned());
        }
        let table = table_of(self.name(), nic, value, now.table.len())?;
        Ok(form::text(&table, Some(rings(self.name(), host, target, nic)?)))
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>> {
        value::ethtool_path(self.name(), model, target, EthtoolGet::Rss)
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String> {
        let nic = value::nic(self.name(), model, target)?;
        let (_, now) = shown(self.name(), host, target, nic)?;
        Ok(form::text(&now.table, Some(rings(self.name(), host, target, nic)?)))
    }

    fn write(&self, host: &dyn Host, model: &Model, target: &Target, value: &str, _armed: &Armed) -> Result {
        let nic = value::nic(self.name(), model, target)?;
        let (get, now) = shown(self.name(), host, target, nic)?;
        let (size, reset) = (now.table.len(), value == DEFAULT);
        let queues = if reset {
            form::equal(rings(self.name(), host, target, nic)?, size)
        } else {
            entries(self.name(), value, size)?
        };
        let change = EthtoolChange::Table { get, queues, reset };
        let action = Action::EthtoolIoctl { nic: nic.name.clone(), change };
        value::act_or(
            self.name(),
            host,
            target,
            value,
            &action,
            MEANINGS,
            "the driver does not let it be set",
        )
    }

    // The table `equal 2` of four queues is the default of two.
    fn for_current_queues(&self, host: &dyn Host, model: &Model, target: &Target, value: &str) -> String {
        let now = || {
            let (table, rings) = self.table_and_rings(host, model, target, value).ok()?;
            Some(form::text(&table?, Some(rings)))
        };
        now().unwrap_or_else(|| value.to_owned())
    }

    // Some drivers do not start with the kernel's default: igb gives each queue a block of the table.
    fn driver_default(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Option<&'static str> {
        let chosen = match self.table_and_rings(host, model, target, value).ok()? {
            (None, _) => true,
            (Some(table), rings) => form::is_even(&table, rings),
        };
        chosen.then_some(DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, Knob, RssTable};
    use crate::host::{Host, RecordedHost};
    use crate::knob::testbed::{self, answer, model, path, target};
    use crate::parse::{one_message, push_message};

    fn bytes(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn netlink(table: &[u32]) -> RecordedHost {
        RecordedHost::new().with(&path(EthtoolGet::Rss), answer(&[(4, &bytes(table))]))
    }

    fn ioctl(table: &[u32]) -> RecordedHost {
        let mut answer = Vec::new();
        let size = u32::try_from(table.len()).expect("short");
        push_message(&mut answer, &[bytes(&[0x46, 0, size, 0, 1, 0]), bytes(table)].concat());
        RecordedHost::new().with(&path(EthtoolGet::RssIoctl), answer)
    }

    /// `eth0` of the test machine has two queues. Synthetic: no recorded machine has an RSS table.
    #[test]
    fn every_form_is_written_and_read_by_both_ways() {
        let (model, eth0, armed) = (model(), target("eth0"), testbed::armed());
        for host in [netlink(&[0, 1, 0, 1]), ioctl(&[0, 1, 0, 1])] {
            assert_eq!(RssTable.read(&host, &model, &eth0).as_deref(), Ok("default"));
            for (value, canonical) in [
                ("equal 1", "equal 1"),
                ("weights 3,1", "weights 3,1"),
                ("table 1,0", "table 1,0"),
                ("weights 1,1", "weights 1,1"),
                ("equal 2", "default"),
                ("table 1,1,1,1", "weights 0,1"),
                ("default", "default"),
            ] {
                let checked = RssTable.check(&host, &model, &eth0, value).expect(value);
                assert_eq!(checked, canonical);
                RssTable.write(&host, &model, &eth0, &checked, &armed).expect(value);
                assert_eq!(RssTable.read(&host, &model, &eth0).as_deref(), Ok(canonical));
            }
        }
    }

    #[test]
    fn what_the_device_does_not_have_is_refused() {
        let says = |host: &RecordedHost, value: &str| {
            RssTable.check(host, &model(), &target("eth0"), value).expect_err(value).to_string()
        };
        let host = netlink(&[0, 1, 0, 1]);
        assert_eq!(
            says(&host, "equal 3"),
            "invalid value `equal 3` for rss: eth0 has 2 receive queues, and no rx-2"
        );
        assert!(says(&host, "table 0,1,0").contains("3 entries do not fill the table of 4"));
        assert!(says(&netlink(&[]), "equal 1").starts_with("eth0 has no rss: the device has no RSS table"));
        assert!(says(&RecordedHost::new(), "default").contains("does not exist"));
    }

    /// `eth0` of the test machine has two queues.
    #[test]
    fn a_table_is_called_otherwise_with_other_queues() {
        let (host, model, eth0) = (netlink(&[0, 1, 0, 1]), model(), target("eth0"));
        for (value, called, choice) in [
            ("default", "default", Some("default")),
            ("equal 2", "default", Some("default")),
            ("weights 1,1", "weights 1,1", Some("default")),
            ("equal 1", "equal 1", None),
            ("equal 4", "equal 4", None),
            ("weights 1,3", "weights 1,3", None),
            ("weights 1,1,1,1", "equal 4", None),
            ("table 0,1,0", "table 0,1,0", None),
        ] {
            assert_eq!(RssTable.for_current_queues(&host, &model, &eth0, value), called);
            assert_eq!(RssTable.driver_default(&host, &model, &eth0, value), choice, "{value}");
        }
    }

    /// A driver may spread over fewer queues than there are.
    #[test]
    fn the_default_is_that_of_the_driver() {
        let mut rings = vec![0; 192];
        rings[8] = 1;
        let host = netlink(&[0, 0, 0, 0]).with(&path(EthtoolGet::RxRings), one_message(&rings));
        assert_eq!(RssTable.read(&host, &model(), &target("eth0")).as_deref(), Ok("default"));
        assert!(host.read(&path(EthtoolGet::RssIoctl)).is_err(), "netlink is enough");
    }
}
