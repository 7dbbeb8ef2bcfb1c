//! Where packets come from, where interrupts land, and how much room is left.

use super::{
    adapts, arrivals, candidates, carrier, devices_account, foreign, foreign_nic, headroom, irq_cpus,
    is_counted, is_quiet, loopback_share, may_be_foreign, may_be_lo, packets_without_quiet, queue_packets,
    rarely_interrupts, received,
};
use crate::model::{Fact, IrqRates, Nic};
use crate::sketch::Sketch;
use rxlab_base::units::{CpuId, IrqId};

#[test]
fn interrupts_land_where_the_kernel_says_or_where_they_were_counted() {
    let (mut model, rates) = Sketch::new(4).device("eth0", &[3]).traffic("eth0", 5e3).build();
    let lands = |model: &crate::model::Model| irq_cpus(&model.nics[0].rx[0], model, &rates).to_string();
    assert_eq!(lands(&model), "3");
    model.nics[0].rx[0].irqs[0].effective = Fact::Unsupported;
    model.nics[0].rx[0].irqs[0].affinity = Fact::Known(model.online());
    assert_eq!(lands(&model), "3", "by the counters");
    model.cpus[3].online = false;
    assert_eq!(lands(&model), "", "an offline CPU takes none");
}

/// A busy queue may be polled without interrupts. Of 16 queues of enic one interrupted 20,000 times/s, the others 500 times/s, and each
/// was said to bring a sixteenth: too little for the CPU that the one filled.
#[test]
fn queues_that_rarely_interrupt_bring_little_or_are_polled() {
    let of_third = |third: f64, busy: f64| {
        let host = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 6e4).receives(2, busy, 0.0);
        let (model, mut rates) = host.build();
        for (irq, rate) in rates.irqs.iter_mut().zip([9e3, 6e3, third]) {
            irq.per_cpu.values_mut().for_each(|value| *value = rate);
        }
        let nic = &model.nics[0];
        let is = [rarely_interrupts, is_quiet].map(|is_so| is_so(nic, &nic.rx[2], &rates));
        (is, [1, 2].map(|queue| packets_without_quiet(nic, &nic.rx[queue], &rates)))
    };
    assert_eq!(of_third(300.0, 0.1), ([true, true], [3e4, 0.0]));
    assert_eq!(of_third(300.0, 0.6), ([true, false], [2e4; 2]), "polled");
    assert_eq!(of_third(2e3, 0.1), ([false, false], [2e4; 2]), "moderated");
}

/// Published machines whose drivers do not count by queue: of the vectors of r8125 one alone ever fires, of those of ipqess the
/// second one nearly alone. Three queues were said to share a CPU, and the first one to bring it all packets.
#[test]
fn interrupts_tell_which_uncounted_queue_brings_packets() {
    let host = Sketch::new(4).device("eth0", &[0, 0, 0]).traffic("eth0", 6e4).receives(0, 0.9, 6e4);
    let (model, mut rates) = host.build();
    let nic = &model.nics[0];
    let carries = |rates: &_| carrier(&model, rates, CpuId(0)).map(|(_, queue)| queue.index);
    let packets = |rates: &_| nic.rx.iter().map(|queue| queue_packets(nic, queue, rates)).collect::<Vec<_>>();
    assert_eq!((packets(&rates), carries(&rates)), (vec![2e4; 3], Some(0)));
    for (irq, rate) in rates.irqs.iter_mut().zip([300.0, 12e3, 200.0]) {
        irq.per_cpu.values_mut().for_each(|value| *value = rate);
    }
    assert_eq!((packets(&rates), carries(&rates)), (vec![2e4; 3], Some(1)), "it may be polled");
    let of_queue = |queue: usize| nic.rx[queue].irqs[0].number;
    rates.unfired = [of_queue(1), of_queue(2)].into();
    assert_eq!((packets(&rates), carries(&rates)), (vec![6e4, 0.0, 0.0], Some(0)));
    rates.unfired.insert(of_queue(0));
    assert_eq!(packets(&rates), [2e4; 3], "they come another way");
}

/// irqbalance moved an interrupt, and all packets were said to be its present CPU's.
#[test]
fn packets_of_an_interrupt_that_moved_are_where_it_fired() {
    let (model, mut rates) = Sketch::new(4).device("eth0", &[3]).traffic("eth0", 5e3).build();
    let mut parts = |counted: &[(u32, f64)]| {
        rates.irqs[0].per_cpu = counted.iter().map(|(cpu, rate)| (CpuId(*cpu), *rate)).collect();
        arrivals(&model.nics[0].rx[0], &model, &rates)
            .into_iter()
            .map(|(cpu, part)| (cpu.0, part))
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(&[(2, 300.0), (3, 900.0)]), [(2, 0.25), (3, 0.75)]);
    assert_eq!(parts(&[(2, 900.0)]), [(2, 1.0)], "it moved at the end");
    assert_eq!(parts(&[(2, 30.0), (3, 900.0)]), [(3, 1.0)]);
    assert_eq!(parts(&[]), [(3, 1.0)], "not counted");
}

/// An interface with 40 packets/s, whose interrupt is known, was once said to fill the CPU.
#[test]
fn queues_at_unknown_cpus_count_together() {
    for queues in [1, 12, 16] {
        let cpus = vec![0; queues];
        let host = Sketch::new(32).device("eth0", &[1]).device("eth1", &cpus).traffic("eth0", 40.0);
        let host = host.traffic("eth1", 1.6e5).receives(1, 0.9, 1.5e5);
        let host = host.edit("eth1", |nic| nic.rx.iter_mut().for_each(|queue| queue.irqs.clear()));
        let (model, rates) = host.build();
        let (nic, _) = carrier(&model, &rates, CpuId(1)).expect("eth1, with all of its queues");
        assert_eq!(nic.name.as_str(), "eth1", "{queues} queues");
    }
    let quiet = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 40.0).receives(1, 0.9, 1.5e5);
    let (model, rates) = quiet.build();
    assert!(carrier(&model, &rates, CpuId(1)).is_none(), "the path of the others is not known");
}

#[test]
fn the_interface_with_most_packets_on_the_cpu_brings_its_work() {
    let sketch = Sketch::new(4).device("eth0", &[2, 2]).device("eth1", &[2]);
    let (model, rates) = sketch.traffic("eth0", 9e3).traffic("eth1", 6e3).build();
    let (nic, queue) = carrier(&model, &rates, CpuId(2)).expect("some interface carries it");
    assert_eq!(
        (nic.name.as_str(), queue.index),
        ("eth0", 0),
        "4,500 on each of two queues beat 6,000 on one"
    );
}

#[test]
fn a_queue_without_counts_has_its_part_of_what_is_left() {
    let (model, mut rates) = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 9e3).build();
    let nic = &model.nics[0];
    let packets = |rates: &_| nic.rx.iter().map(|queue| queue_packets(nic, queue, rates)).collect::<Vec<_>>();
    assert_eq!(packets(&rates), [3e3, 3e3, 3e3]);
    rates.nics[0].queues.insert(0, 8e3);
    assert_eq!(packets(&rates), [8e3, 500.0, 500.0]);
    rates.nics[0].queues.insert(1, 2e3);
    assert_eq!(packets(&rates), [8e3, 2e3, 0.0], "queues are read a moment later");
}

#[test]
fn work_of_an_unseen_namespace_has_no_carrier() {
    let (model, rates) = Sketch::new(2).veth("veth0").traffic("veth0", 50.0).receives(0, 0.5, 2e5).build();
    assert_eq!(carrier(&model, &rates, CpuId(0)), None);
}

#[test]
fn loopback_dominates_only_above_half() {
    let with = |lo: f64| {
        let (model, rates) =
            Sketch::new(2).loopback().veth("veth0").traffic("lo", lo).traffic("veth0", 1e4).build();
        loopback_share(&model, &rates)
    };
    assert_eq!((with(0.0), with(9e3)), (None, None));
    assert_eq!(with(3e4), Some(0.75));
    let (model, rates) = Sketch::new(2).loopback().traffic("lo", 90.0).build();
    assert_eq!(loopback_share(&model, &rates), None, "a quiet machine, on which most of little is on lo");
}

/// nginx with its upstream on 127.0.0.1: most packets are on lo, and CPU 2 drowns in those of the
/// network.
#[test]
fn a_busy_loopback_hides_no_device() {
    let on_lo = |sketch: Sketch| {
        let (model, rates) = sketch.loopback().traffic("lo", 3e5).build();
        (may_be_lo(&model, &rates, CpuId(2)), loopback_share(&model, &rates).is_some())
    };
    assert_eq!(on_lo(Sketch::case_a()), (false, false));
    assert_eq!(on_lo(Sketch::case_a().traffic("eth0", 5e3)), (true, true), "5,000 cannot cost so much");
    assert_eq!(on_lo(Sketch::case_a().traffic("eth0", 50.0)), (true, true), "no traffic");
    let even = (0..8).fold(Sketch::case_a().ksoftirqd(2, 0.0), |sketch, cpu| sketch.receives(cpu, 0.3, 4e4));
    assert_eq!(on_lo(even), (true, true), "CPUs without the interrupt receive as much");
    let handed = Sketch::case_a().rps("eth0", "3").receives(2, 0.1, 0.0).receives(3, 0.9, 4.2e4);
    let (model, rates) = handed.loopback().traffic("lo", 3e5).build();
    assert!(!may_be_lo(&model, &rates, CpuId(3)), "RPS brings it there");
}

/// The device was once blamed wherever every CPU has a queue.
#[test]
fn a_queue_on_each_cpu_does_not_hide_lo() {
    let host = |on_lo: f64| {
        let each = Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 6.4e4);
        let each = each.each("0-7", |sketch, cpu| sketch.receives(cpu, 0.03, 8e3));
        let (model, rates) = each.loopback().traffic("lo", 3e5).receives(5, 0.6, 8e3 + on_lo).build();
        may_be_lo(&model, &rates, CpuId(5))
    };
    assert!(host(3e5), "all of it is sent on CPU 5");
    assert!(!host(5e3), "elsewhere");
}

/// The portals of dpaa2 are on the path of no device.
#[test]
fn the_portals_of_a_driver_are_its_interfaces() {
    let is_foreign = |driver: &str, action: &str| {
        let sketch = Sketch::new(2).device("eth0", &[0]).driver("eth0", driver);
        let (model, mut rates) = sketch.build();
        let per_cpu = [(CpuId(1), 5e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(90), action: action.to_owned(), per_cpu });
        foreign(&model, &rates, CpuId(1)).is_some()
    };
    assert!(!is_foreign("nss-dp", "edma_rxdesc") && !is_foreign("nss-dp", "edma_rxdesc_12"));
    assert!(!is_foreign("nss-dp", "nss_queue2"));
    assert!(!is_foreign("fsl_dpaa2_eth", "dpio.3") && !is_foreign("lan966x-switch", "fdma irq"));
    assert!(is_foreign("fsl_dpaa2_eth", "dpio.x") && is_foreign("igb", "dpio.3"));
}

/// r8125 next to NICs of a SoC: each of its four queues takes less than the only queue of another.
#[test]
fn the_carrier_is_of_the_interface_that_brings_most() {
    let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 5e4).device("eth2", &[0, 0, 0, 0]);
    let sketch = sketch.queue_traffic("eth2", &[3.2e4, 3.3e4, 3.2e4, 3.1e4]).receives(0, 0.97, 1.8e5);
    let (model, rates) = sketch.build();
    let found = carrier(&model, &rates, CpuId(0)).map(|(nic, queue)| (nic.name.as_str(), queue.index));
    assert_eq!(found, Some(("eth2", 1)));
}

/// A bridge counts what its members have received: it was said to bring the work, on the CPU that sends to it.
#[test]
fn a_bridge_of_devices_is_no_carrier() {
    let bridge = |lower: &str| {
        let host = Sketch::new(4).device("wan", &[0]).traffic("wan", 6e4).device("lan1", &[0]);
        let host = host.traffic("lan1", 3.5e4).veth("br0").traffic("br0", 6.5e4).receives(0, 0.9, 1.6e5);
        let host =
            ["wan", "lan1"].into_iter().fold(host, |host, nic| host.edit(nic, |nic| nic.rx[0].irqs.clear()));
        let (model, rates) = host
            .edit("br0", |nic| {
                nic.stack.kind = Some("bridge".to_owned());
                nic.stack.lower = vec![lower.parse().expect("a name")];
            })
            .build();
        carrier(&model, &rates, CpuId(0)).map(|(nic, _)| nic.name.to_string())
    };
    assert_eq!(bridge("lan1").as_deref(), Some("wan"));
    assert_eq!(bridge("veth9").as_deref(), Some("br0"), "of containers");
}

/// eth0/rx-0 on CPU 4 was the cause of a CPU that a veth fills, because it is busier.
#[test]
fn a_queue_that_lands_elsewhere_brings_nothing() {
    let host = |edit: fn(Sketch) -> Sketch| {
        let host =
            Sketch::new(8).device("eth0", &[4]).traffic("eth0", 1.5e5).veth("veth0").traffic("veth0", 1e5);
        let (model, rates) = edit(host.receives(4, 0.4, 1.5e5).receives(1, 0.9, 1e5)).build();
        carrier(&model, &rates, CpuId(1)).map(|(nic, _)| nic.name.to_string())
    };
    assert_eq!(host(|host| host).as_deref(), Some("veth0"));
    assert_eq!(host(|host| host.traffic("veth0", 50.0)), None, "some other interface");
    assert_eq!(host(|host| host.rps("eth0", "1")).as_deref(), Some("eth0"), "handed on");
    assert_eq!(host(|host| host.polls(1, 0.2)), None, "or threads poll there: it may be either");
    let signalled = |cpu: u32| {
        let host = Sketch::new(8).device("eth0", &[0]).channels("eth0", &[cpu]).traffic("eth0", 1e5);
        let (model, rates) = host.receives(1, 0.9, 1e5).build();
        carrier(&model, &rates, CpuId(1)).is_some()
    };
    assert!(signalled(1) && !signalled(4), "Hyper-V");
}

/// "These packets come from no interface of this namespace": three brought all of them. One was named where any could be it.
#[test]
fn of_several_interfaces_one_is_the_cause_only_if_the_others_cannot_be() {
    let host = |here: f64| {
        let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 3e4).device("eth1", &[0]);
        let host = host.traffic("eth1", 2.9e4).device("eth2", &[0]).traffic("eth2", 2.8e4);
        let host = ["eth0", "eth1", "eth2"]
            .into_iter()
            .fold(host, |host, nic| host.edit(nic, |nic| nic.rx[0].irqs.clear()));
        let (model, mut rates) = host.receives(0, 0.9, here).build();
        let per_cpu = [(CpuId(0), 1.5e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(40), action: "airoha_eth.0".to_owned(), per_cpu });
        let named = carrier(&model, &rates, CpuId(0)).map(|(nic, _)| nic.name.to_string());
        (named, candidates(&model, &rates, CpuId(0)).len())
    };
    assert_eq!(host(8.7e4), (Some("eth0".to_owned()), 3), "the others have 57,000");
    assert_eq!(host(5e4), (None, 3), "they may be those of eth1 and eth2");
    assert_eq!(host(1.9e5), (None, 0), "more than twice as many");
}

/// Field machine ath11k-ipq8074: the radio's packets were those of a port of the switch, whose interrupt is on CPU 0.
#[test]
fn the_portals_of_a_driver_tell_where_its_interfaces_receive() {
    let host = Sketch::new(4).device("lan1", &[0]).driver("lan1", "nss-dp").traffic("lan1", 4e4);
    let host = host.device("wlan0", &[1]).driver("wlan0", "ath11k").traffic("wlan0", 3.8e4);
    let host =
        ["lan1", "wlan0"].into_iter().fold(host, |host, nic| host.edit(nic, |nic| nic.rx[0].irqs.clear()));
    let (model, mut rates) = host.receives(0, 0.3, 4e4).receives(1, 0.9, 3.8e4).build();
    let named = |rates: &_, cpu| carrier(&model, rates, CpuId(cpu)).map(|(nic, _)| nic.name.to_string());
    assert_eq!((named(&rates, 0), named(&rates, 1)), (None, None), "either of them");
    let per_cpu = [(CpuId(0), 7e3)].into();
    rates.irqs.push(IrqRates { irq: IrqId(32), action: "edma_rxdesc".to_owned(), per_cpu });
    assert_eq!((named(&rates, 0).as_deref(), named(&rates, 1).as_deref()), (Some("lan1"), Some("wlan0")));
}

/// netvsc_get_stats64 adds the packets of the virtual function: 182,000 packets/s were 364,000.
#[test]
fn a_paravirtual_device_counts_what_its_virtual_function_receives() {
    let host = Sketch::new(2).device("eth0", &[0]).traffic("eth0", 1.82e5).device("vf0", &[1]);
    let (mut model, rates) = host.traffic("vf0", 1.82e5).build();
    assert_eq!(received(&model, &rates), 3.64e5);
    model.nics[0].stack.lower = vec![model.nics[1].name.clone()];
    assert_eq!(received(&model, &rates), 1.82e5);
}

/// Every Raspberry Pi 4: bcmgenet has two interrupts called eth0, and the smaller wlan0 got the blame.
#[test]
fn interrupts_that_all_land_on_one_cpu_need_not_be_told_apart() {
    let host = |second: u32, here: f64| {
        let host =
            Sketch::new(4).device("eth0", &[0, second]).driver("eth0", "bcmgenet").traffic("eth0", 3e4);
        let host = host.device("wlan0", &[0]).traffic("wlan0", 7e3).receives(0, 0.9, here);
        let two_of_one_name = |nic: &mut Nic| {
            nic.other_irqs = nic.rx.iter_mut().flat_map(|queue| std::mem::take(&mut queue.irqs)).collect();
            nic.other_irqs.iter_mut().for_each(|irq| irq.action = "eth0".to_owned());
            nic.rx.truncate(1);
        };
        let (model, rates) = host.edit("eth0", two_of_one_name).build();
        carrier(&model, &rates, CpuId(0)).map(|(nic, _)| nic.name.to_string())
    };
    assert_eq!(host(0, 3.7e4).as_deref(), Some("eth0"));
    assert_eq!(host(1, 3.7e4).as_deref(), Some("eth0"), "wlan0 has too few");
    assert_eq!(host(1, 8e3).as_deref(), Some("wlan0"), "most are its own");
}

/// Interrupts of disks are no interface's either.
#[test]
fn a_nic_elsewhere_has_the_name_of_a_queue() {
    let named = |action: &str| {
        let (model, mut rates) = Sketch::new(2).device("eth0", &[0]).build();
        let per_cpu = [(CpuId(1), 4e3)].into();
        rates.irqs.push(IrqRates { irq: IrqId(99), action: action.to_owned(), per_cpu });
        (foreign(&model, &rates, CpuId(1)).is_some(), foreign_nic(&model, &rates, CpuId(1)).is_some())
    };
    assert_eq!((named("nvme0q1"), named("virtio0-request")), ((true, false), (true, false)));
    assert_eq!((named("ahci, eth1-TxRx-0"), named("virtio9-input.0")), ((true, true), (true, true)));
}

/// None of ten queues has a tenth of the packets that all their masks bring there.
#[test]
fn queues_with_one_mask_bring_their_packets_together() {
    let sketch = Sketch::new(4).device("eth0", &[0; 12]).traffic("eth0", 1.2e5).rps("eth0", "3");
    let (model, rates) = sketch.receives(3, 0.1, 1.21e5).build();
    let found = carrier(&model, &rates, CpuId(3)).map(|(nic, queue)| (nic.name.as_str(), queue.index));
    assert_eq!(found, Some(("eth0", 0)));
}

/// A container without /proc/interrupts, next to one whose packets keep a CPU busy.
#[test]
fn packets_that_no_interface_here_receives_may_be_of_another_namespace() {
    let may = |packets: f64, interrupts: Fact<()>| {
        let sketch = Sketch::new(2).device("eth0", &[1]).traffic("eth0", packets).receives(0, 0.9, 4e5);
        let (mut model, rates) = sketch.build();
        model.interrupts = interrupts;
        may_be_foreign(&model, &rates, CpuId(0))
    };
    assert!(may(3e4, Fact::Broken("empty".to_owned())));
    assert!(!may(3e5, Fact::Broken("empty".to_owned())));
    assert!(!may(3e4, Fact::Known(())), "no unknown interrupt fires");
}

/// mvneta requests the interrupts of all its interfaces by its own name.
#[test]
fn an_interrupt_with_the_name_of_a_driver_is_its_interfaces() {
    let (model, mut rates) = Sketch::new(2).device("eth0", &[0]).driver("eth0", "mvneta").build();
    let per_cpu = [(CpuId(1), 5e4)].into();
    rates.irqs.push(IrqRates { irq: IrqId(27), action: "mvneta".to_owned(), per_cpu });
    assert!(foreign(&model, &rates, CpuId(1)).is_none());
}

#[test]
fn devices_that_account_for_all_packets() {
    let accounts = |received: f64, lo: f64| {
        let sketch = Sketch::new(2).device("eth0", &[0]).traffic("eth0", received).loopback();
        let (model, rates) = sketch.traffic("lo", lo).receives(1, 0.9, 1e5).build();
        devices_account(&model, &rates)
    };
    assert!(accounts(1e5, 0.0) && accounts(6e4, 4e4) && !accounts(6e4, 0.0));
    // A home router: the interrupt of its own switch was said to bring packets of another interface.
    let again = |kind: &str| {
        let sketch = Sketch::new(2).device("eth0", &[0]).traffic("eth0", 6e4).veth("up0").traffic("up0", 4e4);
        let (model, rates) = sketch
            .receives(1, 0.9, 1e5)
            .edit("up0", |nic| {
                nic.stack.kind = Some(kind.to_owned());
                nic.stack.lower =
                    if kind == "bridge" { vec!["eth0".parse().expect("a name")] } else { Vec::new() };
            })
            .build();
        devices_account(&model, &rates)
    };
    assert!(again("bridge") && again("ppp") && !again("veth"));
}

/// Idle isolated CPUs were once room for twice as many packets.
#[test]
fn only_cpus_that_may_receive_have_room() {
    let machine = |sketch: Sketch| {
        let (model, rates) = sketch.receives(1, 0.9, 1e5).receives(0, 0.1, 1e4).build();
        headroom(&model, &rates).machine
    };
    assert!((machine(Sketch::new(8).isolate("2-7")) - 2.0).abs() < 0.1);
    assert!(machine(Sketch::new(8)) > 4.0);
    let full = (4..8).fold(Sketch::new(8).isolate("2-7"), |sketch, cpu| sketch.works(cpu, 1.0));
    assert!((machine(full) - 1.6).abs() < 0.1, "the work of isolated CPUs may be for packets");
}

#[test]
fn headroom_of_field_case_a() {
    let (model, rates) = Sketch::case_a().build();
    let room = headroom(&model, &rates);
    assert!((room.hottest - 1.02).abs() < 0.01, "{room:?}");
    assert!((1.2..1.3).contains(&room.machine), "{room:?}");
    let (model, mut rates) = Sketch::new(8).receives(2, 0.6, 4e4).build();
    let room = headroom(&model, &rates);
    assert!(room.machine > 4.0 * room.hottest, "one CPU holds it back");
    rates.cpus[2].irq = 0.3;
    assert!((headroom(&model, &rates).hottest - 1.0 / 0.9).abs() < 1e-9, "interrupts are receive work");
}

#[test]
fn drivers_that_adapt_by_a_number() {
    let host = |driver: &str, usecs, adaptive| {
        let sketch = Sketch::new(2).device("eth0", &[0]).driver("eth0", driver);
        adapts(&sketch.moderation("eth0", usecs, adaptive).build().0.nics[0])
    };
    assert!(host("ixgbe", 1, false) && host("e1000e", 3, false) && host("ena", 50, true));
    assert!(!host("ixgbe", 3, false) && !host("ixgbevf", 3, false), "3 us");
    assert!(!host("ixgbe", 50, false) && !host("ixgbe", 0, false) && !host("mlx5_core", 3, false));
}

/// The counters of a switch's port have what the switch forwards: 4,900,000 packets/s were said to go through a CPU with 3,000.
#[test]
fn what_a_switch_forwards_comes_to_no_cpu() {
    let sketch = Sketch::new(4).device("swp1", &[2]).traffic("swp1", 4.9e6).receives(2, 0.06, 3e3);
    let (model, rates) = sketch.nic_rates("swp1", |nic| nic.counts_forwarded = true).build();
    let (nic, queue) = (&model.nics[0], &model.nics[0].rx[0]);
    assert_eq!(queue_packets(nic, queue, &rates), 0.0);
    assert!(!is_counted(nic, queue, &rates) && carrier(&model, &rates, CpuId(2)).is_none());
}
