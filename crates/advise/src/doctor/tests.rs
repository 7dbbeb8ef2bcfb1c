//! Plans, their order and what is said of them, by findings.

use super::{DoctorReport, PlanName, diagnosed, doctor, settle};
use crate::decision::Decisions;
use crate::family::Family;
use crate::plan::{Options, Policy, spread};
use rxlab_path::model::{Fact, Function};
use rxlab_path::sketch::Sketch;
use rxlab_setting::Plan;

fn plans(report: &DoctorReport) -> Vec<&str> {
    report.plans.iter().map(|proposal| proposal.plan.name.as_str()).collect()
}

fn settings(plan: &Plan) -> Vec<String> {
    plan.settings.iter().map(|planned| planned.set.to_string()).collect()
}

#[test]
fn plans_come_from_findings_only() {
    assert_eq!(plans(&diagnosed(Sketch::case_a())), ["rps", "rfs", "rps+rfs"]);
    assert_eq!(plans(&diagnosed(Sketch::new(8).device("eth0", &[2]))), Vec::<&str>::new());
    let spread = |sketch: Sketch, cpu| sketch.receives(cpu, if cpu == 2 { 0.45 } else { 0.3 }, 5e3);
    let only_rps = (0..8).fold(Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4), spread);
    assert_eq!(plans(&diagnosed(only_rps.rps("eth0", "0-7"))), ["rps"], "RFS was not asked for");
}

#[test]
fn a_search_is_the_answer_where_a_plan_hands_packets_over() {
    let to_tune = |sketch| {
        let report = diagnosed(sketch);
        report.plans.into_iter().next().and_then(|first| first.next).or(report.tune)
    };
    assert_eq!(to_tune(Sketch::case_a()).as_deref(), Some("rxlab tune --nic eth0"));
    let next = diagnosed(Sketch::case_a()).plans.into_iter().filter_map(|plan| plan.next);
    assert_eq!(next.collect::<Vec<_>>(), ["rxlab tune --nic eth0"; 3], "one command tries all of them");
    assert_eq!(to_tune(Sketch::new(8).device("eth0", &[2])), None, "no traffic");
    let cheap = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.05, 4e4);
    assert_eq!(to_tune(cheap), None, "receive work cannot matter");
    let two = Sketch::new(64).device("eth0", &[0, 1]).queue_traffic("eth0", &[2e5; 2]);
    let two = two.driver("eth0", "virtio_net").queues_at_most("eth0", 32).all_receive("0-1", 0.95, 2e5);
    let report = diagnosed(two);
    let next = "rxlab trial run --set 'channels eth0 = combined 32' --live --nic eth0";
    assert_eq!(report.plans[0].next.as_deref(), Some(next), "a search does not stop traffic");
    assert_eq!(report.tune, None);
}

/// The plan that `gain` ranks first must be offered first.
fn first(report: &DoctorReport) -> (&str, String) {
    let regime = report.regime.as_ref().expect("there is traffic");
    let plan = &report.plans.first().expect("there is a plan").plan;
    let best = regime.knobs.first().filter(|worth| worth.trial).map(|worth| worth.knob);
    let name: PlanName = plan.name.parse().expect("a plan of the doctor");
    assert_eq!((best, report.findings[0].plans[0]), (name.family(), name), "{regime:?}");
    (&plan.name, settings(plan).join(", "))
}

#[test]
fn interrupts_on_isolated_cpus_get_a_plan_that_moves_them() {
    let host = Sketch::new(8).device("eth0", &[1, 5]).queue_traffic("eth0", &[2e3; 2]).isolate("4-7");
    let report = diagnosed(host.interrupts("eth0", 1.5e3).works(5, 0.9));
    assert_eq!(plans(&report), ["isolate.irq"], "{:?}", report.findings);
    let settings = settings(&report.plans[0].plan);
    assert_eq!(settings.len(), 1, "rx-0 stays: {settings:?}");
    let cpu = settings[0].strip_prefix("irq_affinity eth0/rx-1 = ").expect("of rx-1");
    assert!(["0", "2", "3"].contains(&cpu), "{settings:?}");
}

/// RPS was once offered first, and nothing at all where every CPU takes some interrupt.
#[test]
fn one_of_two_busy_queues_on_a_cpu_moves_first() {
    let free = || {
        let sketch = Sketch::new(8).device("eth0", &[2, 2]).queue_traffic("eth0", &[1.7e5; 2]);
        sketch.receives(2, 0.92, 3.4e5)
    };
    let moves = ("spread.irq", "irq_affinity eth0/rx-1 = 0".to_owned());
    let report = diagnosed(free());
    assert_eq!(first(&report), moves);
    assert_eq!(report.plans[0].next.as_deref(), Some("rxlab tune --nic eth0"));
    assert_eq!(plans(&report), ["spread.irq", "rps", "rfs", "rps+rfs"]);
    assert_eq!(first(&diagnosed(free().queues_at_most("eth0", 8))), moves, "those that there are come first");
    let quiet = Sketch::new(8).device("eth0", &[2, 2, 0, 1, 3, 4, 5, 6, 7]);
    let packets = [1.7e5, 1.7e5, 4e3, 4e3, 4e3, 4e3, 2e3, 4e3, 4e3];
    let quiet =
        quiet.queue_traffic("eth0", &packets).each("0-1,3-7", |host, cpu| host.receives(cpu, 0.02, 4e3));
    let report = diagnosed(quiet.receives(2, 0.92, 3.4e5));
    assert_eq!(first(&report), ("spread.irq", "irq_affinity eth0/rx-1 = 5".to_owned()));
    let shared = report.findings.iter().find(|finding| finding.id == "queues-share-a-cpu");
    assert_eq!(shared.map(|finding| finding.plans.clone()), Some(vec![PlanName::SeparateIrqs]));
}

/// RPS to the node of the interrupts once came first, and their own node was never planned.
#[test]
fn interrupts_come_to_their_node_before_their_packets_are_handed_on() {
    let sketch = Sketch::new(16).nodes(2).device("eth0", &[0, 1]).queue_traffic("eth0", &[2e5; 2]);
    let far = sketch.on_node("eth0", 1).all_receive("0-1", 0.75, 2e5);
    let near = ("numa-local.irq", "irq_affinity eth0/rx-0 = 8, irq_affinity eth0/rx-1 = 12".to_owned());
    assert_eq!(first(&diagnosed(far)), near);
}

/// It once counted as a finding, and nothing could be planned.
#[test]
fn a_note_whose_plan_changes_nothing_asks_for_nothing() {
    let far = |readable: bool| {
        let sketch = Sketch::new(16).nodes(2).device("eth0", &[0]).traffic("eth0", 4e4).on_node("eth0", 1);
        let sketch = sketch.receives(0, 0.3, 4e4).edit("eth0", |nic| {
            if !readable {
                nic.rx[0].irqs[0].affinity = Fact::Unsupported;
            }
        });
        let mut findings = diagnosed(sketch).findings;
        findings.retain(|finding| finding.id == "irq-on-wrong-node");
        findings.pop().expect("it is on the other node")
    };
    assert_eq!(far(true).plans, [PlanName::NearIrqs]);
    let fixed = far(false);
    assert!(!fixed.needs_attention() && fixed.remedy.contains("cannot be read)"), "{fixed:?}");
}

/// A virtual function once came first, and the first plan was another.
#[test]
fn what_no_plan_sets_comes_last() {
    let sketch = Sketch::case_a().driven_by("eth0", "xen_netfront", Function::Paravirtual);
    let report = diagnosed(sketch);
    assert_eq!(first(&report).0, "rps");
    let regime = report.regime.expect("there is traffic");
    assert!(regime.summary.ends_with("then VF by hand, in this order"), "{}", regime.summary);
}

#[test]
fn an_even_table_comes_first_where_it_leaves_queues_out() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[3e5, 9e4, 0.0, 0.0]);
    let report = diagnosed(sketch.table("eth0", &[0, 1].repeat(64)).receives(0, 0.92, 3e5));
    assert_eq!(first(&report), ("full.rss", "rss eth0 = default".to_owned()));
}

/// Two equal queues: the finding named the CPU of one, the gain that of the other, and more queues were not offered.
#[test]
fn equal_cpus_are_named_alike() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[1e5; 2]);
    let report = diagnosed(sketch.queues_at_most("eth0", 8).all_receive("0-1", 0.72, 1e5));
    assert_eq!(first(&report), ("full.channels", "channels eth0 = combined 8".to_owned()));
}

/// The finding once had no plan.
#[test]
fn an_uneven_hash_gets_plans() {
    let host = |table: &[u32]| {
        let packets = [2e4, 2e4, 3e5, 2e4];
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &packets);
        let report = diagnosed(sketch.table("eth0", table).receives(2, 0.72, 3e5));
        let found = report.findings.iter().find(|finding| finding.id == "hash-imbalance");
        (found.expect("it is one").plans.clone(), plans(&report).join(" "))
    };
    let spread = [PlanName::Rps, PlanName::Rfs];
    assert_eq!(host(&[0, 1, 2, 3].repeat(32)), (spread.to_vec(), "rps rfs rps+rfs".to_owned()));
    let uneven = [&[PlanName::EvenTable], spread.as_slice()].concat();
    let planned = "full.rss rps rfs rps+rfs".to_owned();
    assert_eq!(host(&[2, 2, 2, 2, 2, 2, 0, 1, 2, 3].repeat(8)), (uneven, planned));
}

/// RPS was once offered first, as each device for itself has a CPU for each queue.
#[test]
fn queues_of_two_devices_on_the_same_cpus_move_first() {
    let sketch = Sketch::new(16).device("eth0", &[0, 1, 2, 3]).device("eth1", &[0, 1, 2, 3]);
    let sketch = sketch.traffic("eth0", 8.4e5).traffic("eth1", 8.4e5).queues_at_most("eth0", 16);
    let report = diagnosed(sketch.all_receive("0-3", 0.84, 4.2e5));
    let moved: Vec<String> =
        (0..4).map(|queue| format!("irq_affinity eth1/rx-{queue} = {}", queue + 4)).collect();
    assert_eq!(first(&report), ("spread.irq", moved.join(", ")));
    let regime = report.regime.expect("there is traffic");
    assert_eq!(regime.knobs[0].why, "2 busy queues share CPU 0");
}

/// Quiet queues of one device once took all free CPUs, and both busy queues stayed.
#[test]
fn a_plan_is_for_all_devices_of_a_crowd() {
    let queues = [1.1e5, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4, 1.3e4];
    let sketch = Sketch::new(8).device("eth0", &[0, 5, 2, 2, 5, 0, 3, 5]).device("eth1", &[0, 0]);
    let sketch = sketch.queue_traffic("eth0", &queues).queue_traffic("eth1", &queues[..2]);
    let sketch = sketch.receives(2, 0.08, 2.6e4).receives(3, 0.04, 1.3e4).receives(5, 0.12, 3.9e4);
    let report = diagnosed(sketch.receives(0, 0.75, 2.46e5));
    let (plan, settings) = first(&report);
    assert_eq!(plan, "spread.irq");
    assert!(settings.contains("irq_affinity eth1/rx-0 = 1"), "{settings}");
    let next = "rxlab plan spread.irq --nic eth0 --nic eth1 -o spread.irq.toml && \
                rxlab trial run --plan spread.irq.toml --live --nic eth0";
    assert_eq!(report.plans[0].next.as_deref(), Some(next));
}

/// Only RPS was once offered to a device with 4 of 32 queues.
#[test]
fn more_queues_come_first_where_there_are_more() {
    let queues = |packets: &[f64]| {
        let irqs: Vec<u32> = (0..packets.len() as u32).collect();
        let sketch = Sketch::new(64).device("eth0", &irqs).queue_traffic("eth0", packets);
        (0..)
            .zip(packets)
            .fold(sketch.driver("eth0", "virtio_net").queues_at_most("eth0", 32), |sketch, (cpu, packets)| {
                sketch.receives(cpu, 0.05 + packets * 4.5e-6, *packets)
            })
    };
    let more = ("full.channels", "channels eth0 = combined 32".to_owned());
    for packets in [&[2e5; 4][..], &[2e5; 1], &[1.9e5, 1.2e5, 2e5]] {
        let report = diagnosed(queues(packets));
        assert_eq!(first(&report), more, "{packets:?}");
        let next = "rxlab trial run --set 'channels eth0 = combined 32' --live --nic eth0";
        assert_eq!(report.plans[0].next.as_deref(), Some(next));
        assert!(plans(&report).contains(&"rps"), "the next to try");
    }
    let elephant = diagnosed(queues(&[2e5, 1e3, 1e3, 1e3]));
    assert_eq!(first(&elephant).0, "rps", "one flow stays on one of many queues");
}

/// A trial of more queues was once the first advice for ixgbe, whose link goes down for it.
#[test]
fn what_keeps_the_link_comes_first() {
    let sketch = Sketch::new(8).device("eth0", &[0, 1]).queue_traffic("eth0", &[1e5; 2]);
    let sketch = sketch.driver("eth0", "i40e").queues_at_most("eth0", 8);
    let report = diagnosed(sketch.all_receive("0-1", 0.72, 1e5));
    assert_eq!(first(&report).0, "rps");
    assert_eq!(plans(&report).last(), Some(&"full.channels"));
    assert_eq!(report.findings[0].plans, [PlanName::Rps, PlanName::MoreQueues]);
}

#[test]
fn a_plan_that_leaves_the_hot_cpu_hot_is_no_fix() {
    let (model, rates) = Sketch::case_a().build();
    let report = doctor(&model, &rates, "rxlab");
    let fixes = |after: f64, id: &str| {
        let (mut finding, mut proposals) = (report.findings[0].clone(), report.plans.clone());
        finding.id = id.to_owned();
        let rps = proposals.iter_mut().find(|proposal| proposal.plan.name == "rps").expect("planned");
        let prediction = rps.plan.prediction.as_mut().expect("predicted");
        for load in prediction.cpus.iter_mut().filter(|load| load.cpu.0 == 2) {
            (load.after, load.range) = (after, None);
        }
        settle(&mut finding, &proposals, &mut Decisions::new(&model, &rates));
        finding.plans
    };
    assert_eq!(fixes(0.5, "one-core-hotspot"), [PlanName::Rps, PlanName::Rfs]);
    assert_eq!(fixes(0.98, "one-core-hotspot"), [PlanName::Rfs]);
    assert_eq!(fixes(0.98, "rps-mask-crosses-nodes"), [PlanName::Rps, PlanName::Rfs], "not for the load");
}

/// mt76: its NAPIs belong to no interface, whose `threaded` is off.
#[test]
fn what_threads_receive_is_not_steered() {
    let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).polls(3, 0.93);
    let (model, rates) = sketch.receives(3, 0.03, 9e4).receives(0, 0.05, 200.0).build();
    let plan = Policy::Spread.plan(&model, &rates, &Options::default(), None).plan;
    assert_eq!(settings(&plan), [""; 0]);
    let why =
        "rps: kernel threads receive packets of eth0 on CPU 3: RPS does not move them, but their CPUs do";
    assert!(plan.notes.contains(&why.to_owned()), "{:?}", plan.notes);
}

/// The table once had "RPS yes" where there was nothing to plan, and "redundant" where there was.
#[test]
fn the_table_says_of_rps_what_the_planner_does() {
    let hot = |sketch: Sketch| sketch.traffic("eth0", 3e5).receives(0, 0.95, 3e5);
    let full = || hot(Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3]));
    let rps = |sketch: Sketch| {
        let (model, rates) = sketch.build();
        let report = doctor(&model, &rates, "rxlab");
        let proposals = spread(&model, &rates, None).proposals;
        let planned = proposals.iter().any(|made| made.name() == Some(PlanName::Rps));
        let named = report.findings.iter().any(|finding| finding.plans.contains(&PlanName::Rps));
        assert_eq!(named, planned, "a finding names what is planned: {:?}", report.findings);
        let regime = report.regime.expect("there is traffic");
        let worth = regime.knobs.into_iter().find(|worth| worth.knob == Family::Rps).expect("it is judged");
        assert_eq!((worth.trial, regime.summary.contains("RPS")), (planned, planned), "{worth:?}");
        worth.why
    };
    assert!(rps(full()).starts_with("no masks for the queues of eth0: none of the CPUs"), "{}", rps(full()));
    rps(hot(Sketch::new(8).device("eth0", &[0; 8])));
    rps(hot(Sketch::new(8).device("eth0", &[0])));
    rps(hot(Sketch::new(2).device("eth0", &[0])).isolate("1"));
    rps(hot(Sketch::new(4).device("eth0", &[0, 1, 2, 3])));
    rps(Sketch::case_a().rps("eth0", "0-1,3-7"));
}

/// A virtual function below a paravirtual device, which counts the packets of both, and is idle itself.
fn accelerated() -> Sketch {
    let name = |name: &str| name.parse().expect("a name");
    let sketch = Sketch::case_a().driven_by("eth0", "mlx5_core", Function::Virtual { physical: None });
    sketch
        .device("eth9", &[7])
        .traffic("eth9", 42_000.0)
        .driven_by("eth9", "hv_netvsc", Function::Paravirtual)
        .edit("eth9", |nic| {
            nic.stack.lower = vec![name("eth0")];
            nic.rx[0].irqs.clear();
        })
}

#[test]
fn a_name_means_the_device_and_what_carries_its_packets() {
    let (model, rates) = accelerated().build();
    let nic = model.nic(&"eth9".parse().expect("a name")).expect("there");
    let mut report = doctor(&model, &rates, "rxlab");
    report.only(&model, nic);
    assert!(report.findings.iter().any(|finding| finding.needs_attention()), "{:?}", report.findings);
    assert_eq!(report.notes[0], "packets of eth9 are carried by eth0, included here");
    assert!(!report.plans.is_empty() && report.plans.iter().all(|plan| plan.nic == model.nics[0].name));
    let other = model.nic(&"eth0".parse().expect("a name")).expect("there");
    let count = report.notes.len();
    report.only(&model, other);
    assert_eq!(report.notes.len(), count, "nothing is below it");
}

/// Its masks have no effect on packets of the function, and a function that is there is no advice.
#[test]
fn nothing_is_planned_for_the_device_above() {
    let (model, rates) = accelerated().build();
    for policy in [Policy::Spread, Policy::Minimal, Policy::Full] {
        let policed = policy.plan(&model, &rates, &Options::default(), None);
        let settings = settings(&policed.plan);
        assert!(settings.iter().all(|set| !set.contains("eth9")), "{policy:?}: {settings:?}");
        assert!(policed.reasons.iter().all(|why| !why.contains("SR-IOV")), "{:?}", policed.reasons);
    }
}

/// One plan moved the interrupt of eth1 to CPU 1, that of the other interface the one of eth0: both leave it as crowded.
#[test]
fn two_interfaces_on_one_cpu_have_one_move() {
    let host = Sketch::new(2).device("eth0", &[0]).device("eth1", &[0]).traffic("eth0", 5.2e4);
    let report = diagnosed(host.traffic("eth1", 5e4).receives(0, 0.92, 1.02e5));
    let moves = report.plans.iter().filter(|made| made.plan.name == "spread.irq");
    let moves: Vec<(&str, Vec<String>)> =
        moves.map(|made| (made.nic.as_str(), settings(&made.plan))).collect();
    let same = || vec!["irq_affinity eth1/rx-0 = 1".to_owned()];
    assert_eq!(moves, [("eth0", same()), ("eth1", same())]);
}

/// The stack counts the packets of a bond and of a VLAN again: 2,560,000 packets/s were 5,120,240.
#[test]
fn packets_that_are_counted_again_are_those_of_the_stack() {
    let words = |stack: f64| {
        let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.5, stack);
        let host = host.veth("bond0").traffic("bond0", 4e4).edit("bond0", |nic| {
            nic.stack.kind = Some("bond".to_owned());
            nic.stack.lower = vec!["eth0".parse().expect("a name")];
        });
        diagnosed(host).load.packets_in_words().expect("counted")
    };
    assert_eq!(
        (words(4.1e4).as_str(), words(8e4).as_str()),
        ("41,090 packets/s", "80,090 packets/s in the stack")
    );
}

#[test]
fn loopback_traffic_is_named_as_the_reason_for_silence() {
    let report = diagnosed(Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5));
    assert_eq!(report.findings, []);
    let refused = report.refused.expect("no verdict");
    assert!(refused.starts_with("100 % of the packets are on lo"), "{refused}");
    assert_eq!(
        diagnosed(Sketch::case_a().loopback().traffic("lo", 3e5)).refused,
        None,
        "eth0 accounts for it"
    );
}

#[test]
fn json_round_trips() {
    let report = diagnosed(Sketch::case_a());
    let json = serde_json::to_value(&report).expect("a report is a JSON value");
    assert_eq!(json["schema"], "rxlab.findings/2");
    let packets = &json["findings"][0]["evidence"][1];
    assert_eq!(packets["subject"], serde_json::json!({ "cpu": 2 }));
    let figure = serde_json::json!({ "name": "packets", "value": 42_000.0, "unit": "packets_per_second" });
    assert_eq!(packets["figures"][0], figure, "{packets}");
    assert_eq!(json["plans"][0]["schema"], "rxlab.plan/1", "each entry is a plan");
    assert_eq!(json["plans"][0]["settings"][0]["set"], "rps eth0/rx-0 = 0-1,3-7");
    assert_eq!(json["plans"][0]["next"], "rxlab tune --nic eth0");
    let again: DoctorReport = serde_json::from_str(&json.to_string()).expect("it reads back");
    // Only figures may change, by their last bit: JSON is decimal.
    assert_eq!(again.findings, report.findings);
    assert_eq!(again.plans[2].plan, report.plans[2].plan);
    assert!(
        (again.load.headroom.expect("kept").machine - report.load.headroom.expect("measured").machine).abs()
            < 1e-9
    );
}

/// "IRQ pinning: no, nothing to change" was next to a plan that moves interrupts off isolated CPUs.
#[test]
fn interrupts_that_leave_isolated_cpus_are_not_said_to_stay() {
    let host = Sketch::new(8).isolate("4-7").device("eth0", &[4, 5]).traffic("eth0", 1.2e5);
    let report = diagnosed(host.interrupts("eth0", 9e3).all_receive("4-5", 0.6, 6e4).all_work("4-5", 0.4));
    assert!(plans(&report).contains(&"isolate.irq"), "{:?}", plans(&report));
    let knobs = report.regime.expect("there is traffic").knobs;
    let irqs = knobs.into_iter().find(|worth| worth.knob == Family::IrqPlacement).expect("it is judged");
    assert_eq!(irqs.why, "nothing more than isolate.irq, which clears isolated CPUs");
}
