//! Packets lost by the device because its receive ring was full.

use super::deep_idle_states::{DeepIdle, deep_idle};
use super::figures::{Evidence, Subject, Unit};
use super::one_core_hotspot::queues_here;
use super::places::{can_part, handed_over, may_use_more_queues};
use super::workload::processing;
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text};
use rxlab_base::parse::ethtool::Count;
use rxlab_path::constraints::queue_limit;
use rxlab_path::drivers::{LossKind, loss_kind};
use rxlab_path::evidence::{DROWNING, FULL, LOST, TRAFFIC, busy, irq_cpus, nic_irq_cpus, receive_time};
use rxlab_path::model::{CpuRates, Model, Nic, NicRates, Rates};

/// Part of the packets from which connections notice the loss: TCP's rate falls with its square root.
const NOTICEABLE_LOSS: f64 = 1e-4;

/// Pause frames per second from which the sender often waits.
const PAUSES: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    id: "ring-overruns",
    asks: "Does the device lose packets, or make their sender wait, because its receive ring is full?",
    fires: || {
        format!(
            "a device with {} packets/s lost at least {} packet/s for lack of a buffer (rx_missed_errors; \
             rx_fifo_errors on igb; the driver's own, such as rx_no_dma_resources on ixgbe) during the sample; critical \
             at {:.2} % of its packets or more; or it lost none, sends {} pause frames/s (tx_flow_control_xoff on ixgbe), its ring is \
             below its maximum, and its CPU has time",
            count(TRAFFIC),
            count(LOST),
            NOTICEABLE_LOSS * 100.0,
            count(PAUSES)
        )
    },
    silent: "packets were lost before the sample but not during it, or were dropped by the stack, which has \
             other buffers, or the driver counts them as rx_dropped only: interface-drops reports those",
    evidence: "packets lost and received per second, the size of the ring and its maximum, the CPUs of the \
               interrupts and their load",
    cause: "The ring fills faster than its CPU empties it: the CPU has no time for it, or bursts are longer \
            than the ring.",
    remedy: "If the CPU is full, give it less to do: a larger ring only delays the loss. If it sleeps, forbid deep idle \
             states. Otherwise, a larger ring.",
    source: "include/uapi/linux/if_link.h (rx_missed_errors, rx_fifo_errors); ethtool(8) -G",
    check: Check::Device(finding),
};

/// The reason the ring is not emptied in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// Receive work leaves the CPU no time.
    Cpu,
    /// Processes share the CPU, and it is full.
    Processes,
    /// The CPU has time: bursts are longer than the ring.
    Ring,
}

/// The CPU of the device's interrupts with most receive time, and the reason a ring overflows.
pub(super) fn blame<'a>(model: &Model, rates: &'a Rates, nic: &Nic) -> (Option<&'a CpuRates>, Blame) {
    let cpus: Vec<&CpuRates> = nic
        .rx
        .iter()
        .flat_map(|queue| irq_cpus(queue, model, rates).iter().collect::<Vec<_>>())
        .filter_map(|cpu| rates.cpu(cpu))
        .collect();
    // Reversed, so that the first of equals wins.
    let hottest = cpus.iter().rev().max_by(|a, b| receive_time(a).total_cmp(&receive_time(b))).copied();
    let blame = match hottest {
        Some(cpu) if receive_time(cpu) >= DROWNING => Blame::Cpu,
        Some(cpu) if busy(cpu) >= FULL => Blame::Processes,
        _ => Blame::Ring,
    };
    (hottest, blame)
}

/// The receive ring of a device that can be made larger.
pub(super) fn room_of(nic: &Nic) -> Option<Count> {
    nic.hardware.rings.known().and_then(|rings| rings.rx).filter(|ring| ring.now < ring.max)
}

/// Evidence of the time of the CPU that empties a device's rings: of several, the one with most receive time.
pub(super) fn emptied_by(model: &Model, rates: &Rates, nic: &Nic) -> Option<Evidence> {
    let cpu = blame(model, rates, nic).0?;
    Some(Evidence::about(Subject::Cpu(cpu.cpu), |seen| {
        format!(
            "CPU {} (its interrupts): {} of its time in softirq, {} in processes, {} idle ({})",
            cpu.cpu,
            seen.percent("receive_time", receive_time(cpu)),
            seen.percent("processing", processing(cpu)),
            seen.percent("idle", cpu.idle),
            seen.tier(rates)
        )
    }))
}

/// Entries/s of a device's CPUs into deep idle states from which these may be the reason of a loss: thousands.
const ASLEEP: f64 = 1_000.0;

/// Evidence that the CPUs of a device's interrupts go into deep idle states and are woken thousands of times a second.
fn asleep(model: &Model, rates: &Rates, nic: &Nic) -> Option<Evidence> {
    let DeepIdle { cpus, state, entries } = deep_idle(&nic_irq_cpus(nic, model, rates), model, rates)?;
    let entries = entries.filter(|entries| *entries >= ASLEEP)?;
    Some(Evidence::about(Subject::Cpus(cpus.clone()), |seen| {
        let entries = seen.rate("deep_idle_entries", entries);
        let exit = seen.figure("exit", state.exit_us.into(), Unit::Microseconds);
        let (cpus, state) = (cpus_text(&cpus), &state.name);
        format!("{cpus}: deep idle states up to {state} (exit {exit} us) entered {entries} times/s")
    }))
}

/// True if enough packets arrive for this rule.
pub(super) fn has_traffic(rates: &NicRates) -> bool {
    rates.rx_missed + rates.rx_packets >= TRAFFIC
}

fn size_of(nic: &Nic, ring: Count) -> Evidence {
    Evidence::about(Subject::nic(nic), |seen| {
        let (now, max) = (seen.count("ring", ring.now as usize), seen.count("ring_max", ring.max as usize));
        format!("RX ring: {now} descriptors per queue, at most {max}")
    })
}

fn larger(nic: &Nic, ring: Count) -> String {
    format!(
        "a larger ring (ethtool -G {} rx N, at most {}); resizing interrupts traffic for a moment",
        nic.name, ring.max
    )
}

/// A device that makes its sender wait instead of losing packets, and whose ring can be larger.
fn paused(model: &Model, rates: &Rates, nic: &Nic, traffic: &NicRates) -> Option<Finding> {
    let sent = traffic.losses.iter().find(|(counter, _)| loss_kind(counter) == Some(LossKind::Paused));
    let (counter, frames) = sent.filter(|(_, frames)| **frames >= PAUSES)?;
    let (ring, (hottest, blame), name) = (room_of(nic)?, blame(model, rates, nic), &nic.name);
    if blame != Blame::Ring {
        return None;
    }
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        format!(
            "{name}: {} pause frames/s sent ({counter}), {} packets/s received",
            seen.rate(counter, *frames),
            seen.packets("rx_packets", traffic.rx_packets)
        )
    })];
    evidence.push(size_of(nic, ring));
    evidence.extend(emptied_by(model, rates, nic));
    Some(Finding {
        severity: Severity::Warning,
        cpu: hottest.map(|cpu| cpu.cpu),
        title: format!("{name} makes its sender wait: {} pause frames/s", count(*frames)),
        evidence,
        why: "flow control holds the sender back instead of losing packets; its CPU has time left and the ring is below its \
              maximum: bursts are probably longer than the ring"
            .to_owned(),
        remedy: larger(nic, ring),
        ..RULE.finding()
    })
}

/// True if the device's own FIFO may be what is full: the driver is not known, and only the errors of a receive FIFO grow.
fn may_be_fifo(nic: &Nic, traffic: &NicRates) -> bool {
    let grew = traffic.losses.iter().filter(|(_, rate)| **rate > 0.0).map(|(counter, _)| counter);
    let mut of_ring = grew.filter(|counter| loss_kind(counter) == Some(LossKind::Ring));
    nic.driver_facts().names.is_empty() && of_ring.all(|counter| counter.ends_with("rx_fifo_errors"))
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let traffic = rates.nic(&nic.name).filter(|traffic| has_traffic(traffic))?;
    if traffic.rx_missed < LOST {
        return paused(model, rates, nic, traffic);
    }
    let (lost, name) = (traffic.rx_missed, &nic.name);
    let part = lost / (lost + traffic.rx_packets);
    let (hottest, blame) = blame(model, rates, nic);
    let have_time = rates.cpus.iter().all(|cpu| receive_time(cpu) < DROWNING);
    let may_be_fifo = blame == Blame::Ring && have_time && may_be_fifo(nic, traffic);
    let ring = nic.hardware.rings.known().and_then(|rings| rings.rx);
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        format!(
            "{name}: {} packets/s lost for lack of {}, {} packets/s received",
            seen.packets("rx_missed", lost),
            if may_be_fifo { "room (rx_fifo_errors)" } else { "a buffer" },
            seen.packets("rx_packets", traffic.rx_packets)
        )
    })];
    evidence.extend(ring.map(|ring| size_of(nic, ring)));
    evidence.extend(emptied_by(model, rates, nic));
    let room = room_of(nic);
    let slower = if nic.hardware.function.may_pause() {
        "flow control (pause frames) against single senders"
    } else {
        "senders that pace packets"
    };
    // As the table of settings says.
    let has_more = may_use_more_queues(model, nic) && queue_limit(nic).is_some();
    let (why, remedy, plans): (&str, String, &[PlanName]) = if blame == Blame::Cpu {
        let why =
            "the CPU that empties the ring has no time left: a larger ring also fills and only adds delay";
        // RPS already hands over everything but the polling.
        if nic.rx.iter().all(|queue| handed_over(model, rates, queue)) {
            let can_part = hottest.is_some_and(|cpu| can_part(&queues_here(model, rates, cpu.cpu)));
            let queues = match can_part {
                true => "move interrupts of some of its queues to other CPUs; ",
                false if has_more => "more queues; ",
                false => "",
            };
            (why, format!("give that CPU less work: {queues}RPS already takes what it can"), &[])
        } else {
            let queues = if has_more { ", more queues" } else { "" };
            (why, format!("give that CPU less work: RPS{queues}"), &[PlanName::Rps])
        }
    } else if blame == Blame::Processes {
        let why = "processes share the CPU that empties the ring, and it is full: packets wait behind them";
        (why, "keep processes off that CPU, or move the interrupt to one with room".into(), &[])
    } else if let Some(asleep) = asleep(model, rates, nic) {
        let why = "its CPU has time left and sleeps deeply between packets: the ring fills while it wakes, and no deeper \
                   queue or other CPU wakes sooner";
        evidence.push(asleep);
        (why, format!("forbid deep idle states: {}; this uses more power", DeepIdle::command()), &[])
    } else if may_be_fifo {
        let why = "the ring or the device's own FIFO was full: which of them this driver counts as rx_fifo_errors is not known \
                   to rxlab, and of a FIFO the reason is in the device or its bus";
        let ring = if room.is_some() { "a larger ring, if it is the ring; " } else { "" };
        (why, format!("look up rx_fifo_errors in the driver's source; {ring}{slower}"), &[])
    } else if let Some(ring) = room {
        let why = "its CPU has time left and the ring is below its maximum: bursts are longer than the ring";
        (why, larger(nic, ring), &[])
    } else {
        let why = match (hottest, ring) {
            (None, _) => "the ring was full; the CPU that empties it is unknown",
            (_, None) => {
                "its CPU has time left: bursts are longer than the ring, whose size the driver does not \
                 report"
            }
            _ => "its CPU has time left and the ring is at its maximum: bursts are longer than the ring",
        };
        let queues = if has_more { "more queues, to spread bursts; " } else { "" };
        (why, format!("{queues}{slower}"), &[])
    };
    Some(Finding {
        severity: if part >= NOTICEABLE_LOSS { Severity::Critical } else { Severity::Warning },
        cpu: hottest.map(|cpu| cpu.cpu),
        title: format!(
            "{name} loses {} packets/s: its ring {}is full",
            count(lost),
            if may_be_fifo { "or FIFO " } else { "" }
        ),
        evidence,
        why: why.to_owned(),
        remedy,
        plans: plans.to_vec(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::family::PlanName;

    fn host(softirq: f64, missed: f64) -> Sketch {
        Sketch::new(8)
            .device("eth0", &[2])
            .traffic("eth0", 2e5)
            .receives(2, softirq, 2e5)
            .missed("eth0", missed)
    }

    #[test]
    fn a_driver_that_cannot_change_its_queues_is_not_asked_to() {
        let of = |driver: &str, most| {
            host(0.3, 600.0).queues_at_most("eth0", most).driver("eth0", driver).finding(&RULE).remedy
        };
        assert!(of("ixgbe", 8).contains("more queues") && !of("fsl_dpaa2_eth", 8).contains("more queues"));
        assert!(!of("ixgbe", 1).contains("more queues"), "its maximum");
        let for_cores = Sketch::new(2).device("eth0", &[0, 1]).queues_at_most("eth0", 8).traffic("eth0", 2e5);
        let for_cores = for_cores.missed("eth0", 600.0).finding(&RULE);
        assert!(!for_cores.remedy.contains("more queues"), "a queue for each core: {for_cores:?}");
    }

    /// Published: the port of a switch lost a fifth of its frames before any ring, and larger rings were of no use.
    #[test]
    fn errors_of_a_fifo_may_not_be_those_of_a_ring() {
        let lost = |driver: &str, counter: &str| {
            let host = Sketch::new(4).device("wan", &[0]).driver("wan", driver).traffic("wan", 1e4);
            host.receives(0, 0.08, 1e4).counted("wan", counter, 2_600.0).finding(&RULE)
        };
        let fifo = lost("qcom-ppe", "rx_fifo_errors");
        assert_eq!(fifo.title, "wan loses 2,600 packets/s: its ring or FIFO is full");
        assert!(!fifo.why.contains("bursts") && !fifo.remedy.contains("queues"), "{fifo:?}");
        for ring in [lost("igb", "rx_fifo_errors"), lost("qcom-ppe", "rx_missed_errors")] {
            assert_eq!(ring.title, "wan loses 2,600 packets/s: its ring is full");
        }
    }

    /// The advice of most guides, a larger ring, does not help if the CPU is the limit.
    #[test]
    fn a_full_cpu_is_no_short_ring() {
        let finding = host(0.95, 4_000.0).rings("eth0", 256, 4096).finding(&RULE);
        assert_eq!(finding.title, "eth0 loses 4,000 packets/s: its ring is full");
        assert!(finding.why.contains("no time left") && !finding.remedy.contains("ethtool"), "{finding:?}");
        assert_eq!(
            (finding.plans.as_slice(), finding.severity),
            ([PlanName::Rps].as_slice(), Severity::Critical)
        );
        let steered = host(0.9, 50.0).rps("eth0", "3-6").finding(&RULE);
        assert!(steered.plans.is_empty() && steered.remedy.contains("takes what it can"), "{steered:?}");
        let crowded = host(0.3, 50.0).rings("eth0", 256, 4096).works(2, 0.69).finding(&RULE);
        assert!(crowded.why.starts_with("processes share"), "{}", crowded.why);
    }

    #[test]
    fn a_short_ring_is_one_where_the_cpu_has_time() {
        let finding = host(0.3, 9.0).rings("eth0", 256, 4096).finding(&RULE);
        assert!(finding.remedy.contains("at most 4096") && finding.plans.is_empty(), "{finding:?}");
        assert_eq!(finding.severity, Severity::Warning, "9 of 200,000");
        assert_eq!(finding.seen()[1], "RX ring: 256 descriptors per queue, at most 4096");
        assert!(host(0.3, 9.0).rings("eth0", 4096, 4096).finding(&RULE).why.contains("at its maximum"));
        assert!(host(0.3, 9.0).finding(&RULE).why.contains("does not report"));
    }

    /// Published: 57 % idle, packets lost, C6 entered thousands of times a second. More queues were the advice.
    #[test]
    fn a_cpu_that_sleeps_empties_no_ring() {
        let sleepy = |entries: f64| {
            let host = host(0.3, 9.0).rings("eth0", 4096, 4096).interrupts("eth0", 9e3);
            host.idle_states(&[("C1", 2), ("C6", 133)]).enters(2, "C6", entries)
        };
        let found = sleepy(7_200.0).net_rx(2, 9e3).finding(&RULE);
        assert!(
            found.why.contains("sleeps deeply") && found.remedy.contains("cpupower idle-set"),
            "{found:?}"
        );
        assert!(
            found.seen().last().expect("seen").contains("C6 (exit 133 us) entered 7,200 times/s"),
            "{found:?}"
        );
        let awake = sleepy(300.0).net_rx(2, 500.0).finding(&RULE);
        assert!(!awake.remedy.contains("idle"), "hundreds: {awake:?}");
    }

    /// Published: "stuck at 4-5 Gbit/s" until the ring was 4096. No packet was lost, and that was "nothing to do".
    #[test]
    fn a_device_that_makes_its_sender_wait() {
        let paused =
            |ring| host(0.22, 0.0).rings("eth0", ring, 4096).counted("eth0", "tx_flow_control_xoff", 900.0);
        let found = paused(512).finding(&RULE);
        assert_eq!(found.title, "eth0 makes its sender wait: 900 pause frames/s");
        assert_eq!(found.seen()[1], "RX ring: 512 descriptors per queue, at most 4096");
        assert!(found.remedy.contains("at most 4096") && found.plans.is_empty(), "{found:?}");
        paused(4096).silent(&RULE, "the ring is at its maximum");
        paused(512).receives(2, 0.95, 2e5).silent(&RULE, "a larger ring also fills");
        paused(512).counted("eth0", "tx_flow_control_xoff", 3.0).silent(&RULE, "few");
        let lost = paused(512).missed("eth0", 9.0).finding(&RULE);
        assert!(lost.title.starts_with("eth0 loses 9 packets/s"), "{lost:?}");
    }

    #[test]
    fn near_misses() {
        host(0.3, 0.4).silent(&RULE, "two packets in five seconds");
        host(0.3, 40.0).traffic("eth0", 300.0).missed("eth0", 40.0).silent(&RULE, "no traffic");
        host(0.95, 0.0).rings("eth0", 64, 4096).silent(&RULE, "a short ring that loses nothing");
        let veth = Sketch::new(2).veth("veth0").traffic("veth0", 9e4).missed("veth0", 9e3);
        veth.silent(&RULE, "no ring");
    }
}
