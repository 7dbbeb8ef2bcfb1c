//! One CPU does far more than its part of the receive work, and is short of time for it.

use super::evidence::{
    TRAFFIC, busy, carrier, headroom, irq_cpus, loopback_share, queue_packets, receive_time, tier,
};
use super::figures::{count, percent, plural, times};
use super::places::loaded;
use super::{Finding, Rule, Severity};
use crate::model::{CpuRates, Model, Nic, NicKind, Rates, RxQueue};
use crate::units::CpuId;

/// Receive time from which a CPU counts as busy with it: a quarter of a CPU that no scheduler can
/// move. Field case B, where steering could not matter, had 0 to 3 %.
const BUSY: f64 = 0.25;

/// Receive time of a CPU that drowns: four fifths leave no room for a burst.
const DROWNING: f64 = 0.8;

/// How many times as much as the average of the others the CPU must do. On 2 CPUs that is a share
/// of 75 %, on 8 of 30 %. Field case A after the fix had 1.7.
const ODDS: f64 = 3.0;

/// The same of a CPU that drowns: half of its work on the others is room enough. Seen behind RPS on 8
/// CPUs: the one that polls the queue at 95 %, the others below a third.
const ODDS_OF_DROWNING: f64 = 2.0;

/// A CPU below [`DROWNING`] must also do most of the machine's receive work: 16 balanced queues on
/// 128 CPUs are no hotspot.
const MOST: f64 = 0.5;

/// Without [`BUSY`] softirq time (short runs inside a sender's system call slip between the ticks),
/// a full CPU that takes this many packets a second counts as well ...
const PACKETS: f64 = 20_000.0;

/// ... and this fraction of wall time is full.
const FULL: f64 = 0.9;

pub(super) const RULE: Rule = Rule {
    id: "one-core-hotspot",
    asks: "Does one CPU do far more than its part of the receive work, and is it short of time for it?",
    fires: || {
        format!(
            "one CPU does at least {ODDS:.0} times as much receive work as the average of the others and \
             spends {} of its time on it, and does {} of all; or {ODDS_OF_DROWNING:.0} times as much, when it \
             spends {}; or a CPU that is {} busy takes {} packets/s and as lopsided a share of both packets \
             and NET_RX runs",
            percent(BUSY),
            percent(MOST),
            percent(DROWNING),
            percent(FULL),
            count(PACKETS)
        )
    },
    silent: "the load is balanced, the busy CPU is not busy with packets, most packets are on `lo`, or the \
             machine has two CPUs and RPS already moved the work to the other one",
    evidence: "the hot CPU's share of receive time, packets and NET_RX runs beside the others', its ksoftirqd, its queue, interrupt and RPS mask, the headroom",
    cause: "Packets are processed where their interrupt lands, or where RPS hands them: one queue without RPS, or a mask of one CPU, puts all of it on one CPU.",
    remedy: "Spread the receive work: RPS, RFS, more queues.",
    source: "Documentation/networking/scaling.rst (RSS, RPS); field case A",
    check,
};

/// A CPU and its share of the receive work, by the measure that is to be trusted.
struct Hot<'a> {
    cpu: &'a CpuRates,
    share: f64,
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    if rates.cpus.len() < 2 || loopback_share(model, rates).is_some() {
        return Vec::new();
    }
    let hot = by_time(model, rates).or_else(|| by_packets(rates));
    let Some(hot) = hot else { return Vec::new() };
    let carrier = carrier(model, rates, hot.cpu.cpu);
    if carrier.is_some_and(|(_, queue)| moved_to_the_other_of_two(model, queue, hot.cpu.cpu)) {
        return Vec::new();
    }
    vec![finding(model, rates, &hot, carrier)]
}

fn by_time<'a>(model: &Model, rates: &'a Rates) -> Option<Hot<'a>> {
    let (hottest, share) = rates.hottest(receive_time)?;
    let cpu = rates.cpu(hottest)?;
    let time = receive_time(cpu);
    // Softirq time also holds timers and block work. It is receive work when the CPU has its part
    // of the packets or of the runs, or takes the interrupt of a queue with traffic: behind RPS a
    // drowned CPU counts no packets, and few but long runs.
    let part = 1.0 / rates.cpus.len() as f64;
    let takes_interrupts = || {
        let queues = model.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
        queues
            .filter(|(nic, queue)| queue_packets(nic, queue, rates) >= TRAFFIC)
            .any(|(_, queue)| irq_cpus(queue, model, rates).contains(hottest))
    };
    let receives = cpu.packets.max(cpu.net_rx) >= TRAFFIC / 2.0
        && (share_of(rates, cpu, |c| c.packets) >= part
            || share_of(rates, cpu, |c| c.net_rx) >= part
            || takes_interrupts());
    let lopsided = if time >= DROWNING {
        lopsided(rates, share, ODDS_OF_DROWNING)
    } else {
        share >= MOST && lopsided(rates, share, ODDS)
    };
    (time >= BUSY && receives && lopsided).then_some(Hot { cpu, share })
}

fn by_packets(rates: &Rates) -> Option<Hot<'_>> {
    let (hottest, share) = rates.hottest(|cpu| cpu.packets)?;
    let cpu = rates.cpu(hottest)?;
    // With RPS at work packets are counted where they end, runs on both sides: only both together
    // show that nothing spreads them.
    let runs = share_of(rates, cpu, |cpu| cpu.net_rx);
    let lopsided = [share, runs].iter().all(|share| *share >= MOST && lopsided(rates, *share, ODDS));
    (cpu.packets >= PACKETS && busy(cpu) >= FULL && lopsided).then_some(Hot { cpu, share })
}

fn share_of(rates: &Rates, cpu: &CpuRates, value: impl Fn(&CpuRates) -> f64) -> f64 {
    let total: f64 = rates.cpus.iter().map(&value).sum();
    if total > 0.0 { value(cpu) / total } else { 0.0 }
}

/// Whether a share is at least `odds` times the average of what the other CPUs do.
fn lopsided(rates: &Rates, share: f64, odds: f64) -> bool {
    let others = (rates.cpus.len() - 1) as f64;
    share * others >= odds * (1.0 - share)
}

/// With two CPUs, RPS to the one without the interrupt is all that can be done.
fn moved_to_the_other_of_two(model: &Model, queue: &RxQueue, cpu: CpuId) -> bool {
    let usable = model.online().difference(&model.isolated());
    usable.len() <= 2 && queue.rps_cpus.known().is_some_and(|mask| mask.len() == 1 && mask.contains(cpu))
}

fn finding(model: &Model, rates: &Rates, hot: &Hot<'_>, carrier: Option<(&Nic, &RxQueue)>) -> Finding {
    let cpu = hot.cpu.cpu;
    let others = rates.cpus.len() - 1;
    let (why, remedy, plans) = cause(model, rates, cpu, carrier);
    let time = receive_time(hot.cpu);
    Finding {
        id: RULE.id.to_owned(),
        severity: if time.max(busy(hot.cpu)) >= FULL { Severity::Critical } else { Severity::Warning },
        nic: carrier.map(|(nic, _)| nic.name.clone()),
        cpu: Some(cpu),
        title: format!(
            "CPU {cpu} does {} of the receive work, {} {} {}",
            percent(hot.share),
            plural(others, "CPU"),
            if others == 1 { "does" } else { "do" },
            percent(1.0 - hot.share)
        ),
        evidence: evidence(model, rates, hot, carrier),
        why,
        remedy,
        plans: plans.iter().map(|plan| (*plan).to_owned()).collect(),
    }
}

fn evidence(model: &Model, rates: &Rates, hot: &Hot<'_>, carrier: Option<(&Nic, &RxQueue)>) -> Vec<String> {
    let cpu = hot.cpu.cpu;
    let others = (rates.cpus.len() - 1) as f64;
    let elsewhere = rates.cpus.iter().map(receive_time).sum::<f64>() - receive_time(hot.cpu);
    let thread = match hot.cpu.ksoftirqd {
        time if time >= 0.005 => format!(" (ksoftirqd/{cpu} {})", percent(time)),
        _ => String::new(),
    };
    let mut lines = vec![
        format!(
            "CPU {cpu}: {} of its time in softirq{thread}, the others {} on average; {}",
            percent(hot.cpu.softirq),
            percent(elsewhere / others),
            tier(rates)
        ),
        format!(
            "CPU {cpu}: {} packets/s, {} of all; {} NET_RX runs/s, {} of all",
            count(hot.cpu.packets),
            percent(share_of(rates, hot.cpu, |c| c.packets)),
            count(hot.cpu.net_rx),
            percent(share_of(rates, hot.cpu, |c| c.net_rx))
        ),
    ];
    if let Some((nic, queue)) = carrier {
        let irqs: Vec<String> = queue.irqs.iter().map(|irq| irq.number.to_string()).collect();
        let lands = irq_cpus(queue, model, rates);
        let place = match (irqs.is_empty(), lands.is_empty()) {
            (true, _) if nic.kind == NicKind::Device => "interrupt not known".to_owned(),
            (true, _) => "no interrupt".to_owned(),
            (false, true) => format!("IRQ {}", irqs.join(",")),
            (false, false) => format!("IRQ {} -> CPU {lands}", irqs.join(",")),
        };
        let packets = count(queue_packets(nic, queue, rates));
        lines.push(format!("{}/rx-{}: {packets} packets/s, {place}", nic.name, queue.index));
    }
    let room = headroom(rates);
    lines.push(format!(
        "headroom: {} for the receive work of the hottest CPU, {} for the machine",
        times(room.hottest),
        times(room.machine)
    ));
    lines
}

/// How many queues with traffic have their interrupt on this CPU.
fn queues_here(model: &Model, rates: &Rates, cpu: CpuId) -> usize {
    loaded(model, rates).iter().filter(|queue| queue.cpu == cpu).count()
}

type Cause = (String, String, &'static [&'static str]);

fn cause(model: &Model, rates: &Rates, cpu: CpuId, carrier: Option<(&Nic, &RxQueue)>) -> Cause {
    const SPREAD: &[&str] = &["rps", "rfs"];
    let Some((nic, queue)) = carrier else {
        let why = "the packets come in over no interface of this network namespace, so their path is unknown";
        return (why.into(), "look from the namespace that has the interface (--netns NAME)".into(), &[]);
    };
    let (name, index) = (&nic.name, queue.index);
    let mask = queue.rps_cpus.known().filter(|mask| !mask.is_empty());
    let remedy = "let other CPUs take packets off the queue (RPS), near the reader (RFS)".to_owned();
    let why = match mask {
        None if nic.kind != NicKind::Device => format!(
            "{name} has no interrupt and no RPS: its packets are received in softirq on the CPU that sends them"
        ),
        None if nic.rx.len() == 1 => {
            "one queue, no RPS: every packet is processed where its interrupt lands".to_owned()
        }
        None if queues_here(model, rates, cpu) > 1 => {
            let queues = queues_here(model, rates, cpu);
            let why =
                format!("the interrupts of {queues} queues land here, and no RPS hands their packets on");
            return (
                why,
                "give the queues' interrupts CPUs of their own, or let others help (RPS)".into(),
                SPREAD,
            );
        }
        None => format!("no RPS: every packet of {name}/rx-{index} is processed where its interrupt lands"),
        Some(mask) if irq_cpus(queue, model, rates).contains(cpu) && !mask.contains(cpu) => {
            let why = format!(
                "RPS hands the packets of {name}/rx-{index} to CPUs {mask}; what is left here is the interrupt \
                 and the polling of the queue, which RPS cannot move"
            );
            return (why, "more queues, or fewer interrupts by coalescing, if the driver can".into(), &[]);
        }
        Some(mask) if mask.contains(cpu) && mask.len() > 1 => {
            let why = format!(
                "RPS hands the packets of {name}/rx-{index} to CPUs {mask}, but a flow stays on one CPU: few \
                 flows carry most packets, or the interrupt lands here as well"
            );
            return (
                why,
                "take the interrupt's CPU out of the mask; one large flow cannot be split".into(),
                SPREAD,
            );
        }
        Some(mask) => format!("RPS hands the packets of {name}/rx-{index} to CPUs {mask} only"),
    };
    (why, remedy, SPREAD)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::sketch::Sketch;
    use crate::diagnose::{Finding, Severity};

    fn of(sketch: Sketch) -> Vec<Finding> {
        let (model, rates) = sketch.build();
        check(&model, &rates)
    }

    fn one(sketch: Sketch) -> Finding {
        let mut found = of(sketch);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn field_case_a_names_cpu_queue_and_interrupt() {
        let finding = one(Sketch::case_a());
        assert_eq!(finding.title, "CPU 2 does 96 % of the receive work, 7 CPUs do 4 %");
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.nic.expect("a NIC").as_str(), "eth0");
        assert!(
            finding.evidence.iter().any(|line| line.contains("IRQ 41 -> CPU 2")),
            "{:?}",
            finding.evidence
        );
        assert!(finding.why.starts_with("one queue, no RPS"));
    }

    /// Published state after the fix: CPU 2 at 48.51 %, the others 24 to 33 %.
    #[test]
    fn field_case_a_after_the_fix_is_silent() {
        let mut sketch = Sketch::case_a().rps("eth0", "0-7").receives(2, 0.4851, 6_000.0);
        for (cpu, softirq) in [(0, 0.24), (1, 0.33), (3, 0.28), (4, 0.27), (5, 0.25), (6, 0.31), (7, 0.3)] {
            sketch = sketch.receives(cpu, softirq, 6_000.0);
        }
        assert_eq!(of(sketch), []);
    }

    /// The doctor once had nothing to say about a CPU at 95 % while seven others were at 35 %.
    #[test]
    fn a_cpu_that_drowns_beside_half_idle_ones_is_one() {
        let with = |others: f64| {
            let sketch = Sketch::case_a().rps("eth0", "0-1,3-7").receives(2, 0.95, 0.0).net_rx(2, 500.0);
            [0, 1, 3, 4, 5, 6, 7].iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu, others, 4_000.0))
        };
        assert_eq!(one(with(0.35)).cpu.map(|cpu| cpu.0), Some(2));
        assert_eq!(of(with(0.6)), [], "all of them are short of time");
    }

    #[test]
    fn two_cpus_and_a_veth() {
        let veth = || Sketch::new(2).veth("veth0").traffic("veth0", 2.7e5);
        let finding = one(veth().receives(0, 0.45, 2.7e5));
        assert_eq!(finding.title, "CPU 0 does 99 % of the receive work, 1 CPU does 1 %");
        assert!(finding.why.contains("on the CPU that sends them"));
        assert_eq!(
            of(veth().receives(0, 0.45, 1.8e5).receives(1, 0.2, 0.9e5)),
            [],
            "two thirds on one of two"
        );
    }

    /// Short receive runs inside system calls can be all but invisible to tick samples: seen with
    /// 70,000 packets/s on a 2-CPU machine, 3 % in softirq.
    #[test]
    fn a_full_cpu_is_found_by_its_packets() {
        let veth =
            |user| Sketch::new(2).veth("veth0").traffic("veth0", 7e4).receives(0, 0.03, 7e4).works(0, user);
        assert_eq!(one(veth(0.95)).severity, Severity::Critical);
        assert_eq!(of(veth(0.5)), [], "the CPU has room");
        let steered = veth(0.95).rps("veth0", "1").receives(1, 0.2, 7e4).works(1, 0.8);
        assert_eq!(of(steered.receives(0, 0.01, 0.0).net_rx(0, 7e4)), [], "RPS works: runs on both sides");
    }

    #[test]
    fn the_other_one_of_two_cpus_is_as_far_as_work_can_move() {
        let steered = |mask| {
            let sketch = Sketch::new(2).veth("veth0").traffic("veth0", 6e5).rps("veth0", mask);
            sketch.receives(0, 0.1, 0.0).receives(1, 0.7, 6e5)
        };
        assert_eq!(of(steered("1")), []);
        assert_eq!(of(steered("0-1")).len(), 1);
    }

    #[test]
    fn busy_with_something_else_is_no_receive_hotspot() {
        assert_eq!(of(Sketch::new(8).receives(2, 0.9, 100.0)), [], "timers or block work");
        let balanced = (0..8).fold(Sketch::new(8), |sketch, cpu| sketch.receives(cpu, 0.7, 5e4));
        assert_eq!(of(balanced), [], "much, but balanced");
    }

    #[test]
    fn balanced_queues_of_a_wide_machine_are_no_hotspot() {
        let irqs: Vec<u32> = (0..16).collect();
        let mut sketch = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3.2e6);
        for cpu in irqs {
            sketch = sketch.receives(cpu, 0.26, 2e5);
        }
        assert_eq!(of(sketch), []);
    }

    #[test]
    fn loopback_is_refused() {
        let sketch = Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5);
        assert_eq!(of(sketch), []);
    }

    #[test]
    fn what_rps_cannot_move_gets_no_plan() {
        let mut sketch = Sketch::case_a().rps("eth0", "0-1,3-7").receives(2, 0.9, 0.0).net_rx(2, 2_000.0);
        for cpu in [0, 1, 3, 4, 5, 6, 7] {
            sketch = sketch.receives(cpu, 0.1, 6_000.0);
        }
        let finding = one(sketch);
        assert!(finding.why.contains("RPS cannot move"), "{}", finding.why);
        assert!(finding.plans.is_empty());
    }

    #[test]
    fn several_queues_on_one_cpu_are_a_cause() {
        let sketch = Sketch::new(8).device("eth0", &[2, 2, 2, 2]).traffic("eth0", 9e4).receives(2, 0.9, 9e4);
        assert!(one(sketch).why.starts_with("the interrupts of 4 queues land here"));
    }

    #[test]
    fn an_unseen_namespace_is_said() {
        let finding = one(Sketch::new(2).veth("veth0").receives(0, 0.5, 3e5));
        assert_eq!(finding.nic, None);
        assert!(finding.remedy.contains("--netns"));
    }
}
