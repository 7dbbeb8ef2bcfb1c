//! The verdict on the possible gain, by kind of limit.

use super::{Regime, regime};
use crate::decision::Decisions;
use crate::diagnose::diagnose;
use crate::diagnose::sketch::{Diagnosed, Sketch};
use crate::family::Family;

#[test]
fn no_traffic_and_loopback_have_no_regime() {
    let (model, rates) = Sketch::new(8).device("eth0", &[2]).build();
    assert_eq!(regime(&model, &rates, &[], &mut Decisions::new(&model, &rates)), None);
    let (model, rates) = Sketch::new(2).loopback().veth("v").traffic("lo", 3e5).traffic("v", 2e3).build();
    assert_eq!(regime(&model, &rates, &[], &mut Decisions::new(&model, &rates)), None);
}

/// Its thread moves over all CPUs: no CPU is busy.
#[test]
fn a_thread_that_limits_is_the_reason() {
    let host = |receive: f64| {
        let sketch =
            Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 4e4).all_receive("0-7", receive, 5e3);
        let sketch = sketch.each("0-7", |sketch, cpu| sketch.works(cpu, 0.12));
        sketch.program("redis-server", 0.99, "0-7").thread(2, 0.99, 0.0).udp(53, 900, 900)
    };
    let summary = host(0.02).regime().summary;
    assert!(
        summary.starts_with(
            "IRQ pinning cannot matter here, and other steering cannot raise throughput at the current load: \
             the load"
        ),
        "{summary}"
    );
    assert!(summary.contains("one thread of redis-server: receive work takes 2.0 %"), "{summary}");
    let summary = host(0.02).socket(|held| held.queued = 0).regime().summary;
    assert!(!summary.contains("redis"), "it keeps up: {summary}");
    // Enough to matter, and RFS would bring more of it.
    let busy = host(0.09).works(3, 0.85).regime();
    let rfs = busy.knobs.iter().find(|knob| knob.knob == Family::Rfs).expect("judged");
    assert!(!rfs.trial && rfs.why.contains("no time left"), "{busy:?}");
    assert!(!busy.summary.contains("cannot matter"), "{busy:?}");
}

/// 400,000 packets/s and a CPU at 98 % system: softirq time was 0 %, so that nothing could matter.
#[test]
fn threads_that_poll_are_receive_work() {
    let host = || {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e5);
        sketch.receives(3, 0.0, 4e5).polls(3, 0.98)
    };
    let found = host().regime();
    assert_eq!((found.cpus[0].cpu.0, found.cpus[0].receive), (3, 0.98));
    assert!(found.summary.starts_with("one-core hotspot on CPU 3 (98 % of its time)"), "{}", found.summary);
    let (model, mut rates) = host().build();
    rates.cpus[3].napi = 0.0;
    rates.unseen = vec![model.nics[0].name.clone()];
    assert_eq!(regime(&model, &rates, &[], &mut Decisions::new(&model, &rates)), None, "not known");
}

#[test]
fn figures_of_an_interrupt_s_cpu() {
    let sketch = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 5e4);
    let busy = sketch.measured(|rates| (rates.cpus[1].softirq, rates.cpus[1].irq) = (0.4, 0.1));
    let regime = busy.regime();
    let [cpu] = regime.cpus.as_slice() else { panic!("{regime:?}") };
    assert_eq!((cpu.cpu.0, cpu.takes_interrupts, cpu.interrupts), (1, true, Some(50.0)));
    assert!((cpu.ns_per_packet.expect("packets") - 10_000.0).abs() < 1.0 && cpu.ceiling == 1.0, "{cpu:?}");
}

/// It was once called a one-core hotspot.
#[test]
fn a_storm_of_timers_is_no_receive_work() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).queue_traffic("eth0", &[5e3; 8]);
    let host = sketch.all_receive("0-7", 0.01, 5e3).receives(5, 0.86, 5e3);
    let regime = next_to_findings(host.net_rx(5, 1.5e3).softirqs(5, "TIMER", 4e4));
    assert!(regime.summary.starts_with("IRQ pinning cannot matter here"), "{}", regime.summary);
    assert_eq!(regime.cpus[0].receive, 0.01);
}

fn busy_at(receive: f64) -> Sketch {
    Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, receive, 4e4)
}

/// "Nothing can matter" was once printed next to a finding that advised RPS.
#[test]
fn advice_for_later_is_not_contradicted() {
    let alone = busy_at(0.45).regime();
    assert!(alone.summary.starts_with("IRQ pinning cannot matter here"), "{}", alone.summary);
    assert!(alone.summary.contains("Latency is a separate question"), "{}", alone.summary);
    let (model, mut rates) = busy_at(0.45).build();
    let found = diagnose(&model, &rates);
    assert!(found.iter().any(|finding| !finding.plans.is_empty()), "{found:?}");
    let limited =
        regime(&model, &rates, &found, &mut Decisions::new(&model, &rates)).expect("there is traffic");
    assert!(!limited.summary.contains("cannot matter"), "{}", limited.summary);
    assert!(limited.summary.contains("no throughput gain at the current load"), "{}", limited.summary);
    assert!(limited.knobs.iter().any(|knob| knob.trial), "{limited:?}");
    rates.cpus[2].dropped = 40.0;
    let losing = regime(&model, &rates, &found, &mut Decisions::new(&model, &rates))
        .expect("there is traffic")
        .summary;
    assert!(
        losing.contains("; 40 packets/s are lost, in bursts") && !losing.contains("no throughput"),
        "{losing}"
    );
}

#[test]
fn lost_packets_matter_however_idle_the_machine_is() {
    let summary = busy_at(0.03).missed("eth0", 120.0).regime().summary;
    assert!(summary.starts_with("120 packets/s are lost although the CPUs have time"), "{summary}");
}

/// The verdict that `doctor` prints: with its findings.
fn next_to_findings(sketch: Sketch) -> Regime {
    let (model, rates) = sketch.build();
    regime(&model, &rates, &diagnose(&model, &rates), &mut Decisions::new(&model, &rates))
        .expect("there is traffic")
}

/// Field case C on bare metal: 495k requests/s through 1 Gbit/s, limited by bandwidth. The rest is made up.
fn full_link(receive: f64) -> Sketch {
    let sketch = Sketch::new(32).device("eth0", &[0]).traffic("eth0", 3e5).speed("eth0", 1000);
    sketch.bytes("eth0", 1.1e8, 0.0).receives(0, receive, 3e5)
}

#[test]
fn a_full_link_gives_nothing() {
    let found = next_to_findings(full_link(0.05));
    assert!(found.summary.starts_with("IRQ pinning cannot matter here"), "{}", found.summary);
    assert!(found.summary.contains("eth0 receives at 94 % of its link speed"), "{}", found.summary);
    assert!(found.knobs.iter().all(|knob| !knob.trial), "{found:?}");
    let losing = next_to_findings(full_link(0.05).missed("eth0", 5e3)).summary;
    assert!(
        losing.starts_with(
            "5,000 packets/s are lost; steering cannot raise throughput at the current load: eth0 receives \
             at 94 %"
        ),
        "{losing}"
    );
}

/// "Other steering cannot raise throughput" was once printed next to a hotspot and its RPS plan.
#[test]
fn a_hotspot_before_a_full_link_keeps_its_advice() {
    let found = next_to_findings(full_link(0.9));
    assert!(found.summary.starts_with("one-core hotspot on CPU 0"), "{}", found.summary);
    assert!(
        found.summary.contains("; no throughput gain at the current load: eth0 receives at 94 %"),
        "{}",
        found.summary
    );
    assert!(!found.summary.contains("cannot matter"), "{}", found.summary);
    assert!(found.knobs.iter().any(|knob| knob.trial), "{found:?}");
    let losing = next_to_findings(full_link(0.9).missed("eth0", 5e3)).summary;
    assert!(
        losing.contains("; 5,000 packets/s are lost; no throughput gain at the current load"),
        "{losing}"
    );
}

/// The same with a queue for which RPS is advised before its traffic grows.
#[test]
fn a_full_thread_leaves_the_advice_for_later() {
    let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.15, 4e4);
    let sketch = sketch.works(2, 0.985).program("redis-server", 0.99, "0-7").thread(2, 0.99, 0.001);
    let found = next_to_findings(sketch.udp(6379, 900, 900));
    assert!(!found.summary.contains("cannot matter"), "{}", found.summary);
    assert!(
        found.summary.contains(
            "; no throughput gain at the current load: the load waits for one thread of redis-server"
        ),
        "{}",
        found.summary
    );
    let trial = |family| found.knobs.iter().any(|knob| knob.knob == family && knob.trial);
    assert!(trial(Family::Rps) && !trial(Family::Rfs), "{found:?}");
}

/// The effect on capacity is stated once, by the prediction of a plan.
#[test]
fn a_hotspot_is_spread() {
    let summary = busy_at(0.98).regime().summary;
    assert!(summary.ends_with("can spread it"), "{summary}");
}

#[test]
fn a_veth_has_no_interrupt_to_pin() {
    let veth = Sketch::new(2).veth("veth0").traffic("veth0", 5e5).works(0, 0.5).receives(0, 0.45, 5e5);
    let regime = veth.regime();
    assert!(!regime.cpus[0].takes_interrupts);
    let worth: Vec<Family> = regime.knobs.iter().filter(|knob| knob.trial).map(|knob| knob.knob).collect();
    assert_eq!(worth, [Family::Rps, Family::Rfs]);
    assert!(
        regime
            .knobs
            .iter()
            .any(|knob| knob.knob == Family::IrqPlacement && knob.why.contains("no interrupt"))
    );
}

/// 120,000 interrupts/s were shown where 30,000 happened.
#[test]
fn an_interrupt_of_several_queues_is_counted_once() {
    let sketch = Sketch::new(8).device("eth0", &[5; 4]).traffic("eth0", 1.5e5).receives(5, 0.6, 1.5e5);
    let shared = sketch.edit("eth0", |nic| {
        let first = nic.rx[0].irqs.clone();
        nic.rx.iter_mut().for_each(|queue| queue.irqs.clone_from(&first));
    });
    assert_eq!(shared.regime().cpus[0].interrupts, Some(50.0));
}

/// gve of 5.10 counts no packets by queue: each of three CPUs had a third of those of one.
#[test]
fn packets_that_no_queue_counts_are_those_of_the_cpu() {
    let host = || {
        let sketch = Sketch::new(6).device("eth0", &[3, 4, 5]).traffic("eth0", 1.25e5);
        sketch.receives(3, 0.02, 500.0).receives(4, 0.92, 1.24e5).receives(5, 0.02, 500.0)
    };
    let figures = |sketch: Sketch| {
        let cpus = sketch.regime().cpus.into_iter();
        cpus.map(|cpu| (cpu.cpu.0, cpu.packets.round(), cpu.ns_per_packet.map(f64::round)))
            .collect::<Vec<_>>()
    };
    assert_eq!(figures(host())[0], (4, 124_000.0, Some(7_419.0)));
    assert_eq!(figures(host()).iter().map(|(_, packets, _)| packets).sum::<f64>(), 125_000.0);
    let handed = figures(host().rps("eth0", "0-2"));
    assert!(
        handed.iter().all(|(_, _, price)| price.is_none()),
        "a third each is taken for granted: {handed:?}"
    );
}

/// 2 % of every CPU were 160,000 ns for each of 125 packets/s.
#[test]
fn what_every_cpu_spends_is_no_price_of_packets() {
    let host =
        Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 1.4e5).queue_traffic("eth0", &[1.4e5, 125.0]);
    let host = host.all_receive("2-7", 0.02, 30.0).receives(0, 0.9, 1.4e5).receives(1, 0.02, 125.0);
    let regime = host.regime();
    let price = |cpu: u32| regime.cpus.iter().find(|of| of.cpu.0 == cpu).expect("there").ns_per_packet;
    assert_eq!((price(0).map(f64::round), price(1)), (Some(6_429.0), None), "{regime:?}");
}

/// 36 % of the packets were "most packets".
#[test]
fn a_queue_with_more_than_the_others_need_not_have_most() {
    let traffic = [6e4, 1.5e4, 1.5e4, 1.5e4, 1.5e4, 1.5e4, 1.5e4, 1.5e4];
    let why = |irqs: &[u32]| {
        let host =
            Sketch::new(16).device("eth0", irqs).traffic("eth0", 1.65e5).queue_traffic("eth0", &traffic);
        let regime = host.receives(0, 0.9, 6e4).regime();
        regime.knobs.into_iter().find(|gain| gain.knob == Family::Queues).expect("judged").why
    };
    let seen = "eth0/rx-0 takes far more packets than most queues, maybe as one flow: more queues do not split a flow";
    assert_eq!(why(&[0, 1, 2, 3, 4, 5, 6, 7]), seen);
    assert_eq!(why(&[0, 0, 2, 3, 4, 5, 6, 7]), "several queues share CPU 0: first move one");
}

/// 30 packets/s of the only known interrupt had a price of 31 ms each; 60,000 came by an unknown one.
#[test]
fn packets_of_an_unknown_interrupt_are_counted_by_the_stack() {
    let host =
        Sketch::new(2).device("eth1", &[0]).traffic("eth1", 30.0).device("eth0", &[1]).traffic("eth0", 6e4);
    let host = host.edit("eth0", |nic| nic.rx[0].irqs.clear()).receives(0, 0.93, 6e4);
    let regime = host.regime();
    assert_eq!((regime.cpus[0].cpu.0, regime.cpus[0].packets), (0, 6e4));
    assert_eq!(regime.cpus[0].ns_per_packet.map(f64::round), Some(15_500.0));
}
