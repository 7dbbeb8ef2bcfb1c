//! Groups of hosts, by kernel, driver and CPU, whose effect differs from that of the others.

use serde::{Deserialize, Serialize};

use super::{Tried, name_of};
use crate::record::Better;
use rxlab_stats::holm;
use rxlab_stats::looks::ERROR;
use rxlab_stats::pool::{Contrast, Estimate, contrast};

/// A group of hosts whose effect differs from that of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exception {
    /// What the hosts have in common: `kernel 5.15 with virtio_net`.
    pub group: String,
    /// The hosts.
    pub hosts: Vec<String>,
    /// Mean effect on them (0.05 = +5 %).
    pub effect: f64,
    /// Mean effect on the others.
    pub rest: f64,
    /// p-value of the difference; Holm's rule over `compared` groups allows it.
    pub p: f64,
    /// Groups that were compared.
    pub compared: usize,
    /// True if the trial of one of the hosts shows that the change helps there.
    pub helps_some: bool,
    /// The same of the others.
    pub helps_rest: bool,
}

impl Exception {
    /// True if the change does less good in the group than elsewhere.
    pub fn is_less(&self, better: Better) -> bool {
        match better {
            Better::Higher => self.effect < self.rest,
            Better::Lower => self.effect > self.rest,
        }
    }
}

/// A group: its name, and for each host whether it belongs to it; `None` if unknown.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    name: String,
    members: Vec<Option<bool>>,
}

impl Group {
    /// The same hosts, or their complement: one comparison.
    fn is_same(&self, other: &Self) -> bool {
        let opposite = |host: &Option<bool>| host.map(|is_member| !is_member);
        self.members == other.members || self.members.iter().map(opposite).eq(other.members.iter().copied())
    }

    fn has(&self, host: usize) -> bool {
        self.members[host] == Some(true)
    }

    fn size(&self) -> usize {
        self.members.iter().filter(|member| **member == Some(true)).count()
    }
}

/// The exceptions among the hosts that are pooled; of groups that share a host the surest one.
pub(crate) fn find(hosts: &[Tried]) -> Vec<Exception> {
    let hosts: Vec<(&Tried, Estimate)> =
        hosts.iter().filter_map(|tried| Some((tried, tried.estimate()?))).collect();
    let side = |group: &Group, is_member: bool| -> Vec<Estimate> {
        let side = hosts.iter().zip(&group.members).filter(|(_, member)| **member == Some(is_member));
        side.map(|((_, estimate), _)| *estimate).collect()
    };
    let compared: Vec<(Group, Contrast)> = groups(&hosts)
        .into_iter()
        .filter_map(|group| {
            let found = contrast(&side(&group, true), &side(&group, false))?;
            Some((group, found))
        })
        .collect();
    let p: Vec<f64> = compared.iter().map(|(_, found)| found.p).collect();
    let divisors = holm::divisors(&p, ERROR);
    let mut shown: Vec<&(Group, Contrast)> = compared
        .iter()
        .zip(divisors)
        .filter_map(|(one, divisor)| (one.1.p <= ERROR / divisor as f64).then_some(one))
        .collect();
    shown.sort_by(|a, b| a.1.p.total_cmp(&b.1.p));
    let mut kept: Vec<&(Group, Contrast)> = Vec::new();
    for one in shown {
        let overlaps =
            |other: &&(Group, Contrast)| (0..hosts.len()).any(|host| one.0.has(host) && other.0.has(host));
        if !kept.iter().any(overlaps) {
            kept.push(one);
        }
    }
    let exception = |(group, found): &(Group, Contrast)| {
        let side = |is_member: bool| {
            let side =
                hosts.iter().zip(&group.members).filter(move |(_, member)| **member == Some(is_member));
            side.map(|((tried, _), _)| tried)
        };
        Exception {
            group: group.name.clone(),
            hosts: side(true).map(|tried| name_of(&tried.host).to_owned()).collect(),
            effect: found.group.exp_m1(),
            rest: found.rest.exp_m1(),
            p: found.p,
            compared: compared.len(),
            helps_some: side(true).any(|tried| tried.helps()),
            helps_rest: side(false).any(|tried| tried.helps()),
        }
    };
    kept.into_iter().map(exception).collect()
}

/// All groups of at least two hosts next to two others: those of one fact, and of two facts together. Facts that name the same
/// hosts cannot be told apart and name one group.
fn groups(hosts: &[(&Tried, Estimate)]) -> Vec<Group> {
    let facts = |tried: &Tried| -> [Option<String>; 3] {
        let drivers: Vec<&str> = tried.drivers.iter().map(String::as_str).collect();
        [
            tried.host.kernel_series().map(|series| format!("kernel {series}")),
            (!drivers.is_empty()).then(|| drivers.join(" and ")),
            tried.cpu_model.clone(),
        ]
    };
    let of_hosts: Vec<[Option<String>; 3]> = hosts.iter().map(|(tried, _)| facts(tried)).collect();
    let mut singles: Vec<Group> = Vec::new();
    for kind in 0..3 {
        let mut values: Vec<&String> = of_hosts.iter().filter_map(|facts| facts[kind].as_ref()).collect();
        values.sort();
        values.dedup();
        for value in values {
            let members =
                of_hosts.iter().map(|facts| facts[kind].as_ref().map(|found| found == value)).collect();
            join(&mut singles, Group { name: value.clone(), members });
        }
    }
    let mut all = singles.clone();
    for (at, one) in singles.iter().enumerate() {
        for other in &singles[at + 1..] {
            let both = one.members.iter().zip(&other.members).map(|(a, b)| Some((*a)? && (*b)?));
            let group = Group { name: format!("{} with {}", one.name, other.name), members: both.collect() };
            if !all.iter().any(|known| known.is_same(&group)) {
                all.push(group);
            }
        }
    }
    let others = |group: &Group| group.members.iter().filter(|member| **member == Some(false)).count();
    all.retain(|group| group.size() >= 2 && others(group) >= 2);
    all
}

/// Adds a group. One with the hosts of a known group adds its name there; of a group and its complement the smaller one stays.
fn join(groups: &mut Vec<Group>, group: Group) {
    match groups.iter_mut().find(|known| known.is_same(&group)) {
        Some(known) if known.members == group.members => {
            known.name = format!("{} with {}", known.name, group.name);
        }
        Some(known) if group.size() < known.size() => *known = group,
        Some(_) => {}
        None => groups.push(group),
    }
}
