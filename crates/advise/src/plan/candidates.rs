//! Candidates of a search: for one kind of setting of an interface, the few values that its place in the machine and the
//! work seen there suggest. All masks of n CPUs would be 2^n.
//!
//! A mask never has the CPU that receives while another is there. Sizes of masks can be searched on from the listed ones:
//! [`Candidates::sized`].

pub(super) mod masks;
pub(super) mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use masks::Group;

use super::policy::{Options, Policy, Variable};
use super::spread::unsteerable;
use super::step::{channels, rfs};
use rxlab_base::units::{CpuMask, Fact, QueueId};
use rxlab_path::constraints::{QueueLimit, changeable_queues, queue_limit};
use rxlab_path::model::{Model, Nic, NicKind, Rates};
use rxlab_setting::{Plan, Setting, Target, set_text};

/// Most candidates of a search, without the current value.
pub const MAX_CANDIDATES: usize = 12;

/// Delays of an interrupt in microseconds, from none to where latency suffers.
const DELAYS: [u32; 6] = [0, 10, 20, 50, 100, 200];

/// Name of the candidate that is set now, if it is not a usual one.
const CURRENT: &str = "current";

/// The kind of setting whose values are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Searched {
    /// RPS masks of all receive queues.
    Rps,
    /// RFS tables.
    Rfs,
    /// CPUs of interrupts.
    IrqPlacement,
    /// Interrupt moderation: adaptive, and fixed delays.
    Moderation,
    /// Numbers of queues.
    Queues,
    /// Kernel threads that poll.
    ThreadedNapi,
}

/// A value to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// One word that no other candidate has.
    pub name: String,
    /// What makes the machine so; empty for the value that is set now.
    pub settings: Vec<Setting>,
    /// Of masks: index of the group, and number of CPUs of each queue's mask.
    pub size: Option<(usize, usize)>,
}

impl Candidate {
    /// True for the value that is set now.
    pub fn is_current(&self) -> bool {
        self.settings.is_empty()
    }
}

/// Candidates for an interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    /// Those to begin with: always the current value, and `off` if that is something else.
    pub list: Vec<Candidate>,
    /// Groups of CPUs whose sizes can be searched; none for what has no sizes.
    pub groups: Vec<Group>,
    /// CPUs that are in no mask because they receive now.
    pub receiving: CpuMask,
    nic: Nic,
}

impl Candidates {
    /// Those that change something.
    pub fn to_try(&self) -> impl Iterator<Item = &Candidate> {
        self.list.iter().filter(|candidate| !candidate.is_current())
    }

    /// The candidate of a group with masks of `size` CPUs; `None` if the group has fewer.
    pub fn sized(&self, group: usize, size: usize) -> Option<Candidate> {
        let of = self.groups.get(group).filter(|of| (1..=of.most).contains(&size))?;
        let masks = of.masks(size);
        let settings = steer(&self.nic, &masks);
        Some(Candidate { name: format!("{}-{size}", of.name), settings, size: Some((group, size)) })
    }
}

/// Candidates for `nic`; an error says what the interface lacks.
pub fn candidates(model: &Model, rates: &Rates, nic: &Nic, searched: Searched) -> Result<Candidates, String> {
    let mut found =
        Candidates { list: Vec::new(), groups: Vec::new(), receiving: CpuMask::new(), nic: nic.clone() };
    let all = match searched {
        Searched::Rps => masks(model, rates, &mut found)?,
        Searched::Rfs => flows(model, rates, nic)?,
        Searched::IrqPlacement => placements(model, rates, nic)?,
        Searched::Moderation => delays(nic)?,
        Searched::Queues => queues(model, nic)?,
        Searched::ThreadedNapi => threads(nic)?,
    };
    // `off` may be the current value, and a usual size too.
    let (current, others): (Vec<Candidate>, Vec<Candidate>) =
        all.into_iter().partition(Candidate::is_current);
    let current = current.into_iter().next().unwrap_or(Candidate {
        name: CURRENT.to_owned(),
        settings: Vec::new(),
        size: None,
    });
    found.list.push(current);
    for candidate in others {
        let is_new = found.list.iter().all(|other| other.settings != candidate.settings);
        if is_new && found.list.len() <= MAX_CANDIDATES {
            found.list.push(candidate);
        }
    }
    if found.list.len() < 2 {
        return Err(format!("{} has no other value to try", nic.name));
    }
    Ok(found)
}

fn plain(name: impl Into<String>, settings: Vec<Setting>) -> Candidate {
    Candidate { name: name.into(), settings, size: None }
}

/// RPS off, and masks of several sizes of each group: what a search begins with, the likeliest first.
fn masks(model: &Model, rates: &Rates, found: &mut Candidates) -> Result<Vec<Candidate>, String> {
    let nic = &found.nic;
    if nic.rx.iter().any(|queue| queue.rps_cpus.known().is_none()) {
        return Err(format!("{} has no RPS masks", nic.name));
    }
    if nic.kind == NicKind::Loopback {
        return Err(format!("{} receives inside the sender's system call", nic.name));
    }
    if let Some(why) = unsteerable(model, rates, nic) {
        return Err(why);
    }
    let masks::Groups { groups, receiving } = masks::groups(model, rates, nic)?;
    let off = plain("off", steer(nic, &vec![CpuMask::new(); nic.steering_queues().len()]));
    (found.groups, found.receiving) = (groups, receiving);
    let mut sizes: Vec<(usize, usize, usize)> = Vec::new();
    for (at, group) in found.groups.iter().enumerate() {
        for (turn, size) in first_sizes(group).into_iter().enumerate() {
            sizes.push((turn, at, size));
        }
    }
    // The likeliest size of each group comes before the next of any.
    sizes.sort_unstable();
    let sized = sizes.into_iter().filter_map(|(_, group, size)| found.sized(group, size));
    Ok(std::iter::once(off).chain(sized).collect())
}

/// Sizes to begin with: where the search starts, all, then one less and one more, then half and twice, and so on.
fn first_sizes(group: &Group) -> Vec<usize> {
    let Group { start, most, .. } = *group;
    let mut sizes = vec![start, most, start.saturating_sub(1).max(1), (start + 1).min(most)];
    let (mut low, mut high) = (start, start);
    while low > 1 || high < most {
        (low, high) = ((low / 2).max(1), (high * 2).min(most));
        sizes.extend([low, high]);
    }
    let mut seen = BTreeSet::new();
    sizes.retain(|size| seen.insert(*size));
    sizes
}

/// A mask for each queue that has its own; without settings if all are there already.
fn steer(nic: &Nic, masks: &[CpuMask]) -> Vec<Setting> {
    let queues = || nic.steering_queues().iter().zip(masks);
    if queues().all(|(queue, mask)| queue.rps_cpus.known() == Some(mask)) {
        return Vec::new();
    }
    let target = |index: u32| Target::queue(&nic.name, QueueId::rx(index));
    queues().map(|(queue, mask)| Setting::new("rps", target(queue.index), set_text(mask))).collect()
}

/// No tables, and complete ones.
fn flows(model: &Model, rates: &Rates, nic: &Nic) -> Result<Vec<Candidate>, String> {
    if !rfs::are_readable(model, nic) {
        return Err(format!("a table of RFS of {} cannot be read", nic.name));
    }
    if let Some(why) = unsteerable(model, rates, nic).or_else(|| rfs::refusal(model)) {
        return Err(why);
    }
    let zero = |index: u32| Setting::new("rfs", Target::queue(&nic.name, QueueId::rx(index)), "0");
    let tables =
        nic.steering_queues().iter().filter(|queue| rfs::has_flows(queue)).map(|queue| zero(queue.index));
    let off: Vec<Setting> = if rfs::is_on(model, nic) { tables.collect() } else { Vec::new() };
    let on = rfs::settings(model, nic).into_iter().map(|planned| planned.set).collect();
    Ok(vec![plain("off", off), plain("on", on)])
}

/// Where policies send the interrupts of the queues.
fn placements(model: &Model, rates: &Rates, nic: &Nic) -> Result<Vec<Candidate>, String> {
    if nic.rx.iter().all(|queue| queue.irqs.is_empty()) {
        return Err(format!("{} has no interrupts of queues", nic.name));
    }
    let options = Options { nics: vec![nic.name.clone()], ..Options::default() };
    let policies =
        [("spread", Policy::Spread), ("numa-local", Policy::NumaLocal), ("isolate", Policy::Isolate)];
    let settings = |plan: Plan| plan.settings.into_iter().map(|planned| planned.set).collect::<Vec<_>>();
    let all = policies.map(|(name, policy)| {
        plain(name, settings(policy.plan(model, rates, &options, Some(&[Variable::Irq])).plan))
    });
    // A policy that would change nothing has no value of its own to try.
    let mut all: Vec<Candidate> = all.into_iter().filter(|candidate| !candidate.is_current()).collect();
    all.insert(0, plain(CURRENT, Vec::new()));
    Ok(all)
}

fn threads(nic: &Nic) -> Result<Vec<Candidate>, String> {
    let Some(now) = nic.napi.threaded.known() else {
        return Err(format!("{} does not report threaded NAPI", nic.name));
    };
    let switch = |on: bool| {
        let name = if on { "on" } else { "off" };
        let set = Setting::new("threaded", Target::Nic(nic.name.clone()), name);
        plain(name, if on == *now { Vec::new() } else { vec![set] })
    };
    Ok(vec![switch(false), switch(true)])
}

fn delays(nic: &Nic) -> Result<Vec<Candidate>, String> {
    let Fact::Known(coalesce) = &nic.hardware.coalesce else {
        return Err(format!("{} does not report its interrupt moderation", nic.name));
    };
    let target = || Target::Nic(nic.name.clone());
    let adaptive = |on: bool| Setting::new("adaptive_rx", target(), if on { "on" } else { "off" });
    let mut all = Vec::new();
    if coalesce.adaptive_rx == Some(false) {
        all.push(plain("adaptive", vec![adaptive(true)]));
    }
    let is_fixed = coalesce.adaptive_rx != Some(true);
    for delay in
        DELAYS.into_iter().filter(|delay| coalesce.rx_usecs.is_some_and(|now| !is_fixed || now != *delay))
    {
        let mut settings = vec![Setting::new("rx_usecs", target(), delay.to_string())];
        if coalesce.adaptive_rx.is_some() {
            settings.insert(0, adaptive(false));
        }
        all.push(plain(format!("usecs-{delay}"), settings));
    }
    Ok(all)
}

/// Powers of two up to the usable CPUs, and as many as those or as the device has.
fn queues(model: &Model, nic: &Nic) -> Result<Vec<Candidate>, String> {
    let lacks = || format!("{} does not report its numbers of queues", nic.name);
    let channels = changeable_queues(model, nic)?;
    let QueueLimit { kind, now, most, .. } = queue_limit(nic).ok_or_else(lacks)?;
    let most = most.min(u32::try_from(model.usable().len()).unwrap_or(u32::MAX));
    let powers = (0..32).map(|bit| 1 << bit).take_while(|power| *power < most);
    let counts = powers.chain([most]).filter(|number| *number != now);
    let candidate = |number: u32| {
        let value = channels::text(channels, kind, number);
        let setting = Setting::new("channels", Target::Nic(nic.name.clone()), value);
        plain(format!("queues-{number}"), vec![setting])
    };
    Ok(counts.map(candidate).collect())
}
