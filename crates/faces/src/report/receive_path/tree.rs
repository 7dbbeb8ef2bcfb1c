//! The tree from interface to process: NIC -> queue -> IRQ -> CPU -> RPS CPUs -> listeners.

use std::collections::BTreeSet;

use super::cells::{Footnotes, cpus_text, grouped, irq_file};
use super::processes::{Waiting, all_known, names, ownerless, service, waiting};
use super::queues::{Run, runs};
use super::{kind, place};
use crate::report::text::{Node, STRONG};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::model::{Fact, Model, Nic, NicKind, Process, RxQueue};

/// The tree of `only`, or of all interfaces: devices with the interfaces on top of them, the rest from the top down.
/// Each interface is drawn in full once. Listening processes come last.
pub fn tree(model: &Model, only: Option<&Nic>) -> String {
    let mut notes = Footnotes::default();
    let (waiting, complete) = (waiting(model), all_known(model));
    let mut draw = Draw { model, waiting: &waiting, complete, drawn: BTreeSet::new(), notes: &mut notes };
    let mut out = String::new();
    match only {
        Some(nic) => out += &draw.nic(nic, None).render(),
        None => {
            let order = [NicKind::Device, NicKind::Virtual, NicKind::Loopback];
            let roots = order
                .into_iter()
                .flat_map(|kind| model.nics.iter().filter(move |nic| nic.kind == kind && is_root(nic)));
            // Interfaces that an inconsistent stack does not reach are drawn as well.
            for nic in roots.chain(&model.nics) {
                if !draw.drawn.contains(&nic.name) {
                    out += &draw.nic(nic, None).render();
                }
            }
        }
    }
    if model.nics.is_empty() {
        out += "no network interfaces\n";
    }
    out += &listening(model, delivered_by_all(model).as_ref(), &mut notes).render();
    out + &notes.render()
}

fn is_root(nic: &Nic) -> bool {
    nic.kind != NicKind::Virtual || (nic.stack.physical.is_empty() && nic.stack.upper.is_empty())
}

struct Draw<'a, 'n> {
    model: &'a Model,
    waiting: &'n [Waiting<'a>],
    /// True if all listeners are known, and the CPUs they last ran on.
    complete: bool,
    /// Interfaces that have been drawn in full.
    drawn: BTreeSet<&'a NicName>,
    notes: &'n mut Footnotes,
}

impl<'a> Draw<'a, '_> {
    /// An interface, reached from `from`: its queues, interfaces on top of it, and its members without a device below
    /// them.
    fn nic(&mut self, nic: &'a Nic, from: Option<&Nic>) -> Node {
        if self.drawn.contains(&nic.name) {
            return Node::new(format!("({}), see above", kind(nic))).headed(STRONG, nic.name.as_str());
        }
        self.drawn.insert(&nic.name);
        let runs = runs(nic);
        let inline = nic.kind != NicKind::Device && runs.len() == 1;
        let mut text = about(nic);
        if inline {
            text += &format!(": {}", self.steering(nic, &runs[0]));
        }
        if let Some(peer) = &nic.stack.peer {
            text += &format!(" -> {}", place::peer(self.model, peer, self.notes));
        }
        let mut node = Node::new(text).headed(STRONG, nic.name.as_str());
        if !inline {
            for run in &runs {
                let mark = if run.first().contradicted(nic) { " !" } else { "" };
                node.push(Node::new(format!("{}{mark} -> {}", run.name(), self.chain(nic, run))));
            }
        }
        let upper: Vec<&Nic> = nic.stack.upper.iter().filter_map(|name| self.model.nic(name)).collect();
        let members: Vec<&Nic> = nic.stack.lower.iter().filter_map(|name| self.model.nic(name)).collect();
        let not_back = |next: &&&Nic| from.is_none_or(|from| from.name != next.name);
        // A member reached from above does not lead up again.
        let below = from.is_some_and(|from| nic.stack.upper.contains(&from.name));
        for next in upper.iter().filter(not_back).filter(|_| !below) {
            node.push(self.nic(next, Some(nic)));
        }
        let plain = |next: &&&Nic| next.kind == NicKind::Virtual && next.stack.physical.is_empty();
        for next in members.iter().filter(not_back).filter(plain) {
            node.push(self.nic(next, Some(nic)));
        }
        node
    }

    /// IRQ -> CPU -> RPS -> processes.
    fn chain(&mut self, nic: &Nic, run: &Run<'_>) -> String {
        let queue = run.first();
        let Some(rx) = queue.rx else { return "sends only".to_owned() };
        let mut parts: Vec<String> = Vec::new();
        if run.is_folded() && !rx.irqs.is_empty() {
            parts.push(format!("IRQ {} -> {}", run.irqs(), cpus_text(&run.places())));
        } else {
            for irq in &rx.irqs {
                let file = irq_file(irq, "effective_affinity_list");
                let cpu = self.notes.word(&irq.effective, &file, CpuMask::to_string);
                parts.push(format!("IRQ {} -> CPU {cpu}", irq.number));
            }
        }
        if rx.irqs.is_empty() && rx.channel_cpu.is_some() {
            parts.push(format!("VMBus -> {}", cpus_text(&run.places())));
        }
        if nic.hides_interrupt(rx) {
            let why = self.model.unknown_interrupts(nic);
            let word = why.map(|why| self.notes.word(why, "interrupts", |()| String::new()));
            parts.push(format!("IRQ {}", word.as_deref().unwrap_or("unknown")));
        }
        let mut text = if parts.is_empty() { String::new() } else { format!("{} -> ", parts.join(", ")) };
        text += &self.steering(nic, run);
        text + &self.processes(&delivered_to(run))
    }

    fn steering(&mut self, nic: &Nic, run: &Run<'_>) -> String {
        let Some(rx) = run.first().rx else { return "sends only".to_owned() };
        let at = |what: &str| format!("{}/rx-{} {what}", nic.name, rx.index);
        let or_off = |cpus: &CpuMask| if cpus.is_empty() { "off".to_owned() } else { cpus.to_string() };
        let mut text = format!("RPS {}", self.notes.word(&rx.rps_cpus, &at("rps_cpus"), or_off));
        match &rx.rps_flow_cnt {
            Fact::Known(0) | Fact::Unsupported => {}
            fact => text += &format!(", RFS {}", self.notes.word(fact, &at("rps_flow_cnt"), u32::to_string)),
        }
        text
    }

    /// Processes that last ran on the CPUs where packets are processed. If there are none, the packets may still be
    /// for a process elsewhere.
    fn processes(&self, there: &CpuMask) -> String {
        if there.is_empty() || self.model.listeners.known().is_none() {
            return String::new();
        }
        let here =
            self.waiting.iter().map(|waiting| waiting.process).filter(|process| {
                process.ran_on.known().is_some_and(|ran| !ran.intersection(there).is_empty())
            });
        let found = names(here.map(|process| (process.command.as_str(), process.pid)));
        match found.as_str() {
            "" if self.complete => " -> no listener last ran there".to_owned(),
            "" => " -> no known listener last ran there".to_owned(),
            found => format!(" -> {found}"),
        }
    }
}

/// Description of an interface, after its name.
fn about(nic: &Nic) -> String {
    let mut text = match nic.kind {
        NicKind::Device => {
            let driver = nic.driver.as_deref().unwrap_or("driver unknown");
            let node = nic.node.map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
            format!("{driver}, {node}")
        }
        _ => format!("({})", kind(nic)),
    };
    if !nic.up {
        text += ", down";
    }
    text
}

/// CPUs that process packets of a queue: those of RPS, else of the interrupt; empty if unknown. RFS may choose any
/// other.
fn delivered_to(run: &Run<'_>) -> CpuMask {
    let Some(rx) = run.first().rx else { return CpuMask::new() };
    match &rx.rps_cpus {
        Fact::Known(cpus) if !cpus.is_empty() => cpus.clone(),
        Fact::Known(_) | Fact::Unsupported if run.is_folded() => run.places(),
        Fact::Known(_) | Fact::Unsupported => {
            let places = rx.irqs.iter().filter_map(|irq| irq.effective.known());
            places.fold(CpuMask::new(), |all, one| all.union(one))
        }
        Fact::NotAsked | Fact::Denied(_) | Fact::Broken(_) => CpuMask::new(),
    }
}

/// CPUs that process packets of devices; `None` if RFS may choose any CPU, if those of a queue are unknown, or if there
/// is no device.
fn delivered_by_all(model: &Model) -> Option<CpuMask> {
    let mut all = CpuMask::new();
    let flows = |rx: &RxQueue| !matches!(rx.rps_flow_cnt, Fact::Known(0) | Fact::Unsupported);
    for nic in &model.nics {
        for run in runs(nic).iter().filter(|run| run.first().rx.is_some()) {
            let cpus = delivered_to(run);
            let unknown = cpus.is_empty() && nic.kind == NicKind::Device;
            if unknown || run.first().rx.is_some_and(flows) {
                return None;
            }
            all = all.union(&cpus);
        }
    }
    let devices = model.nics.iter().any(|nic| nic.kind == NicKind::Device);
    Some(all).filter(|all| devices && !all.is_empty())
}

/// All listening processes, grouped by name and service; `delivered` are the CPUs that process packets, if known.
fn listening(model: &Model, delivered: Option<&CpuMask>, notes: &mut Footnotes) -> Node {
    let text = match &model.listeners {
        Fact::Known(listeners) if listeners.is_empty() => "none",
        Fact::Known(_) => "",
        fact => &notes.word(fact, "listening sockets", |_| String::new()),
    };
    let mut node = Node::new(text).headed(STRONG, "listening:");
    let waiting = waiting(model);
    // Workers of one service.
    let alike = |one: &Waiting<'_>| (one.process.command.clone(), service(one.process), one.sockets.clone());
    for (_, group) in grouped(waiting.iter().map(|one| (alike(one), one))) {
        node.push(Node::new(line(&group, delivered, notes)));
    }
    for (socket, owners) in ownerless(model) {
        let why = notes.word(owners, &format!("owners of {socket}"), |_| "no process found".to_owned());
        node.push(Node::new(format!("{socket}: owner {why}")));
    }
    node
}

fn line(group: &[&Waiting<'_>], delivered: Option<&CpuMask>, notes: &mut Footnotes) -> String {
    let first = group[0];
    let name = names(group.iter().map(|one| (one.process.command.as_str(), one.process.pid)));
    let service = service(first.process).map_or_else(String::new, |service| format!(" ({service})"));
    let ran = joined(group, "CPUs", |process| &process.ran_on, notes);
    let allowed = joined(group, "allowed CPUs", |process| &process.allowed, notes);
    let known = group.iter().filter_map(|one| one.process.ran_on.known());
    let ran_on = known.fold(CpuMask::new(), |all, one| all.union(one));
    let cpus = if ran_on.len() > 1 { "CPUs" } else { "CPU" };
    let apart = !ran_on.is_empty() && delivered.is_some_and(|there| ran_on.intersection(there).is_empty());
    let apart = if apart { ", where no device's packets arrive" } else { "" };
    format!(
        "{name}{service}: {}; last ran on {cpus} {ran}{apart}; may run on {allowed}",
        first.sockets.join(", ")
    )
}

/// CPUs of all processes of a group, or the word for the first unknown fact.
fn joined(
    group: &[&Waiting<'_>],
    what: &str,
    fact: impl Fn(&Process) -> &Fact<CpuMask>,
    notes: &mut Footnotes,
) -> String {
    let mut all = CpuMask::new();
    for one in group {
        match fact(one.process) {
            Fact::Known(cpus) => all = all.union(cpus),
            absent => {
                let place = format!("{what} of process {}", one.process.pid);
                return notes.word(absent, &place, CpuMask::to_string);
            }
        }
    }
    all.to_string()
}

#[cfg(test)]
mod tests {
    use super::{delivered_by_all, tree};
    use crate::report::sample_model::{cpus, device, large, machine, name, rich, virtual_nic};
    use crate::report::text;
    use rxlab_base::units::Need;
    use rxlab_path::model::{Fact, Model};

    fn plain(model: &Model, only: Option<&str>) -> String {
        let only = only.map(|only| model.nic(&name(only)).expect("there"));
        text::plain(&tree(model, only))
    }

    #[test]
    fn something_of_everything() {
        insta::assert_snapshot!(plain(&rich(), None));
    }

    #[test]
    fn one_interface() {
        let text = plain(&rich(), Some("docker0"));
        assert!(
            text.starts_with("docker0 (bridge): RPS off\n|- veth0 (veth): RPS 0-3 -> container docker"),
            "{text}"
        );
        assert!(!text.contains("eth0 mlx5_core"), "{text}");
    }

    #[test]
    fn many_queues_and_interfaces() {
        let text = plain(&large(), None);
        assert!(
            text.contains("\n|- rx-0..39 -> IRQ 200..239 -> CPUs 0-39 -> RPS off -> no listener last ran\n"),
            "{text}"
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("veth")).count(), 300);
    }

    #[test]
    fn a_cycle_ends_and_omits_nothing() {
        let mut model = machine(2, 1);
        let (mut a, mut b) = (virtual_nic("a", "bridge"), virtual_nic("b", "bridge"));
        (a.stack.upper, a.stack.lower) = (vec![name("b")], vec![name("b")]);
        (b.stack.upper, b.stack.lower) = (vec![name("a")], vec![name("a")]);
        model.nics = vec![a, b];
        let text = plain(&model, None);
        assert!(text.contains("a (bridge): RPS off") && text.contains("b (bridge): RPS off"), "{text}");
    }

    #[test]
    fn a_machine_without_interfaces() {
        insta::assert_snapshot!(plain(&machine(1, 1), None));
    }

    #[test]
    fn rps_takes_packets_from_the_interrupts_cpu() {
        let mut model = machine(8, 1);
        model.nics = vec![device("eth0", "ice", 2, 24, 0), virtual_nic("veth0", "veth")];
        assert_eq!(delivered_by_all(&model), Some(cpus("0-1")));
        model.nics[0].rx[1].rps_cpus = Fact::Known(cpus("4-5"));
        model.nics[1].rx[0].rps_cpus = Fact::Known(cpus("7"));
        assert_eq!(delivered_by_all(&model), Some(cpus("0,4-5,7")));
    }

    /// Regression: listeners of a container were reported to run "where no device's packets arrive".
    #[test]
    fn none_without_a_device() {
        let mut model = machine(8, 1);
        model.nics = vec![virtual_nic("veth0", "veth")];
        assert_eq!(delivered_by_all(&model), None);
        model.nics[0].rx[0].rps_cpus = Fact::Known(cpus("7"));
        assert_eq!(delivered_by_all(&model), None);
    }

    #[test]
    fn unknown_facts_are_not_guessed() {
        let with = |change: fn(&mut rxlab_path::model::RxQueue)| {
            let mut model = machine(8, 1);
            model.nics = vec![device("eth0", "ice", 2, 24, 0)];
            change(&mut model.nics[0].rx[1]);
            delivered_by_all(&model)
        };
        assert_eq!(with(|rx| rx.rps_cpus = Fact::Denied(Need::Root)), None);
        assert_eq!(with(|rx| rx.rps_flow_cnt = Fact::Known(64)), None);
        assert_eq!(with(|rx| rx.irqs.clear()), None);
    }
}
