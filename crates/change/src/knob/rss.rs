//! `rss`: the queues that the device's hash leads to.

pub(super) mod form;

use rustix::io::Errno;

use super::error::Meanings;
use super::ntuple_rule::{Before, keep_all_of_driver};
use super::{Knob, KnobError, Result, Site, value};
use crate::journal::{Armed, Displaced};
use rxlab_base::parse::ethtool::{Rss, rss, rss_ioctl, rx_rings};
use rxlab_path::model::{Model, Nic};
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, EthtoolChange, EthtoolGet};

/// The default RSS table of an interface.
///
/// Kernel: `Documentation/networking/scaling.rst`, "RSS". A table that equals the kernel's current default is
/// read as `default`, no matter who wrote it: ethtool does not report that. To restore it, rxlab asks the
/// kernel for its default, because an explicit table stays as it is when the number of queues changes, and
/// forbids fewer.
pub(super) struct RssTable;

const DEFAULT: &str = "default";

/// Error for a device without a table.
pub(super) const NO_TABLE: &str = "the device has no RSS table, or its driver does not report it";

/// The current table, and the query that returned it.
pub(super) fn shown(site: Site<'_>, nic: &Nic) -> Result<(EthtoolGet, Rss)> {
    let (get, rss) = match site.ethtool(EthtoolGet::Rss, nic, rss) {
        Err(KnobError::Unsupported { .. }) => {
            (EthtoolGet::RssIoctl, site.ethtool(EthtoolGet::RssIoctl, nic, rss_ioctl)?)
        }
        rss => (EthtoolGet::Rss, rss?),
    };
    if rss.table.is_empty() {
        return Err(site.lacks(NO_TABLE));
    }
    Ok((get, rss))
}

/// The table that `value` describes.
pub(super) fn entries(site: Site<'_>, value: &str, size: usize) -> Result<Vec<u32>> {
    form::table(value, size).map_err(|why| site.bad(value, why))
}

/// [`entries`], limited to queues that the interface has.
pub(super) fn table_of(site: Site<'_>, nic: &Nic, value: &str, size: usize) -> Result<Vec<u32>> {
    let table = entries(site, value, size)?;
    site.check_queues(nic, value, &table)?;
    Ok(table)
}

/// Number of queues that the default spreads over. If the driver does not report it, the queues are counted: the current ones,
/// unless a recording lacks them, as the model may be older than a change of their number.
fn rings(site: Site<'_>, nic: &Nic) -> Result<u32> {
    match site.ethtool(EthtoolGet::RxRings, nic, rx_rings) {
        Err(KnobError::Unsupported { .. }) => {}
        rings => return rings,
    }
    let count = match site.host.list(&format!("sys/class/net/{}/queues", nic.name)) {
        Ok(queues) => queues.iter().filter(|queue| queue.starts_with("rx-")).count(),
        Err(error) if error.cause == Cause::Missing => nic.rx.len(),
        Err(error) => return Err(site.unreadable(&error)),
    };
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The table that `value` describes, `None` for the default, and the number of queues that the default
/// spreads over.
fn table_and_rings(site: Site<'_>, value: &str) -> Result<(Option<Vec<u32>>, u32)> {
    let nic = site.nic()?;
    let rings = rings(site, nic)?;
    if value == DEFAULT {
        return Ok((None, rings));
    }
    let (_, now) = shown(site, nic)?;
    Ok((Some(entries(site, value, now.table.len())?), rings))
}

const MEANINGS: Meanings =
    &[(Errno::INVAL, "the driver does not accept this table, or the device lost one of its queues")];

impl Knob for RssTable {
    fn name(&self) -> &'static str {
        "rss"
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| value::may_have(&nic.hardware.rss, |rss| !rss.table.is_empty()))
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let nic = site.nic()?;
        let (_, now) = shown(site, nic)?;
        let rings = rings(site, nic)?;
        let checked = if value == DEFAULT {
            value.to_owned()
        } else {
            form::text(&table_of(site, nic, value, now.table.len())?, Some(rings))
        };
        if checked != form::text(&now.table, Some(rings)) {
            keep_all_of_driver(site, |deletes| deletes.rss, Before::Change)?;
        }
        Ok(checked)
    }

    fn check_restore(&self, site: Site<'_>, _value: &str, _kept: &[Displaced]) -> Result {
        keep_all_of_driver(site, |deletes| deletes.rss, Before::Undo)
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let nic = site.nic()?;
        // The table last: it may be the last look before a write.
        let rings = rings(site, nic)?;
        let (_, now) = shown(site, nic)?;
        Ok(form::text(&now.table, Some(rings)))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let nic = site.nic()?;
        let (get, now) = shown(site, nic)?;
        let size = now.table.len();
        let default = form::equal(rings(site, nic)?, size);
        let queues = if value == DEFAULT { default.clone() } else { entries(site, value, size)? };
        // Read with another number of queues, it has another name.
        let reset = queues == default;
        let change = EthtoolChange::Table { get, queues, reset };
        let action = Action::EthtoolIoctl { nic: nic.name.clone(), change };
        let fixed = "the driver does not let it be set";
        site.act(value, &action, MEANINGS).map_err(|error| error.or_lacks(fixed))
    }

    // The table `equal 2` of four queues is the default of two.
    fn for_current_queues(&self, site: Site<'_>, value: &str) -> String {
        match table_and_rings(site, value) {
            Ok((Some(table), rings)) => form::text(&table, Some(rings)),
            _ => value.to_owned(),
        }
    }

    // Some drivers do not start with the kernel's default: igb gives each queue a block of the table.
    fn driver_default(&self, site: Site<'_>, value: &str) -> Option<&'static str> {
        let chosen = match table_and_rings(site, value).ok()? {
            (None, _) => true,
            (Some(table), rings) => form::is_even(&table, rings),
        };
        chosen.then_some(DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, Knob, RssTable};
    use crate::knob::testbed::{answer, check, model, path, read, refusal, target, write};
    use rxlab_base::parse::{one_message, words};
    use rxlab_sys::{Host, RecordedHost};

    fn netlink(table: &[u32]) -> RecordedHost {
        RecordedHost::new().with(&path(EthtoolGet::Rss), answer(&[(4, &words(table))]))
    }

    fn ioctl(table: &[u32]) -> RecordedHost {
        let size = u32::try_from(table.len()).expect("short");
        let answer = [words(&[0x46, 0, size, 0, 1, 0]), words(table)].concat();
        RecordedHost::new().with(&path(EthtoolGet::RssIoctl), one_message(&answer))
    }

    /// The number of queues has changed since the sample: the default of three was written as a table.
    #[test]
    fn queues_are_counted_as_they_are_now() {
        let host = ["rx-0", "rx-1", "rx-2"].iter().fold(netlink(&[0, 1, 2, 0]), |host, queue| {
            host.with(&format!("sys/class/net/eth0/queues/{queue}/rps_cpus"), "0\n")
        });
        assert_eq!(read(&RssTable, &host, "eth0").as_deref(), Ok("default"));
        assert_eq!(
            read(&RssTable, &netlink(&[0, 1, 2, 0]), "eth0").as_deref(),
            Ok("equal 3"),
            "of a sample with two"
        );
    }

    /// `eth0` of the test machine has two queues. Synthetic: no recorded machine has an RSS table.
    #[test]
    fn every_form_is_written_and_read_by_both_ways() {
        let eth0 = "eth0";
        for host in [netlink(&[0, 1, 0, 1]), ioctl(&[0, 1, 0, 1])] {
            assert_eq!(read(&RssTable, &host, eth0).as_deref(), Ok("default"));
            for (value, canonical) in [
                ("equal 1", "equal 1"),
                ("weights 3,1", "weights 3,1"),
                ("table 1,0", "table 1,0"),
                ("weights 1,1", "weights 1,1"),
                ("equal 2", "default"),
                ("table 1,1,1,1", "weights 0,1"),
                ("default", "default"),
            ] {
                let checked = check(&RssTable, &host, eth0, value).expect(value);
                assert_eq!(checked, canonical);
                write(&RssTable, &host, eth0, &checked).expect(value);
                assert_eq!(read(&RssTable, &host, eth0).as_deref(), Ok(canonical));
            }
        }
    }

    #[test]
    fn what_the_device_does_not_have_is_refused() {
        let says = |host: &RecordedHost, value: &str| refusal(&RssTable, host, "eth0", value);
        let host = netlink(&[0, 1, 0, 1]);
        assert_eq!(
            says(&host, "equal 3"),
            "invalid value `equal 3` for rss: eth0 has 2 receive queues, and no rx-2"
        );
        assert!(says(&host, "table 0,1,0").contains("3 entries do not fill the table of 4"));
        assert!(says(&netlink(&[]), "equal 1").starts_with("eth0 has no rss: the device has no RSS table"));
        assert!(says(&RecordedHost::new(), "default").ends_with("no values of `ethtool -x eth0`"));
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
            let site = RssTable.site(&host, &model, &eth0);
            assert_eq!(RssTable.for_current_queues(site, value), called);
            assert_eq!(RssTable.driver_default(site, value), choice, "{value}");
        }
    }

    /// A driver may spread over fewer queues than there are.
    #[test]
    fn the_default_is_that_of_the_driver() {
        let mut rings = vec![0; 192];
        rings[8] = 1;
        let host = netlink(&[0, 0, 0, 0]).with(&path(EthtoolGet::RxRings), one_message(&rings));
        assert_eq!(read(&RssTable, &host, "eth0").as_deref(), Ok("default"));
        assert!(host.read(&path(EthtoolGet::RssIoctl)).is_err(), "netlink is enough");
    }
}
