//! Machines where one CPU does most receive work, and similar ones.

use super::RULE;
use crate::diagnose::Severity;
use crate::diagnose::sketch::{Diagnosed, Sketch};
use crate::family::PlanName;
use rxlab_base::units::{CpuId, IrqId};
use rxlab_path::model::{Fact, IrqRates, SoftirqTimed};
use rxlab_path::sketch::cpus;

#[test]
fn field_case_a_names_cpu_queue_and_interrupt() {
    let finding = Sketch::case_a().finding(&RULE);
    assert_eq!(finding.title, "CPU 2 is full: it receives all packets of eth0; 7 CPUs 79 % busy");
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!(finding.nic.as_ref().expect("a NIC").as_str(), "eth0");
    assert!(finding.seen().iter().any(|line| line.contains("IRQ 41 -> CPU 2")), "{:?}", finding.evidence);
    assert!(finding.why == "one queue, IRQ 41 -> CPU 2, RPS off: nothing spreads the packets");
}

/// Published state after the fix: CPU 2 at 48.51 %, the others 24 to 33 %.
#[test]
fn field_case_a_after_the_fix_is_silent() {
    let mut sketch = Sketch::case_a().rps("eth0", "0-7").receives(2, 0.4851, 6_000.0);
    for (cpu, softirq) in [(0, 0.24), (1, 0.33), (3, 0.28), (4, 0.27), (5, 0.25), (6, 0.31), (7, 0.3)] {
        sketch = sketch.receives(cpu, softirq, 6_000.0);
    }
    assert_eq!(sketch.findings(&RULE), []);
}

/// The doctor once reported nothing about a CPU at 95 % while seven others were at 35 %.
#[test]
fn a_cpu_that_drowns_beside_half_idle_ones_is_one() {
    let with = |others: f64| {
        let sketch = Sketch::case_a().rps("eth0", "0-1,3-7").receives(2, 0.95, 0.0).net_rx(2, 500.0);
        [0, 1, 3, 4, 5, 6, 7].iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu, others, 4_000.0))
    };
    let found = with(0.35).finding(&RULE);
    assert_eq!(found.cpu.map(|cpu| cpu.0), Some(2));
    assert_eq!(found.title, "CPU 2 spends 95 % of its time on receive work, 7 others 35 %");
    with(0.6).silent(&RULE, "all of them are short of time");
    assert_eq!(
        with(0.04).receives(5, 0.5, 2e4).finding(&RULE).cpu.map(|cpu| cpu.0),
        Some(2),
        "one more has work"
    );
}

/// Published: 126 interrupts on two of 80 CPUs. More queues were the advice.
#[test]
fn interrupts_of_many_queues_on_one_cpu_are_to_be_moved() {
    let host = |irqs: &[u32]| {
        let sketch = Sketch::new(24).device("eth0", irqs).traffic("eth0", 6e5).rps("eth0", "1-23");
        sketch.receives(0, 0.97, 0.0).net_rx(0, 9e3).all_receive("1-23", 0.1, 2.6e4).finding(&RULE)
    };
    let many = host(&[0; 12]);
    assert!(many.why.contains("the interrupts and the polling of 12 queues are left here"), "{many:?}");
    assert!(many.remedy.starts_with("move the interrupts"), "{many:?}");
    assert_eq!(many.plans, [PlanName::SeparateIrqs]);
    let one = host(&[0]);
    assert!(one.why.contains("the interrupt and the polling of the queue are left here"), "{one:?}");
}

/// Published: two CPUs that poll without packets for XDP. They were said to serve another network namespace.
#[test]
fn runs_without_packets_come_from_no_namespace() {
    let host = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 1e5).receives(0, 0.2, 1e5);
    let found = host.receives(6, 0.98, 0.0).net_rx(6, 3e4).finding(&RULE);
    assert_eq!(found.cpu, Some(CpuId(6)));
    assert!(found.why.starts_with("its NET_RX runs receive hardly any packets"), "{found:?}");
    assert!(!found.remedy.contains("namespace") && found.plans.is_empty(), "{found:?}");
}

/// Published: all CPUs spend the same time in softirqs, and one has a few packets, which were blamed.
#[test]
fn time_that_packets_cannot_account_for_makes_no_hotspot() {
    let host = |packets: f64| {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", packets).receives(2, 0.6, packets);
        sketch.all_receive("0-1,3-7", 0.6, 20.0).findings(&RULE).len()
    };
    assert_eq!((host(900.0), host(9e3)), (0, 1));
}

#[test]
fn two_cpus_and_a_veth() {
    let veth = || Sketch::new(2).veth("veth0").traffic("veth0", 2.7e5);
    let finding = veth().receives(0, 0.45, 2.7e5).finding(&RULE);
    assert_eq!(finding.title, "CPU 0 does 99 % of receive work, 47 % busy; 1 CPU idle");
    assert!(finding.why.contains("on the CPU that sends them"));
    veth().receives(0, 0.45, 1.8e5).receives(1, 0.2, 0.9e5).silent(&RULE, "two thirds on one of two");
}

/// Short receive runs inside system calls can be all but invisible to tick samples: seen with
/// 70,000 packets/s on a 2-CPU machine, 3 % in softirq.
#[test]
fn a_full_cpu_is_found_by_its_packets() {
    let veth =
        |user| Sketch::new(2).veth("veth0").traffic("veth0", 7e4).receives(0, 0.03, 7e4).works(0, user);
    assert_eq!(veth(0.95).finding(&RULE).severity, Severity::Critical);
    veth(0.5).silent(&RULE, "the CPU has room");
    let steered = veth(0.95).rps("veth0", "1").receives(1, 0.2, 7e4).works(1, 0.8);
    steered.receives(0, 0.01, 0.0).net_rx(0, 7e4).silent(&RULE, "RPS works: runs on both sides");
    veth(0.95).measured(|rates| rates.exact_softirq_time = Some(true)).silent(&RULE, "it is 3 %");
    let timed = || Some(SoftirqTimed { windows: 3, error: Some(0.01) });
    veth(0.95).measured(|rates| rates.softirq_timed = timed()).silent(&RULE, "so eBPF says");
    // A debug build of the load generator: 11 % of a full CPU.
    let sender = veth(0.85).receives(0, 0.11, 7e4).measured(|rates| rates.softirq_timed = timed());
    sender.silent(&RULE, "its time is the sender's");
    let receiver = veth(0.6).receives(0, 0.32, 7e4).measured(|rates| rates.softirq_timed = timed());
    assert_eq!(receiver.findings(&RULE).len(), 1, "a third of its time, and all of the receive work");
}

/// 8 CPUs at 95 % in a program and one queue: its CPU was once called a hotspot, for a few percent of
/// softirq.
#[test]
fn a_compute_host_is_none() {
    let host = || {
        let host = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 3e4).all_work("0-7", 0.5);
        host.receives(2, 0.03, 3e4).works(2, 0.96)
    };
    assert_eq!(host().findings(&RULE), []);
    // A bond counts the packets too, and its device has the interrupt.
    let bond = host().veth("bond0").traffic("bond0", 3e4);
    let bond = bond.edit("bond0", |nic| nic.stack.lower.push("eth0".parse().expect("a name")));
    assert_eq!(bond.findings(&RULE), []);
}

#[test]
fn the_other_one_of_two_cpus_is_as_far_as_work_can_move() {
    let steered = |mask| {
        let sketch = Sketch::new(2).veth("veth0").traffic("veth0", 6e5).rps("veth0", mask);
        sketch.receives(0, 0.1, 0.0).receives(1, 0.7, 6e5)
    };
    assert_eq!(steered("1").findings(&RULE), []);
    assert_eq!(steered("0-1").findings(&RULE).len(), 1);
    // A CPU that takes interrupts of its own got the packets of the other one as well.
    let both = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 2e5).rps("eth0", "0");
    assert_eq!(both.receives(0, 0.97, 2e5).receives(1, 0.2, 0.0).findings(&RULE).len(), 1);
    // The others are tickless: nothing can be moved there, and it drowns.
    let last = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 3e5).rps("eth0", "3");
    let last = last.all_receive("0-2", 0.25, 0.0).receives(3, 0.9, 3e5);
    let last = last.set(|settings| settings.nohz_full = Fact::Known(cpus("0-2")));
    assert_eq!(last.finding(&RULE).cpu, Some(CpuId(3)));
}

#[test]
fn busy_with_something_else_is_no_receive_hotspot() {
    Sketch::new(8).receives(2, 0.9, 100.0).silent(&RULE, "timers or block work");
    let balanced = (0..8).fold(Sketch::new(8), |sketch, cpu| sketch.receives(cpu, 0.7, 5e4));
    balanced.silent(&RULE, "much, but balanced");
}

/// Two CPUs at 50 % for another device once hid it, with five idle.
#[test]
fn a_cpu_that_drowns_is_measured_against_its_own_device() {
    let host = |cpus: u32, other: f64| {
        let sketch = Sketch::new(cpus).device("eth0", &[2]).device("eth1", &[0, 1]);
        let sketch = sketch.traffic("eth0", 1e5).traffic("eth1", 1e5).receives(2, 0.95, 1e5);
        sketch.all_receive("0-1", other, 5e4)
    };
    let found = host(8, 0.5).finding(&RULE);
    assert_eq!(found.title, "CPU 2 spends 95 % of its time on receive work, 2 others 50 %");
    assert_eq!(found.plans, [PlanName::Rps, PlanName::Rfs]);
    host(3, 0.5).silent(&RULE, "no CPU has room");
    let veth = Sketch::new(8).veth("veth0").traffic("veth0", 4e5).all_receive("1-3", 0.5, 1e5);
    veth.receives(0, 0.85, 1e5).silent(&RULE, "each receives what it sends");
}

/// Hard interrupts were once counted only on the busiest CPU, which made it twice as busy as its equals.
#[test]
fn interrupts_count_on_all_cpus() {
    let equal = |others: f64| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 8e5);
        let sketch = sketch.all_receive("0-3", 0.42, 2e5).interrupted(0, 0.42);
        sketch.each("1-3", |sketch, cpu| sketch.interrupted(cpu, others))
    };
    assert_eq!(equal(0.42).findings(&RULE), []);
    let found = equal(0.0).all_receive("1-3", 0.3, 2e5).finding(&RULE);
    assert_eq!(found.title, "CPU 0 spends 84 % of its time on receive work, 3 others 30 %");
    assert!(
        found.seen()[0].starts_with("CPU 0: 42 % of its time in softirq, 42 % in interrupts, the others"),
        "{:?}",
        found.evidence
    );
}

/// Sixteen of 128 CPUs at 82 % were once reported as a hotspot: compared with the mean of the idle ones.
#[test]
fn balanced_queues_of_a_wide_machine_are_no_hotspot() {
    let queues = |softirq| {
        let irqs: Vec<u32> = (0..16).collect();
        let sketch = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3.2e6);
        sketch.all_receive("0-15", softirq, 2e5)
    };
    assert_eq!(queues(0.26).findings(&RULE), []);
    assert_eq!(queues(0.82).findings(&RULE), []);
    assert_eq!(queues(0.4).receives(5, 0.95, 5e5).finding(&RULE).cpu.map(|cpu| cpu.0), Some(5));
}

#[test]
fn loopback_is_refused() {
    let sketch = Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5);
    assert_eq!(sketch.findings(&RULE), []);
    let proxy = Sketch::case_a().loopback().traffic("lo", 3e5);
    assert_eq!(
        proxy.finding(&RULE).severity,
        Severity::Critical,
        "most packets on lo, and CPU 2 drowns in eth0's"
    );
}

#[test]
fn what_rps_cannot_move_gets_no_plan() {
    let mut sketch = Sketch::case_a().rps("eth0", "0-1,3-7").receives(2, 0.9, 0.0).net_rx(2, 2_000.0);
    for cpu in [0, 1, 3, 4, 5, 6, 7] {
        sketch = sketch.receives(cpu, 0.1, 6_000.0);
    }
    let finding = sketch.finding(&RULE);
    assert!(finding.why.contains("RPS cannot move"), "{}", finding.why);
    assert!(finding.plans.is_empty());
}

/// A thread runs where the scheduler puts it: the doctor once said "where its interrupt lands" and advised
/// RPS.
#[test]
fn a_thread_that_polls_is_no_interrupt() {
    let host = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e5).receives(3, 0.0, 4e5).polls(3, 0.98);
    let found = host.finding(&RULE);
    assert!(found.why.starts_with("kernel threads poll queues here"), "{}", found.why);
    assert!(found.plans.is_empty(), "{found:?}");
}

/// A queue with 1 % of the packets was counted, and one interrupt of four queues was four.
#[test]
fn several_queues_on_one_cpu_are_a_cause() {
    let host = |packets: &[f64]| {
        let host = Sketch::new(8).device("eth0", &[2, 2, 2, 2]).queue_traffic("eth0", packets);
        host.receives(2, 0.9, packets.iter().sum())
    };
    let why = |host: Sketch| host.finding(&RULE).why;
    assert!(why(host(&[2e4; 4])).starts_with("the interrupts of 4 queues land here"));
    const ONE: &str = "no RPS: every packet of eth0/rx-0 is processed where its interrupt lands";
    assert_eq!(why(host(&[6.9e4, 1e3, 1e3, 1e3])), ONE);
    let shared = |nic: &mut rxlab_path::model::Nic| {
        let first = nic.rx[0].irqs.clone();
        nic.rx.iter_mut().for_each(|queue| queue.irqs.clone_from(&first));
    };
    assert_eq!(why(host(&[2e4; 4]).edit("eth0", shared)), ONE);
}

/// "One queue: nothing spreads the packets" was said of a device with several unknown interrupts.
#[test]
fn one_queue_of_unknown_interrupts_is_an_inference() {
    let host = || {
        let host = Sketch::new(8).device("wlan0", &[3]).traffic("wlan0", 4e4).receives(3, 0.9, 4e4);
        host.edit("wlan0", |nic| nic.rx[0].irqs.clear())
    };
    assert!(host().finding(&RULE).why.contains("probably here (inferred"), "{}", host().finding(&RULE).why);
    let two = || host().device("wlan1", &[3]).edit("wlan1", |nic| nic.rx[0].irqs.clear());
    let why = two().traffic("wlan1", 3e4).receives(3, 0.9, 7e4).finding(&RULE).why;
    assert!(why.starts_with("no RPS: packets of wlan0, wlan1 are processed"), "{why}");
    let two = host().veth("veth0").traffic("veth0", 4e4).finding(&RULE);
    assert_eq!(two.why, "any of these interfaces may bring its packets: wlan0, veth0");
    assert_eq!((two.nic, two.plans), (None, vec![]));
}

/// "Interrupt unknown", although the kernel shows which CPU Hyper-V signals.
#[test]
fn a_channel_has_a_cpu() {
    let host = Sketch::new(8).device("eth0", &[0, 0]).channels("eth0", &[0, 2]);
    let found = host.queue_traffic("eth0", &[5e3, 1.4e5]).receives(2, 0.97, 1.4e5).finding(&RULE);
    assert_eq!(found.seen()[2], "eth0/rx-1: 140,000 packets/s, VMBus -> CPU 2");
    assert_eq!(found.why, "no RPS: every packet of eth0/rx-1 is processed on CPU 2, which Hyper-V signals");
}

#[test]
fn an_unseen_namespace_is_said() {
    let finding = Sketch::new(2).veth("veth0").receives(0, 0.5, 3e5).finding(&RULE);
    assert_eq!(finding.nic, None);
    assert!(finding.remedy.contains("--netns"));
}

/// Only the hottest was once named.
#[test]
fn other_queues_whose_cpu_drowns_are_named() {
    let sketch = Sketch::new(16).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[3e5, 2.8e5, 3e4, 3e4]);
    let sketch = sketch.receives(0, 0.98, 3e5).receives(1, 0.82, 2.8e5).all_receive("2-3", 0.1, 3e4);
    let found = sketch.finding(&RULE);
    let seen = found.seen();
    assert_eq!(found.cpu, Some(rxlab_base::units::CpuId(0)));
    assert!(seen[2].starts_with("eth0/rx-0: 300,000 packets/s"), "{seen:?}");
    assert!(seen[3].starts_with("eth0/rx-1: 280,000 packets/s, interrupt on CPU 1, 82 %"), "{seen:?}");
}

/// A container: packets and interrupts of every namespace are counted, and only its own interfaces are seen. Its
/// eth0 was once blamed for the packets of the host.
#[test]
fn packets_of_another_namespace_are_not_blamed_on_what_is_seen() {
    let host = |packets: f64| {
        let sketch = Sketch::new(8).device("eth0", &[1]).traffic("eth0", packets).receives(1, 0.1, packets);
        let (model, mut rates) = sketch.receives(5, 0.9, 1.8e5).build();
        let (irq, cpu) = (rxlab_base::units::IrqId(99), rxlab_base::units::CpuId(5));
        let of_host = IrqRates { irq, action: "eno1-TxRx-0".into(), per_cpu: [(cpu, 2e4)].into() };
        rates.irqs.push(of_host);
        (model, rates)
    };
    let (model, rates) = host(3.5e4);
    let found = RULE.findings(&model, &rates);
    assert_eq!((found[0].nic.as_ref(), found[0].plans.as_slice()), (None, &[][..]));
    assert!(found[0].why.contains("inferred, not counted"), "{}", found[0].why);
    assert_eq!(
        found[0].seen()[2],
        "IRQ 99 (eno1-TxRx-0) fires 20,000 times/s on CPU 5: a NIC's, of no interface here"
    );
    let blamed = |(model, rates): (rxlab_path::model::Model, rxlab_path::model::Rates)| {
        RULE.findings(&model, &rates)[0].nic.clone()
    };
    assert_eq!(blamed(host(1e5)), None, "it receives that many, on CPU 1");
    let (mut steered, rates) = host(3.5e4);
    steered.nics[0].rx[0].rps_cpus = rxlab_base::units::Fact::Known(rxlab_path::sketch::cpus("5"));
    assert!(blamed((steered, rates)).is_some(), "its mask has the CPU");
    let masked = |packets| {
        let (mut model, mut rates) = host(packets);
        model.nics[0].rx[0].irqs.clear();
        model.interrupts = rxlab_base::units::Fact::Broken("/proc/interrupts is empty".to_owned());
        rates.irqs.clear();
        (model, rates)
    };
    assert_eq!(blamed(masked(3.5e4)), None, "the interrupt is not visible in a container");
    assert!(blamed(masked(1e5)).is_some(), "it receives most of them");
}

/// With two CPUs, a mask of the one without the interrupt is all that can be done, but not one of its own CPU.
#[test]
fn a_mask_of_the_cpu_of_the_interrupt_moves_nothing() {
    let host = |irqs: &[u32]| {
        let sketch = Sketch::new(2).device("eth0", irqs).traffic("eth0", 1e5).rps("eth0", "1");
        sketch.receives(0, 0.3, 0.0).receives(1, 0.95, 1e5).findings(&RULE)
    };
    assert_eq!(host(&[0]), [], "moved to the other one");
    assert_eq!(host(&[0, 1])[0].cpu, Some(CpuId(1)));
    // Hyper-V: a channel instead of an interrupt.
    let signalled = |cpu: u32| {
        let sketch = Sketch::new(2).device("eth0", &[0]).traffic("eth0", 1e5).rps("eth0", "1");
        let sketch = sketch.channels("eth0", &[cpu]).receives(0, 0.3, 0.0).receives(1, 0.95, 1e5);
        sketch.findings(&RULE).into_iter().map(|found| found.cpu).collect::<Vec<_>>()
    };
    assert_eq!((signalled(0), signalled(1)), (vec![], vec![Some(CpuId(1))]));
    // The other one was busy with the packets of another network namespace already.
    let crowded =
        Sketch::new(2).device("eth0", &[0]).traffic("eth0", 1e5).rps("eth0", "1").receives(0, 0.3, 0.0);
    let crowded = crowded.receives(1, 0.95, 2.5e5).measured(|rates| {
        let per_cpu = [(CpuId(1), 5e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(90), action: "virtio3-input.0".to_owned(), per_cpu });
    });
    assert_eq!(crowded.finding(&RULE).cpu, Some(CpuId(1)));
}

/// An unreadable mask was called "no RPS".
#[test]
fn an_unknown_mask_is_not_none() {
    let host = Sketch::case_a().edit("eth0", |nic| nic.rx[0].rps_cpus = Fact::Unsupported);
    let why = "the RPS mask of eth0/rx-0 cannot be read, so it is unknown whether RPS hands its packets over";
    assert_eq!(host.finding(&RULE).why, why);
}

/// RPS was the remedy, while rps-redundant said to switch it off.
#[test]
fn masks_that_lead_every_queue_to_one_cpu_are_to_be_removed() {
    let host = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[7e4; 4]).rps("eth0", "1");
    let host = [0, 2, 3].into_iter().fold(host, |host, cpu| host.receives(cpu, 0.17, 0.0));
    let found = host.receives(1, 0.92, 2.8e5).finding(&RULE);
    assert_eq!(found.why, "RPS hands the packets of 4 queues of eth0 to CPU 1 only");
    assert_eq!(
        (found.remedy.as_str(), found.plans),
        ("switch RPS off: every CPU has a queue", vec![PlanName::RpsOff])
    );
}

/// A CPU whose own interfaces bring all its packets was said to have those of another network namespace as well; so was one
/// with the interrupt of a disk.
#[test]
fn an_interrupt_is_of_another_namespace_only_if_packets_are_missing_and_a_nic_s() {
    let words = |action: &str, here: f64| {
        let host = Sketch::case_a().rps("eth0", "2").receives(2, 0.98, here).measured(|rates| {
            let per_cpu = [(CpuId(2), 2e4)].into();
            rates.irqs.push(IrqRates { irq: IrqId(500), action: action.to_owned(), per_cpu });
        });
        let found = host.finding(&RULE);
        (found.why, found.evidence.iter().map(|seen| seen.text.clone()).collect::<String>())
    };
    const NAMED: &str = "; IRQ 500 of another network namespace lands here too";
    let (why, _) = words("eth9-TxRx-0", 1e5);
    assert!(why.ends_with(NAMED), "{why}");
    for (action, here) in [("eth9-TxRx-0", 42_000.0), ("nvme0q3", 1e5), ("46000000.ethernet", 1e5)] {
        let (why, seen) = words(action, here);
        assert!(!why.contains("another network namespace"), "{action}: {why}");
        assert!(
            seen.contains(&format!("IRQ 500 ({action}) fires 20,000 times/s on CPU 2: its owner is unknown")),
            "{seen}"
        );
    }
}

/// On ARM a timer is a numbered interrupt, which fires on every CPU.
#[test]
fn a_timer_is_no_device_of_another_namespace() {
    let host = Sketch::case_a().measured(|rates| {
        let per_cpu = (0..8).map(|cpu| (CpuId(cpu), 2e4)).collect();
        rates.irqs.push(IrqRates { irq: IrqId(11), action: "arch_timer".to_owned(), per_cpu });
    });
    let found = host.finding(&RULE);
    let words = format!("{} {:?}", found.why, found.evidence);
    assert!(!words.contains("IRQ 11") && !words.contains("another network namespace"), "{words}");
}

/// Field machine mt7621-napi-thread: more queues were advised to a device that has one.
#[test]
fn one_queue_has_one_thread() {
    let remedy = |irqs: &[u32]| {
        let sketch = Sketch::new(4).device("eth0", irqs).traffic("eth0", 8.5e4).receives(2, 0.02, 8.5e4);
        sketch.polls(2, 0.93).finding(&RULE).remedy
    };
    assert!(remedy(&[2]).starts_with("eth0 has one queue, so one thread: RPS may hand"), "{}", remedy(&[2]));
    assert!(remedy(&[2, 2]).starts_with("more queues"), "{}", remedy(&[2, 2]));
    let full = |are_all: bool| {
        let host = Sketch::new(4).device("eth0", &[2, 2]).queues_at_most("eth0", 2).traffic("eth0", 8.5e4);
        let host = host.edit("eth0", |nic| nic.napi.threaded = Fact::Known(are_all));
        host.receives(2, 0.02, 8.5e4).polls(2, 0.93).finding(&RULE).remedy
    };
    let (all, some) = (full(true), full(false));
    assert!(all.starts_with("eth0 has 2 queues at most, a thread for each: RPS may hand"), "{all}");
    assert!(some.starts_with("eth0 has 2 queues at most: RPS may hand"), "{some}");
}

/// The port of a switch counts its packets again: the figure was twice that of the table of CPUs.
#[test]
fn packets_of_the_stack_are_called_so() {
    let seen = |packets: f64| {
        let host = Sketch::new(4).device("dsa", &[0]).traffic("dsa", 5.2e4).receives(0, 0.96, packets);
        host.finding(&RULE).seen()[1].to_owned()
    };
    assert!(
        seen(1.04e5).starts_with("CPU 0: 104,000 packets/s in the stack, 100 % of all"),
        "{}",
        seen(1.04e5)
    );
    assert!(seen(5.2e4).starts_with("CPU 0: 52,000 packets/s, 100 % of all"), "{}", seen(5.2e4));
}

/// A mask on the device was advised for packets that have one hash.
#[test]
fn packets_of_one_hash_are_spread_where_they_are_unwrapped() {
    let host = Sketch::new(4).device("wwan0", &[1]).traffic("wwan0", 6e4).receives(1, 0.9, 1.8e5);
    let host = host.veth("rmnet0").traffic("rmnet0", 5.9e4);
    let host = host.edit("rmnet0", |nic| nic.stack.kind = Some("rmnet".to_owned()));
    let remedy = host.finding(&RULE).remedy;
    assert!(remedy.ends_with("RPS on rmnet0 spreads the connections inside"), "{remedy}");
}

/// Field machine mt7996-napi-threads: more queues were advised.
#[test]
fn threads_that_share_a_cpu_are_unpinned() {
    let host = |threads: &[u32]| {
        let sketch =
            Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).receives(3, 0.03, 9e4).polls(3, 0.93);
        sketch.measured(|rates| drop(rates.pinned_napi.insert(CpuId(3), threads.to_vec())))
    };
    let found = host(&[61, 62, 63]).finding(&RULE);
    assert_eq!(found.why, "3 threads that poll queues (threaded NAPI) may run on CPU 3 only, and share it");
    assert_eq!(
        found.remedy,
        "let them run on other CPUs too, or each on one of its own: taskset -pc 0-3 PID, for PID 61, 62, 63"
    );
    assert!(host(&[61]).finding(&RULE).remedy.starts_with("eth0 has one queue"), "one has a CPU of its own");
}

/// Published (LibreQoS): a CPU was 98 % busy with such a thread, which was "nothing to do: busiest CPU 15 % in softirq".
#[test]
fn what_an_xdp_program_redirects_is_receive_work() {
    let host = |time| {
        let host = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[2.3e4; 4]);
        host.all_receive("0-1,3", 0.15, 6e3).receives(2, 0.15, 7.4e4).redirected(2, time)
    };
    let found = host(0.82).finding(&RULE);
    assert_eq!((found.cpu, found.severity), (Some(CpuId(2)), Severity::Critical));
    assert!(found.why.starts_with("an XDP program redirects packets to CPU 2"), "{found:?}");
    assert!(found.remedy.starts_with("let the XDP program redirect"), "{found:?}");
    assert!(found.plans.is_empty(), "no mask or interrupt chooses that CPU: {found:?}");
    let regime = host(0.82).regime();
    let cpu = regime.cpus.iter().find(|cpu| cpu.cpu == CpuId(2)).expect("it receives");
    assert_eq!(cpu.packets, 7.4e4, "not those of its interrupt");
    assert!(regime.knobs.iter().all(|worth| !worth.trial), "{regime:?}");
    host(0.1).silent(&RULE, "it has time left");
}

/// RPS was advised with nothing to try, because no plan tells queues apart that are not counted.
#[test]
fn a_mask_is_named_where_no_plan_is_made() {
    let remedy = |driver: &str| {
        let host = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).driver("eth0", driver).traffic("eth0", 4e4);
        let host = host.receives(1, 0.95, 4e4).measured(|rates| {
            for (irq, rate) in rates.irqs.iter_mut().zip([300.0, 15e3, 300.0, 300.0]) {
                irq.per_cpu.values_mut().for_each(|value| *value = rate);
            }
        });
        host.finding(&RULE).remedy
    };
    let own = "try RPS by hand, as eth0 counts no packets by queue: `rps eth0/rx-1 = 0,2-3`";
    assert!(remedy("virtio_net").starts_with(own), "{}", remedy("virtio_net"));
    let one_for_all = own.replace("rx-1", "rx-0") + ", the mask of all its queues";
    assert!(remedy("am65-cpsw-nuss").starts_with(&one_for_all), "{}", remedy("am65-cpsw-nuss"));
}
