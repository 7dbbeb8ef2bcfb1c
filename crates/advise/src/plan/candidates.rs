//! Candidates of a search: for one kind of setting of an interface, the few values that its place in the machine
//! suggests. All masks of n CPUs would be 2^n.

use serde::{Deserialize, Serialize};

use super::step::channels;
use super::topology::{CpuTopology, Domain};
use rxlab_base::units::{CpuId, CpuMask, Fact, QueueId};
use rxlab_path::constraints::{QueueLimit, changeable_queues, queue_limit};
use rxlab_path::model::{Model, Nic, RxQueue};
use rxlab_setting::{Setting, Target, set_text};

/// Most candidates of a search.
pub const MAX_CANDIDATES: usize = 12;

/// Delays of an interrupt in microseconds, from none to where latency suffers.
const DELAYS: [u32; 6] = [0, 10, 20, 50, 100, 200];

/// The kind of setting whose values are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Searched {
    /// RPS masks of all receive queues.
    Rps,
    /// Interrupt moderation: adaptive, and fixed delays.
    Moderation,
    Queues,
}

/// A value to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// One word that no other candidate has.
    pub name: String,
    pub settings: Vec<Setting>,
}

/// Candidates for `nic`, without what is set now; an error says what the interface lacks.
pub fn candidates(model: &Model, nic: &Nic, searched: Searched) -> Result<Vec<Candidate>, String> {
    let mut found: Vec<Candidate> = Vec::new();
    let all = match searched {
        Searched::Rps => masks(model, nic),
        Searched::Moderation => delays(nic),
        Searched::Queues => queues(model, nic),
    }?;
    for candidate in all {
        let is_new = found.iter().all(|other| other.settings != candidate.settings);
        if is_new && !candidate.settings.is_empty() {
            found.push(candidate);
        }
    }
    if found.len() < 2 {
        return Err(format!("{} has fewer than two other values to try", nic.name));
    }
    found.truncate(MAX_CANDIDATES);
    Ok(found)
}

/// RPS off; CPUs of the interrupt's cache, of its node, some of those, whole cores, another node, all.
fn masks(model: &Model, nic: &Nic) -> Result<Vec<Candidate>, String> {
    let topology = CpuTopology::new(model);
    let homes: CpuMask = nic.rx.iter().filter_map(|queue| home(model, queue)).collect();
    if nic.rx.iter().all(|queue| queue.rps_cpus.known().is_none()) {
        return Err(format!("{} has no RPS masks", nic.name));
    }
    let mut all = vec![of_queues(nic, "off", |_| CpuMask::new())];
    let mut add = |name: String, mask: &dyn Fn(&Around<'_>) -> Vec<CpuId>| {
        let around = |queue: &RxQueue| Around::new(model, &topology, nic, home(model, queue), &homes);
        let chosen = |queue: &RxQueue| around(queue).map_or_else(Vec::new, |around| mask(&around));
        // A mask that some queue cannot have is no candidate.
        if nic.rx.iter().all(|queue| !chosen(queue).is_empty()) {
            all.push(of_queues(nic, &name, |queue| chosen(queue).into_iter().collect()));
        }
    };
    add("cache".to_owned(), &|around| around.cache());
    add("node".to_owned(), &|around| around.near.clone());
    let widest = topology.domains.iter().map(|domain| domain.usable.len()).max().unwrap_or(0);
    for count in [1, 2, 4, 8, 16].into_iter().filter(|count| *count < widest) {
        add(format!("node-{count}"), &|around| {
            if around.near.len() > count { around.near[..count].to_vec() } else { Vec::new() }
        });
    }
    add("cores".to_owned(), &|around| around.cores());
    if topology.domains.len() > 1 {
        add("other-node".to_owned(), &|around| around.other());
        add("all-but-irq".to_owned(), &|around| {
            topology.in_order().filter(|cpu| !around.homes.contains(*cpu)).collect()
        });
    }
    add("all".to_owned(), &|_| topology.in_order().collect());
    Ok(all)
}

/// The CPU of a queue's interrupt; `None` for virtual interfaces, and while it has several.
fn home(model: &Model, queue: &RxQueue) -> Option<CpuId> {
    let irq = queue.irqs.first();
    let one = |mask: &CpuMask| mask.first().filter(|cpu| mask.len() == 1 && model.online().contains(*cpu));
    let effective = irq.and_then(|irq| irq.effective.known()).and_then(one);
    effective.or_else(|| irq?.affinity.known().and_then(one)).or(queue.channel_cpu)
}

/// CPUs around one queue.
struct Around<'a> {
    model: &'a Model,
    topology: &'a CpuTopology,
    domain: &'a Domain,
    home: Option<CpuId>,
    /// CPUs of the interrupts to keep clear of.
    homes: CpuMask,
    /// CPUs of the domain without those: nearest cache first, then one thread of each core first.
    near: Vec<CpuId>,
}

impl<'a> Around<'a> {
    fn new(
        model: &'a Model,
        topology: &'a CpuTopology,
        nic: &Nic,
        home: Option<CpuId>,
        homes: &CpuMask,
    ) -> Option<Self> {
        let of_home = home.and_then(|cpu| topology.place(cpu)).map(|(at, _)| &topology.domains[at]);
        let of_node = || topology.domains.iter().find(|domain| nic.node.is_some() && domain.node == nic.node);
        let domain = of_home.or_else(of_node).or_else(|| topology.domains.first())?;
        let free = |homes: &CpuMask| domain.usable.iter().any(|cpu| !homes.contains(*cpu));
        // Where interrupts reach every CPU, only the queue's own is left out.
        let homes = if free(homes) { homes.clone() } else { home.into_iter().collect() };
        let mut near: Vec<CpuId> =
            domain.usable.iter().copied().filter(|cpu| !homes.contains(*cpu)).collect();
        let cache = home.and_then(|cpu| model.cpu(cpu)).map(|cpu| &cpu.l3);
        let is_far = |cpu: &CpuId| cache.is_some_and(|cache| !cache.contains(*cpu));
        near.sort_by_key(|cpu| (is_far(cpu), !domain.cores.contains(cpu)));
        Some(Self { model, topology, domain, home, homes, near })
    }

    /// CPUs that share the last-level cache with the interrupt's.
    fn cache(&self) -> Vec<CpuId> {
        let Some(home) = self.home.and_then(|cpu| self.model.cpu(cpu)) else { return Vec::new() };
        self.near.iter().copied().filter(|cpu| home.l3.contains(*cpu)).collect()
    }

    /// One thread of each core that takes no interrupt.
    fn cores(&self) -> Vec<CpuId> {
        let busy = self.topology.siblings(&self.homes);
        let is_free = |cpu: &CpuId| !busy.contains(*cpu) && !self.homes.contains(*cpu);
        self.domain.cores.iter().copied().filter(is_free).collect()
    }

    /// CPUs of the next node.
    fn other(&self) -> Vec<CpuId> {
        let mut others = self.topology.domains.iter().filter(|domain| domain.node != self.domain.node);
        let usable = others.find(|domain| !domain.usable.is_empty()).map_or(&[][..], |domain| &domain.usable);
        usable.iter().copied().filter(|cpu| !self.homes.contains(*cpu)).collect()
    }
}

/// A mask for each queue that has its own; without settings if all are there already.
fn of_queues(nic: &Nic, name: &str, mask: impl Fn(&RxQueue) -> CpuMask) -> Candidate {
    let queues = nic.steering_queues();
    let is_set = |queue: &RxQueue| queue.rps_cpus.known() == Some(&mask(queue));
    let setting = |queue: &RxQueue| {
        Setting::new("rps", Target::queue(&nic.name, QueueId::rx(queue.index)), set_text(&mask(queue)))
    };
    let settings = if queues.iter().all(is_set) { Vec::new() } else { queues.iter().map(setting).collect() };
    Candidate { name: name.to_owned(), settings }
}

fn delays(nic: &Nic) -> Result<Vec<Candidate>, String> {
    let Fact::Known(coalesce) = &nic.hardware.coalesce else {
        return Err(format!("{} does not report its interrupt moderation", nic.name));
    };
    let target = || Target::Nic(nic.name.clone());
    let adaptive = |on: bool| Setting::new("adaptive_rx", target(), if on { "on" } else { "off" });
    let mut all = Vec::new();
    if coalesce.adaptive_rx == Some(false) {
        all.push(Candidate { name: "adaptive".to_owned(), settings: vec![adaptive(true)] });
    }
    let is_fixed = coalesce.adaptive_rx != Some(true);
    for delay in
        DELAYS.into_iter().filter(|delay| coalesce.rx_usecs.is_some_and(|now| !is_fixed || now != *delay))
    {
        let mut settings = vec![Setting::new("rx_usecs", target(), delay.to_string())];
        if coalesce.adaptive_rx.is_some() {
            settings.insert(0, adaptive(false));
        }
        all.push(Candidate { name: format!("usecs-{delay}"), settings });
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
        Candidate { name: format!("queues-{number}"), settings: vec![setting] }
    };
    Ok(counts.map(candidate).collect())
}

#[cfg(test)]
mod tests {
    use super::{Searched, candidates};
    use rxlab_base::units::Fact;
    use rxlab_path::sketch::{Sketch, cpus};

    fn texts(sketch: Sketch) -> Vec<String> {
        let (model, _) = sketch.build();
        let found = candidates(&model, &model.nics[0], Searched::Rps).expect("candidates");
        let text = |candidate: &super::Candidate| {
            let values: Vec<&str> = candidate.settings.iter().map(|setting| setting.value.as_str()).collect();
            format!("{}: {}", candidate.name, values.join(" | "))
        };
        found.iter().map(text).collect()
    }

    /// 32 CPUs in two nodes, 16 cores each of which has two threads: the interrupt of the queue is on CPU 2.
    #[test]
    fn masks_follow_cache_node_and_cores() {
        let names = texts(Sketch::new(32).nodes(2).device("eth0", &[2]));
        assert_eq!(
            names,
            [
                "cache: 0-1,3-15",
                "node-1: 0",
                "node-2: 0-1",
                "node-4: 0-1,3-4",
                "node-8: 0-1,3-8",
                "other-node: 16-31",
                "all-but-irq: 0-1,3-31",
                "all: 0-31",
            ],
            "current values, and duplicates under another name, are left out"
        );
        let names = texts(Sketch::new(8).smt().device("eth0", &[2]));
        assert!(names.contains(&"cores: 0-1,3".to_owned()), "{names:?}");
    }

    /// Two queues: neither hands packets to the CPU of the other.
    #[test]
    fn queues_keep_clear_of_each_other() {
        let names = texts(Sketch::new(8).device("eth0", &[0, 1]));
        assert!(names.contains(&"cache: 2-7 | 2-7".to_owned()), "{names:?}");
        let names = texts(Sketch::new(2).device("eth0", &[0, 1]));
        assert!(names.contains(&"cache: 1 | 0".to_owned()), "no CPU is without an interrupt: {names:?}");
        let names = texts(Sketch::new(2).veth("veth0"));
        assert_eq!(names, ["node: 0-1", "node-1: 0"], "a veth has no interrupt");
    }

    #[test]
    fn off_is_a_candidate_of_a_machine_with_masks() {
        let (mut model, _) = Sketch::new(4).device("eth0", &[0]).build();
        model.nics[0].rx[0].rps_cpus = Fact::Known(cpus("1-3"));
        let found = candidates(&model, &model.nics[0], Searched::Rps).expect("candidates");
        assert_eq!(found[0].settings[0].to_string(), "rps eth0/rx-0 = off");
        assert!(found.iter().all(|one| one.settings[0].value != "1-3"), "{found:?}");
    }

    #[test]
    fn delays_and_queues_are_those_of_the_device() {
        let (model, _) = Sketch::new(6).device("eth0", &[0]).build();
        assert!(candidates(&model, &model.nics[0], Searched::Queues).is_err());
        let sketch = Sketch::new(6).device("eth0", &[0]).queues_at_most("eth0", 8);
        let (model, _) = sketch.moderation("eth0", 50, false).build();
        let of = |searched| {
            let found = candidates(&model, &model.nics[0], searched).expect("candidates");
            found.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(
            of(Searched::Moderation),
            ["adaptive", "usecs-0", "usecs-10", "usecs-20", "usecs-100", "usecs-200"]
        );
        assert_eq!(of(Searched::Queues), ["queues-2", "queues-4", "queues-6"]);
    }
}
