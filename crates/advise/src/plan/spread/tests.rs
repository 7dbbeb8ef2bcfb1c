//! The planner on the published cases and on random machines.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{Spread, Variable, readers, spread};
use crate::plan::policy::{Options, Policy};
use rxlab_base::units::{CpuId, CpuMask, IrqId, Need};
use rxlab_path::model::{Fact, IrqRates, Model, Nic, RxQueue};
use rxlab_path::sketch::{Sketch, cpus};
use rxlab_setting::{Plan, Target, simulation};

fn spread_by(sketch: Sketch) -> Spread {
    let (model, rates) = sketch.build();
    spread(&model, &rates, None)
}

fn texts(plan: &Plan) -> Vec<String> {
    plan.settings.iter().map(|setting| setting.set.to_string()).collect()
}

fn plan(spread: &Spread, name: &str) -> Vec<String> {
    let found = spread.proposals.iter().find(|proposal| proposal.plan.name == name);
    found.map(|proposal| texts(&proposal.plan)).unwrap_or_default()
}

fn simulate(model: &mut Model, plan: &Plan) {
    plan.settings.iter().for_each(|planned| simulation::simulate(model, &planned.set));
}

#[test]
fn threads_that_poll_read_no_sockets() {
    let (model, rates) = Sketch::new(4).device("eth0", &[0]).works(2, 0.5).polls(3, 0.9).build();
    let readers = readers(&model, &rates, &model.nics[0]).expect("a program runs");
    assert!(readers[2].1 > 0.9 && readers[3].1 < 0.05, "{readers:?}");
}

#[test]
fn field_case_a_gets_one_plan_a_variable_and_both() {
    let spread = spread_by(Sketch::case_a());
    assert_eq!(plan(&spread, "rps"), ["rps eth0/rx-0 = 0-1,3-7"]);
    assert_eq!(plan(&spread, "rfs"), ["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"]);
    assert_eq!(plan(&spread, "rps+rfs").len(), 3);
    let rps = &spread.proposals[0];
    assert_eq!(rps.plan.predicted()[0], "CPU 2: 98 -> 26 to 59 %, all CPUs +2 to +3 %");
    assert_eq!(rps.plan.host.as_deref(), Some("sketch"));
    assert_eq!(rps.plan.settings[0].device, Some(rxlab_path::model::DeviceAddress("pci:eth0".into())));
}

/// Without the other thread of the interrupt's core it once was so small that its CPUs were hotter than any had been.
#[test]
fn a_mask_in_use_becomes_no_smaller_than_its_work_allows() {
    let host = |mask: &str, hot, others| {
        let sketch = Sketch::new(4).smt().device("eth0", &[0]).traffic("eth0", 1.2e5).rps("eth0", mask);
        spread_by(sketch.receives(0, hot, 3e4).all_receive("1-3", others, 3e4))
    };
    assert_eq!(plan(&host("0-3", 0.92, 0.55), "rps"), ["rps eth0/rx-0 = 1-3"]);
    assert_eq!(plan(&host("1-3", 0.62, 0.75), "rps"), [""; 0], "the next plan");
    assert_eq!(plan(&host("0-3", 0.42, 0.1), "rps"), ["rps eth0/rx-0 = 1,3"], "they have time");
}

/// Programs that may run nowhere else filled the CPUs that packets were handed to.
#[test]
fn no_packets_go_to_cpus_that_programs_fill() {
    let host = |nodes| {
        let sketch = Sketch::new(8).nodes(nodes).device("eth0", &[0, 1]).queue_traffic("eth0", &[7e4; 2]);
        let host = sketch.all_receive("0-1", 0.72, 7e4).all_work("2-3", 0.96);
        spread_by(if nodes == 1 { host.all_work("4-7", 0.96) } else { host })
    };
    assert_eq!(plan(&host(2), "rps"), ["rps eth0/rx-0 = 4-5", "rps eth0/rx-1 = 6-7"]);
    assert_eq!(plan(&host(1), "rps"), [""; 0]);
}

/// The other threads of a hot core were left out for a CPU that a program fills, and that one then too.
#[test]
fn a_full_cpu_is_no_reason_to_leave_out_the_own_core() {
    let host = |other: f64| {
        let sketch = Sketch::new(4).smt().device("eth0", &[0]).traffic("eth0", 3.5e5);
        spread_by(sketch.receives(0, 0.7, 3.5e5).works(1, other).works(3, other))
    };
    assert_eq!(plan(&host(0.97), "rps"), ["rps eth0/rx-0 = 2"]);
    assert_eq!(plan(&host(0.1), "rps"), ["rps eth0/rx-0 = 1,3"], "other cores have time");
}

/// A mask that the next plan switched off was left in use: what another queue hands on already is not known.
#[test]
fn masks_next_to_one_that_cannot_be_read_stay() {
    let host = |first: Fact<CpuMask>| {
        let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[7e4; 2]);
        let sketch = sketch.all_receive("0-1", 0.72, 7e4).edit("eth0", |nic| nic.rx[0].rps_cpus = first);
        spread_by(sketch)
    };
    assert_eq!(plan(&host(Fact::Known(cpus(""))), "rps").len(), 2);
    let hidden = host(Fact::Denied(Need::Root));
    let reasons: Vec<String> = hidden.reasons.iter().map(ToString::to_string).collect();
    assert_eq!(
        (hidden.proposals, reasons),
        (Vec::new(), vec!["rps: a mask of eth0 cannot be read".to_owned()])
    );
}

/// Where packets are not counted by CPU, one plan said that an interface is idle, and the next one gave it a mask.
#[test]
fn an_idle_interface_is_one_although_no_cpu_counts_packets() {
    let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[1]).traffic("eth0", 9e4);
    let (model, rates) = sketch.receives(0, 0.9, 0.0).measured(|rates| rates.uncounted = true).build();
    let reasons = spread(&model, &rates, Some(&"eth1".parse().expect("a name"))).reasons;
    assert_eq!(reasons[0].text(), "eth1 receives 10 packets/s of 90,010: too few for RPS or RFS");
}

/// The doctor said that no program reads what is forwarded, and `rxlab plan` switched RFS on.
#[test]
fn what_no_program_has_time_to_read_gets_no_rfs() {
    let host = |sent: f64, user: f64| {
        let sketch = Sketch::new(5).device("eth0", &[0, 0, 0, 0]).queue_traffic("eth0", &[4e4; 4]);
        let sketch = sketch.all_work("1-4", user);
        let sketch = sketch.nic_rates("eth0", |nic| nic.tx_packets = sent);
        let (model, rates) = sketch.receives(0, 0.97, 1.6e5).build();
        let plan = Policy::Spread.plan(&model, &rates, &Options::default(), None).plan;
        texts(&plan).iter().any(|set| set.starts_with("rfs"))
    };
    assert_eq!([host(0.0, 0.0), host(1.5e5, 0.0)], [true, false]);
    // Pinned readers that are busy, published: no time is left where sockets are read.
    assert_eq!([host(0.0, 0.5), host(0.0, 0.95)], [true, false]);
}

/// RPS counted as redundant while one CPU took all packets, as equal parts of them cover every CPU.
#[test]
fn queues_that_are_not_counted_do_not_cover_every_cpu_by_guess() {
    let host = || {
        let sketch = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 4e4).receives(1, 0.95, 4e4);
        sketch.measured(|rates| {
            for (irq, rate) in rates.irqs.iter_mut().zip([300.0, 15e3, 300.0, 300.0]) {
                irq.per_cpu.values_mut().for_each(|value| *value = rate);
            }
        })
    };
    let why = "rps: eth0 counts no packets by queue, and its interrupts differ too much to tell which of its queues to hand on";
    assert_eq!(spread_by(host()).reasons[0].to_string(), why);
    // Its mask is one for all queues: there is nothing to tell apart.
    let why = "rps: eth0/rx-0 has the mask of all queues of eth0, and their interrupts land on every CPU";
    assert_eq!(spread_by(host().driver("eth0", "am65-cpsw-nuss")).reasons[0].to_string(), why);
}

/// The doctor says to take CPU 0 out of the mask, and the plan said that the mask needs no change.
#[test]
fn a_mask_with_the_cpu_of_all_interrupts_of_a_device_is_replaced() {
    let host = |mask: &str| {
        let host = Sketch::new(4).device("eth0", &[0, 0]).driver("eth0", "bcmgenet").traffic("eth0", 4e4);
        let two_of_one_name = |nic: &mut Nic| {
            nic.other_irqs = nic.rx.iter_mut().flat_map(|queue| std::mem::take(&mut queue.irqs)).collect();
            nic.other_irqs.iter_mut().for_each(|irq| irq.action = "eth0".to_owned());
            nic.rx.truncate(1);
        };
        host.receives(0, 0.9, 4e4).edit("eth0", two_of_one_name).rps("eth0", mask)
    };
    assert_eq!(plan(&spread_by(host("0-3")), "rps"), ["rps eth0/rx-0 = 1-3"]);
    assert_eq!(plan(&spread_by(host("1-3")), "rps"), [""; 0]);
}

/// A gain was predicted for what may be one flow, and the doctor alone did without.
#[test]
fn nothing_is_predicted_of_what_may_be_one_flow() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[4e3, 1.6e5, 4e3, 4e3]);
    let (model, rates) = sketch.receives(1, 0.96, 1.6e5).build();
    let options = Options::default();
    let planned = Policy::Spread.plan(&model, &rates, &options, None).plan;
    assert!(!planned.settings.is_empty() && planned.prediction.is_none(), "{planned:?}");
    let note = "no prediction: eth0/rx-1 takes far more packets than most queues, maybe as one flow, which stays on one CPU";
    assert!(planned.notes.contains(&note.to_owned()), "{:?}", planned.notes);
}

/// It was once replaced by a guess, and a CPU was hotter than any before.
#[test]
fn a_mask_in_use_around_an_unknown_interrupt_stays() {
    let host = |mask: &str| {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 8e4).receives(1, 0.9, 8e4);
        spread_by(sketch.rps("eth0", mask).edit("eth0", |nic| nic.rx[0].irqs.clear()))
    };
    assert_eq!(plan(&host(""), "rps"), ["rps eth0/rx-0 = 0,2-3"]);
    assert_eq!(plan(&host("1"), "rps"), [""; 0]);
}

/// The CPU of the second interrupt was in the mask: doctor objected, and the next plan had nothing to change.
/// The paravirtual device counts the packets of the virtual function below it, and was taken for what keeps the CPU busy.
#[test]
fn an_unknown_interrupt_is_guessed_for_the_virtual_function() {
    let host = Sketch::new(2).device("eth0", &[0]).channels("eth0", &[0]).device("eth1", &[0]);
    let host = host.traffic("eth0", 1e5).traffic("eth1", 1e5).receives(0, 0.9, 1e5);
    let host = host.edit("eth1", |nic| nic.rx[0].irqs.clear());
    let host = host.edit("eth0", |nic| nic.stack.lower = vec!["eth1".parse().expect("a name")]);
    assert_eq!(plan(&spread_by(host), "rps"), ["rps eth1/rx-0 = 1"]);
}

/// An interface was taken for what fills a CPU, although the interrupts that are known to land there explain all its packets.
#[test]
fn unknown_interrupts_bring_what_no_known_one_explains() {
    let rps = |known: f64| {
        let host = Sketch::new(4).device("eth0", &[3]).device("eth1", &[0]).receives(3, 0.9, 1e5);
        let host = host.traffic("eth0", known).traffic("eth1", 2e5);
        let (model, rates) = host.edit("eth1", |nic| nic.rx[0].irqs.clear()).build();
        plan(&spread(&model, &rates, Some(&"eth1".parse().expect("a name"))), "rps")
    };
    assert_eq!(rps(1e5), [""; 0]);
    assert_eq!(rps(1e3), ["rps eth1/rx-0 = 0-2"]);
}

/// One of two queues got a mask, and the other one brought the packets.
#[test]
fn nothing_is_guessed_while_a_mask_cannot_be_read() {
    let rps = |mask: Fact<CpuMask>| {
        let host = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 1e5).receives(0, 0.9, 1e5);
        let host = host.edit("eth0", |nic| {
            nic.rx.iter_mut().for_each(|queue| queue.irqs.clear());
            nic.rx[0].rps_cpus = mask;
        });
        plan(&spread_by(host), "rps")
    };
    assert_eq!(rps(Fact::Known(CpuMask::new())), ["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 1"]);
    assert_eq!(rps(Fact::Unsupported), [""; 0]);
}

#[test]
fn a_mask_has_no_cpu_of_any_interrupt_of_its_queue() {
    for mask in ["", "1-3"] {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 8e4).receives(0, 0.64, 8e4);
        let sketch = sketch.rps("eth0", mask).edit("eth0", |nic| {
            let second = nic.rx.remove(1);
            nic.rx[0].irqs.extend(second.irqs);
        });
        assert_eq!(plan(&spread_by(sketch), "rps"), ["rps eth0/rx-0 = 2-3"], "instead of `{mask}`");
    }
}

/// rx-0's mask and table apply to all packets: it has no CPU of any queue's interrupt, and the whole table.
#[test]
fn one_mask_serves_all_queues_of_a_driver_that_does_not_tell_them_apart() {
    let host = |driver: &str, rates: [f64; 2]| {
        let sketch = Sketch::new(8).device("eth0", &[0, 2]).traffic("eth0", rates[0] + rates[1]);
        let sketch = sketch.receives(0, rates[0] / 1e5, rates[0]).receives(2, rates[1] / 1e5, rates[1]);
        sketch.edit("eth0", |nic| nic.driver = Some(driver.to_owned()))
    };
    let apart = spread_by(host("igb", [4e4, 6e4]));
    assert_eq!(plan(&apart, "rps").len(), 2);
    for rates in [[4e4, 6e4], [1e5, 0.0], [0.0, 1e5]] {
        let one = spread_by(host("tg3", rates));
        assert_eq!(plan(&one, "rps"), ["rps eth0/rx-0 = 1,3-7"], "{rates:?}");
        assert_eq!(plan(&one, "rfs"), ["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"], "{rates:?}");
    }
}

#[test]
fn a_mask_in_use_leaves_its_interrupts_cpu_and_those_of_others() {
    let home = rxlab_base::units::CpuId(0);
    let narrowed = |mask: &str| super::narrowed(&cpus(mask), home, &[&home.into(), &cpus("2")]);
    assert_eq!(narrowed("0"), Some(cpus("")), "it moved nothing");
    assert_eq!(narrowed("0-1"), Some(cpus("1")));
    assert_eq!(narrowed("1-2"), Some(cpus("1")), "CPU 2 goes to another queue");
    assert_eq!((narrowed("1"), narrowed("2")), (None, None), "they have no other");
    // RK3588: slow cores stayed, and one that takes another interface's interrupt, while the fast idle ones left.
    let avoided = [&cpus("6"), &cpus("4"), &cpus("0-3"), &cpus("5,7")];
    assert_eq!(super::narrowed(&cpus("1-7"), CpuId(6), &avoided), Some(cpus("5,7")));
    // One mask for the queues of CPUs 0, 1 and 3, as of xen-netfront: CPU 0 is the busiest of them.
    let of_several = |mask: &str| super::narrowed(&cpus(mask), home, &[&cpus("0-1,3")]);
    assert_eq!(of_several("1-5"), Some(cpus("2,4-5")));
    assert_eq!(
        (of_several("0-1"), of_several("1,3")),
        (Some(cpus("1")), None),
        "nowhere else to hand them to"
    );
}

#[test]
fn field_case_c_stays_in_the_node_without_the_interrupt() {
    let one_queue = Sketch::new(32).nodes(2).device("eth0", &[16]).receives(16, 0.97, 1e5);
    let one_queue = one_queue.traffic("eth0", 1e5);
    assert_eq!(plan(&spread_by(one_queue), "rps"), ["rps eth0/rx-0 = 17-31"]);
    let two_queues = Sketch::new(32).nodes(2).device("eth0", &[0, 16]);
    assert_eq!(plan(&spread_by(two_queues), "rps"), ["rps eth0/rx-0 = 1-15", "rps eth0/rx-1 = 17-31"]);
}

/// The masks of quiet queues would have been left with the CPU of the hot one: 197 % of its time.
#[test]
fn masks_that_make_a_cpu_hotter_are_no_plan() {
    let homes: Vec<u32> = (0..8).collect();
    let packets = homes.iter().map(|cpu| if *cpu == 6 { 3e5 } else { 4.5e4 }).collect::<Vec<_>>();
    let sketch = Sketch::new(8).device("eth0", &homes).queue_traffic("eth0", &packets);
    let sketch = homes
        .iter()
        .fold(sketch, |host, cpu| host.receives(*cpu, if *cpu == 6 { 0.67 } else { 0.45 }, 1.1e5));
    let host = sketch.edit("eth0", |nic| {
        for (queue, own) in nic.rx.iter_mut().zip(0..) {
            queue.rps_cpus = Fact::Known(cpus("0-7").difference(&CpuId(own).into()));
        }
    });
    let spread = spread_by(host);
    assert_eq!(plan(&spread, "rps"), [""; 0]);
    assert!(spread.reasons.iter().any(|why| why.text().starts_with("left alone: CPU 6 would")), "{spread:?}");
}

/// Case C with a second interface: no mask holds the interrupt's CPU of either.
#[test]
fn busy_interfaces_keep_off_each_other() {
    let sketch = Sketch::new(32).nodes(2).device("eth0", &[0, 16]).device("eth1", &[8, 24]);
    let spread = spread_by(sketch.traffic("eth0", 2e5).traffic("eth1", 1e5));
    assert_eq!(plan(&spread, "rps"), ["rps eth0/rx-0 = 1-7,9-15", "rps eth0/rx-1 = 17-23,25-31"]);
}

#[test]
fn field_case_d_sizes_and_disjoint_masks() {
    let irqs: Vec<u32> = (0..16).collect();
    let spread = spread_by(Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3e6));
    let rps = plan(&spread, "rps");
    assert_eq!((rps[0].as_str(), rps[15].as_str()), ("rps eth0/rx-0 = 16-22", "rps eth0/rx-15 = 121-127"));
    assert_eq!(plan(&spread, "rfs")[1], "rfs eth0/rx-0 = 2048");
}

#[test]
fn hyper_threads_are_left_out_at_high_rates_only() {
    let host =
        |softirq| Sketch::new(8).smt().device("eth0", &[2]).traffic("eth0", 1e4).receives(2, softirq, 1e4);
    assert_eq!(plan(&spread_by(host(0.1)), "rps"), ["rps eth0/rx-0 = 0-1,3-7"]);
    assert_eq!(plan(&spread_by(host(0.9)), "rps"), ["rps eth0/rx-0 = 0-1,3-5,7"]);
    let two = Sketch::new(2).smt().device("eth0", &[0]).traffic("eth0", 1e4);
    let two = spread_by(two.receives(0, 0.9, 1e4));
    assert_eq!(plan(&two, "rps"), ["rps eth0/rx-0 = 1"], "when others remain");
}

#[test]
fn a_veth_leaves_out_the_cpu_that_receives_now_and_then_stays() {
    let (mut model, rates) = Sketch::new(2).veth("veth0").traffic("veth0", 3e5).receives(0, 0.4, 3e5).build();
    let first = spread(&model, &rates, None);
    assert_eq!(plan(&first, "rps"), ["rps veth0/rx-0 = 1"]);
    simulate(&mut model, &first.proposals[0].plan);
    // With RPS active the other CPU receives: changing the mask would gain nothing.
    let (_, moved) = Sketch::new(2).veth("veth0").traffic("veth0", 3e5).receives(1, 0.6, 3e5).build();
    assert_eq!(plan(&spread(&model, &moved, None), "rps"), Vec::<String>::new());
}

#[test]
fn refusals_say_why() {
    let reason = |sketch| {
        let spread = spread_by(sketch);
        assert_eq!(spread.proposals, []);
        spread.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let four_on_four = Sketch::new(4).device("eth0", &[0, 1, 2, 3]);
    assert_eq!(reason(four_on_four), "eth0 has 4 RX queues for 4 CPUs: RPS is redundant");
    let four_on_one = spread_by(Sketch::new(4).device("eth0", &[0, 0, 0, 0]));
    let masks: Vec<String> = (0..4).map(|queue| format!("rps eth0/rx-{queue} = 1-3")).collect();
    assert_eq!(plan(&four_on_one, "rps"), masks, "as many queues as CPUs, and all on one");
    let four = |nic: &mut Nic| nic.rx = (0..4).map(|index| RxQueue { index, ..nic.rx[0].clone() }).collect();
    let veth = Sketch::new(2).veth("veth0").traffic("veth0", 3e5).receives(0, 0.9, 3e5).edit("veth0", four);
    let masks: Vec<String> = (0..4).map(|queue| format!("rps veth0/rx-{queue} = 1")).collect();
    assert_eq!(plan(&spread_by(veth), "rps"), masks, "its queues are received where packets are sent");
    assert!(reason(Sketch::new(1).device("eth0", &[0])).contains("no second CPU"));
    assert!(
        reason(Sketch::new(4).loopback().traffic("lo", 1e6)).contains("no interface other than lo receives")
    );
    let (model, rates) = Sketch::new(4).loopback().build();
    let named =
        |name: &str| spread(&model, &rates, Some(&name.parse().expect("a name"))).reasons[0].to_string();
    assert!(named("lo").contains("steering it is refused"));
    assert_eq!(named("eth7"), "no interface eth7");
}

/// A queue without a part once kept handing packets to the CPU of its own interrupt.
#[test]
fn a_mask_that_stays_loses_the_cpu_of_the_interrupt() {
    let host = |mask| Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 3e3).rps_of("eth0", 0, mask);
    assert_eq!(plan(&spread_by(host("0-1")), "rps"), ["rps eth0/rx-0 = 1"]);
    assert_eq!(plan(&spread_by(host("1")), "rps"), [""; 0]);
    assert_eq!(plan(&spread_by(host("0")), "rps"), ["rps eth0/rx-0 = off"], "it moves nothing");
}

/// Six interrupts' CPUs would hand their work to the two that are left.
#[test]
fn work_of_many_cpus_is_not_crowded_onto_few() {
    let spread = spread_by(Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5]));
    assert_eq!(plan(&spread, "rps"), Vec::<String>::new());
    let why = "no masks for the queues of eth0: the CPUs of node 0 except those of interrupts are fewer than those that hand \
               packets on";
    assert_eq!(spread.reasons, [Variable::Rps.because(why.to_owned())]);
}

/// "The queues are quiet, or too few CPUs have room": 42,000 packets/s and six idle CPUs.
#[test]
fn a_guess_for_a_cool_cpu_is_refused_as_such() {
    let sketch = Sketch::new(8).device("wlan0", &[3]).traffic("wlan0", 4.2e4).receives(3, 0.35, 2.2e4);
    let spread = spread_by(sketch.edit("wlan0", |nic| nic.rx[0].irqs.clear()));
    let why = "the interrupts of wlan0 are unknown, and no CPU receives for 50 % of its time: below that a guess is \
               not worth a trial";
    assert_eq!(spread.reasons, [Variable::Rps.because(why.to_owned())]);
}

/// 82599 with 40 queues, of which RSS reaches those of one node only.
#[test]
fn where_a_node_is_full_another_one_helps() {
    let packets = [9e4, 9e4, 9e4, 9e4, 20.0, 20.0, 20.0, 20.0];
    let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).traffic("eth0", 3.6e5);
    let sketch = sketch.queue_traffic("eth0", &packets).on_node("eth0", 0);
    let sketch = sketch.each("0-3", |sketch, cpu| sketch.receives(cpu, 0.78, 9e4));
    let expected = [(0, 4), (1, 5), (2, 6), (3, 7)].map(|(rx, cpu)| format!("rps eth0/rx-{rx} = {cpu}"));
    assert_eq!(plan(&spread_by(sketch), "rps"), expected);
}

/// IPQ8074 (Irqbalance/irqbalance#258) by a driver without a row: nothing says that `edma_rxdesc_12` is an interrupt of eth0, but
/// no other interface can have brought the packets.
#[test]
fn unknown_interrupts_are_ours_where_our_packets_are_all() {
    let host = |packets| {
        let sketch = Sketch::new(4).device("eth0", &[0, 0]).traffic("eth0", packets).receives(0, 0.95, 1.4e5);
        let sketch = sketch.edit("eth0", |nic| nic.rx.iter_mut().for_each(|queue| queue.irqs.clear()));
        sketch.measured(|rates| {
            let per_cpu = [(CpuId(0), 6e4)].into();
            rates.irqs = vec![IrqRates { irq: IrqId(20), action: "edma_rxdesc_12".to_owned(), per_cpu }];
        })
    };
    assert_eq!(plan(&spread_by(host(1.4e5)), "rps"), ["rps eth0/rx-0 = 1-3", "rps eth0/rx-1 = 1-3"]);
    let unproven = spread_by(host(4e4));
    assert_eq!(plan(&unproven, "rps"), [""; 0]);
    let why = "the interrupts of eth0 are unknown, and interrupt 20 (edma_rxdesc_12) may bring CPU 0 packets of another \
               interface";
    assert_eq!(unproven.reasons, [Variable::Rps.because(why.to_owned())]);
}

/// Which CPU receives most then depends on the mask: the next plan left out another one.
#[test]
fn a_mask_of_all_cpus_stays_where_no_interrupt_is_known() {
    let host = |mask| {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 4e4).receives(2, 0.6, 4e4);
        sketch.rps("eth0", mask).edit("eth0", |nic| nic.rx[0].irqs.clear())
    };
    assert_eq!(plan(&spread_by(host("")), "rps"), ["rps eth0/rx-0 = 0-1,3"]);
    assert_eq!(plan(&spread_by(host("0-3")), "rps"), [""; 0]);
    assert_eq!(plan(&spread_by(host("0-1")), "rps"), [""; 0], "nothing says that more are better");
}

/// RPS was planned for a bridge with 800 of the machine's 31,000 packets/s.
#[test]
fn an_idle_interface_of_a_busy_machine_gets_nothing() {
    let host = |own: f64| {
        let spread = spread_by(Sketch::new(2).veth("br0").traffic("br0", own).receives(1, 0.4, 3.1e4));
        (plan(&spread, "rps"), spread.reasons.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(host(8e3).0, ["rps br0/rx-0 = 0"]);
    let (masks, reasons) = host(800.0);
    assert_eq!(masks, [""; 0]);
    assert!(reasons[0].starts_with("br0 receives 800 packets/s of 31,0"), "{reasons:?}");
}

/// The CPU of another busy interface was filled with packets of this one.
#[test]
fn busy_cpus_of_other_interfaces_take_nothing() {
    let host = |packets: f64, time| {
        let sketch = Sketch::new(2).device("eth0", &[0]).device("eth1", &[1]);
        let sketch = sketch.traffic("eth0", 8e4).traffic("eth1", packets);
        sketch.receives(0, 0.45, 8e4).receives(1, time, packets)
    };
    assert_eq!(plan(&spread_by(host(7e4, 0.4)), "rps"), [""; 0]);
    assert_eq!(plan(&spread_by(host(4e3, 0.02)), "rps"), ["rps eth0/rx-0 = 1"], "there is room");
}

/// Fewer CPUs won in field case C: a mask inside the domain was chosen by hand, and stays until it drowns.
#[test]
fn a_hand_made_mask_is_left_alone_until_it_drowns() {
    let host = |softirq| Sketch::new(8).device("eth0", &[2]).rps("eth0", "4-5").receives(4, softirq, 4e4);
    assert_eq!(plan(&spread_by(host(0.5)), "rps"), Vec::<String>::new());
    assert_eq!(plan(&spread_by(host(0.95)), "rps"), ["rps eth0/rx-0 = 0-1,3-7"]);
    let holds_irq = Sketch::new(8).device("eth0", &[2]).rps("eth0", "0-7");
    assert_eq!(plan(&spread_by(holds_irq), "rps"), ["rps eth0/rx-0 = 0-1,3-7"]);
}

proptest! {
    #[test]
    fn sound_on_any_machine(
        nodes in 1u32..4,
        per_node in 1u32..24,
        offline in vec(any::<bool>(), 96),
        isolated in vec(0u8..6, 96),
        irqs in vec(0u32..96, 1..20),
        smt in any::<bool>(),
        is_veth in any::<bool>(),
        load in vec(0.0f64..1.0, 96),
    ) {
        let count = nodes * per_node;
        let mut sketch = Sketch::new(count).nodes(nodes);
        if smt && count.is_multiple_of(2) {
            sketch = sketch.smt();
        }
        let irqs: Vec<u32> = irqs.iter().map(|irq| irq % count).collect();
        sketch = if is_veth { sketch.veth("eth0") } else { sketch.device("eth0", &irqs) };
        for cpu in 0..count {
            sketch = sketch.receives(cpu, load[cpu as usize], load[cpu as usize] * 1e5);
        }
        let (mut model, mut rates) = sketch.build();
        for cpu in &mut model.cpus {
            let index = cpu.id.0 as usize;
            // CPUs that take an interrupt stay online, as they do in a kernel.
            cpu.online = !offline[index] || irqs.contains(&cpu.id.0);
            cpu.isolated = isolated[index] == 0;
        }
        let online = model.online();
        rates.cpus.retain(|cpu| online.contains(cpu.cpu));

        let first = spread(&model, &rates, None);
        prop_assert_eq!(&first, &spread(&model, &rates, None), "the same twice");
        let usable = online.difference(&model.isolated());
        for proposal in &first.proposals {
            for setting in proposal.plan.settings.iter().filter(|setting| setting.set.knob == "rps") {
                let Target::Queue { queue, .. } = setting.set.target else { panic!("a queue") };
                let mask: CpuMask = cpus(&setting.set.value);
                prop_assert!(!mask.is_empty());
                prop_assert!(mask.difference(&usable).is_empty(), "{mask} of {usable}");
                let nic: &Nic = &model.nics[0];
                for irq in &nic.rx[queue.index as usize].irqs {
                    let takes = irq.effective.known().expect("known in sketches");
                    prop_assert!(mask.intersection(takes).is_empty(), "{mask} holds {takes}");
                }
            }
            if let Some(prediction) = &proposal.plan.prediction {
                prop_assert!(prediction.after >= 0.0 && prediction.total_change.is_finite());
            }
        }
        let by_name: BTreeMap<&str, &Plan> =
            first.proposals.iter().map(|proposal| (proposal.plan.name.as_str(), &proposal.plan)).collect();
        for plan in by_name.values() {
            simulate(&mut model, plan);
        }
        prop_assert_eq!(spread(&model, &rates, None).proposals, vec![], "nothing left to do");
    }
}

#[test]
fn settings_come_first_in_a_plan_file() {
    let (model, rates) = Sketch::case_a().build();
    let plan = spread(&model, &rates, None).proposals.remove(0).plan;
    let text = plan.to_toml();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("[[setting]]") < at("[about]") && at("[about]") < at("[prediction]"), "{text}");
    assert_eq!(Plan::from_toml(&text).expect("a plan").notes, plan.notes);
}

/// Values that a trial compares with later are in the file as numbers, not only in its notes.
#[test]
fn a_prediction_is_data() {
    let (model, rates) = Sketch::case_a().build();
    let spread = spread(&model, &rates, None);
    for proposal in &spread.proposals {
        assert!(proposal.plan.prediction.is_some());
        let again = Plan::from_toml(&proposal.plan.to_toml()).expect("a plan");
        let (ours, its) = (&proposal.plan.prediction, &again.prediction);
        let (ours, its) = (ours.as_ref().expect("predicted"), its.as_ref().expect("it came along"));
        assert!((ours.after - its.after).abs() < 1e-9 && ours.cpus.len() == its.cpus.len());
        assert_eq!(again.settings, proposal.plan.settings);
    }
}
