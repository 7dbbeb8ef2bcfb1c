//! What trials must have in common to be pooled: their plan and load without the names that only one host has.

use std::collections::BTreeMap;

use crate::record::{Metric, TrialRecord};
use rxlab_base::units::NicName;
use rxlab_setting::{Setting, Target};

/// A trial without the names of its host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Portable {
    pub(super) against: Vec<String>,
    pub(super) change: Vec<String>,
    pub(super) workload: String,
    pub(super) metric: Metric,
}

impl Portable {
    /// `None` for a record without metrics.
    pub(super) fn new(record: &TrialRecord) -> Option<Self> {
        let mut nics = BTreeMap::new();
        let mut arm = |lines: &[String]| lines.iter().map(|line| setting(line, &mut nics)).collect();
        Some(Self {
            against: arm(&record.against),
            change: arm(&record.change),
            workload: without_server(&record.workload),
            metric: record.metrics.first()?.clone(),
        })
    }
}

/// A setting with `NIC`, `NIC2` and so on for the interfaces, in the order in which a plan names them. A command stays as
/// it is: only its author knows what in it is a name.
fn setting(line: &str, nics: &mut BTreeMap<NicName, usize>) -> String {
    let Ok(setting) = line.parse::<Setting>() else { return line.to_owned() };
    let target = setting.target.to_string();
    let target = match (&setting.target, setting.target.nic()) {
        (Target::Process(_), _) => "pid:N".to_owned(),
        (_, Some(nic)) => {
            let count = nics.len() + 1;
            let number = *nics.entry(nic.clone()).or_insert(count);
            let part = target.strip_prefix("nic:").unwrap_or(&target);
            let part = part.strip_prefix(nic.as_str()).unwrap_or_default();
            if number == 1 { format!("NIC{part}") } else { format!("NIC{number}{part}") }
        }
        _ => target,
    };
    format!("{} {target} = {}", setting.knob, setting.value)
}

/// A load with `HOST` for the name or address in its URL.
fn without_server(workload: &str) -> String {
    let Some((scheme, rest)) = workload.split_once("://") else { return workload.to_owned() };
    let end = match rest.strip_prefix('[') {
        Some(inside) => inside.find(']').map(|at| at + 2),
        None => rest.find(|c: char| [':', '/', ',', ' '].contains(&c)),
    };
    format!("{scheme}://HOST{}", &rest[end.unwrap_or(rest.len())..])
}

#[cfg(test)]
mod tests {
    use super::{Portable, without_server};
    use crate::sample_record;

    fn change(lines: &[&str]) -> Vec<String> {
        let mut record = sample_record::rps();
        record.change = lines.iter().map(|line| (*line).to_owned()).collect();
        Portable::new(&record).expect("metrics").change
    }

    #[test]
    fn only_names_of_a_host_are_replaced() {
        let here = change(&["rps eth0/rx-0 = 2-7", "rps eth1/rx-0 = 2", "gro_flush_timeout eth0 = 20000"]);
        assert_eq!(here, ["rps NIC/rx-0 = 2-7", "rps NIC2/rx-0 = 2", "gro_flush_timeout NIC = 20000"]);
        assert_eq!(
            change(&["rps ens3/rx-0 = 2-7", "rps a/rx-0 = 2", "gro_flush_timeout ens3 = 20000"]),
            here
        );
        assert_ne!(
            change(&["rps eth0/rx-0 = 2-7", "rps eth1/rx-0 = 2", "gro_flush_timeout eth1 = 20000"]),
            here
        );
        assert_ne!(
            change(&["rps eth0/rx-0 = 2-3"]),
            change(&["rps eth0/rx-0 = 2-7"]),
            "values are the change"
        );
        assert_eq!(change(&["threaded nic:host = 1"]), ["threaded NIC = 1"]);
        assert_eq!(change(&["rfs_entries host = 32768"]), ["rfs_entries host = 32768"]);
        assert_eq!(change(&["ethtool -G eth0 rx 4096"]), ["ethtool -G eth0 rx 4096"], "a command");
    }

    #[test]
    fn a_load_differs_by_more_than_its_server() {
        assert_eq!(without_server("http://10.0.0.1:80/, 64 connections"), "http://HOST:80/, 64 connections");
        assert_eq!(without_server("udp://[fe80::1]:9000, 8 flows"), "udp://HOST:9000, 8 flows");
        assert_eq!(without_server("https://web1.example, open"), "https://HOST, open");
        assert_eq!(without_server("http://[::1"), "http://HOST");
        assert_eq!(without_server("live traffic, nothing driven"), "live traffic, nothing driven");
    }
}
