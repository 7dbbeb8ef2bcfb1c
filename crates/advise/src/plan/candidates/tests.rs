//! Candidates on composed machines.

use super::{Candidate, Candidates, Searched, candidates};
use rxlab_base::units::{CpuMask, Fact};
use rxlab_path::model::{Model, Rates};
use rxlab_path::sketch::{Sketch, cpus};

fn found(sketch: Sketch) -> Candidates {
    let (model, rates) = sketch.build();
    found_of(&model, &rates)
}

fn found_of(model: &Model, rates: &Rates) -> Candidates {
    candidates(model, rates, &model.nics[0], Searched::Rps).expect("candidates")
}

fn text(candidate: &Candidate) -> String {
    let values: Vec<&str> = candidate.settings.iter().map(|setting| setting.value.as_str()).collect();
    format!("{}: {}", candidate.name, values.join(" | "))
}

fn texts(found: &Candidates) -> Vec<String> {
    found.list.iter().map(text).collect()
}

/// The masks of all candidates, and of every size that a search may come to.
fn all_masks(found: &Candidates) -> Vec<CpuMask> {
    let sized = found.groups.iter().enumerate().flat_map(|(at, group)| {
        (1..=group.most).map(move |size| found.sized(at, size).expect("a size of the group"))
    });
    let every: Vec<Candidate> = found.list.iter().cloned().chain(sized).collect();
    let settings = every.iter().flat_map(|one| &one.settings).filter(|set| set.value != "off");
    settings.map(|set| cpus(&set.value)).collect()
}

/// The recorded machine: a veth whose packets CPU 0 sends and so receives, sinks on CPUs 12-15.
fn one_sender() -> Sketch {
    let sketch = Sketch::new(16).veth("srv0").traffic("srv0", 142_000.0).receives(0, 0.69, 142_000.0);
    let sketch = sketch.works(0, 0.3).program("sink", 0.9, "12-15").udp(9000, 0, 0);
    sketch.last(|process| process.ran_on = Fact::Known(cpus("12-15"))).all_work("12-15", 0.22)
}

#[test]
fn the_cpu_that_sends_to_a_veth_is_in_no_mask() {
    let found = found(one_sender());
    assert_eq!(found.receiving, cpus("0"));
    assert_eq!(
        texts(&found),
        [
            "off: ",
            "readers-4: 12-15",
            "node-4: 1-4",
            "readers-3: 12-14",
            "node-15: 1-15",
            "readers-2: 12-13",
            "node-3: 1-3",
            "readers-1: 12",
            "node-5: 1-5",
            "node-2: 1-2",
            "node-8: 1-8",
            "node-1: 1",
        ]
    );
    assert!(all_masks(&found).iter().all(|mask| !mask.contains(rxlab_base::units::CpuId(0))));
    let three = found.sized(1, 3).expect("a size of the group");
    assert_eq!(text(&three), "node-3: 1-3");
    assert_eq!(found.sized(1, 16), None);
}

/// With the mask on, the targets have all packets, and the sender runs NET_RX to interrupt them.
#[test]
fn the_sender_is_known_while_its_packets_go_elsewhere() {
    let mut sketch = one_sender().rps("srv0", "0-15").receives(0, 0.38, 20_000.0).net_rx(0, 150_000.0);
    for cpu in 1..16 {
        sketch = sketch.receives(cpu, 0.1, 20_000.0).net_rx(cpu, 19_000.0).ipis(cpu, 18_900.0);
    }
    let found = found(sketch);
    assert_eq!(found.receiving, cpus("0"));
    assert_eq!(text(&found.list[0]), "current: ");
    assert_eq!(text(&found.list[1]), "off: off");
}

/// Servers answer clients over the same pair: they receive as many packets, but not of this interface.
#[test]
fn servers_are_readers_although_they_receive_their_own_answers() {
    let sketch = Sketch::new(16).veth("srv0").traffic("srv0", 285_000.0).volume("srv0", 3e7, 285_000.0);
    let sketch = sketch.all_receive("0-1", 0.4, 142_000.0).all_receive("8-15", 0.1, 36_000.0);
    let with_sockets = sketch.all_work("0-1", 0.55).all_work("8-15", 0.25).program("server", 2.0, "8-15");
    let found_by = |sketch| {
        let found = found(sketch);
        (found.receiving.to_string(), found.groups.iter().map(|group| group.name).collect::<Vec<_>>())
    };
    let known = with_sockets.tcp(80, 0, 0, None).last(|process| process.ran_on = Fact::Known(cpus("8-15")));
    let (model, rates) = known.build();
    let seen = found_of(&model, &rates);
    assert_eq!(seen.receiving, cpus("0-1"));
    assert!(texts(&seen).contains(&"readers-8: 8-15".to_owned()), "{:?}", texts(&seen));
    let mut unknown = rates.clone();
    unknown.processes = Fact::Unsupported;
    let unsure = found_of(&model, &unknown);
    assert_eq!(unsure.receiving, cpus("0-1,8-15"), "which of them receive is not known");
    let few = Sketch::new(2).veth("srv0").traffic("srv0", 9e4).volume("srv0", 1e7, 9e4);
    assert_eq!(found_by(few.all_receive("0-1", 0.5, 9e4)).0, "", "no other CPU is left");
}

#[test]
fn two_cpus_have_one_mask() {
    let sketch = Sketch::new(2).veth("srv0").traffic("srv0", 1e5).receives(0, 0.6, 1e5);
    assert_eq!(texts(&found(sketch)), ["off: ", "node-1: 1"]);
    let (model, rates) = Sketch::new(1).device("eth0", &[0]).build();
    let why = candidates(&model, &rates, &model.nics[0], Searched::Rps).expect_err("no other CPU");
    assert_eq!(why, "no CPU but the one that receives may take packets of eth0");
}

/// 8 CPUs, 4 cores: the interrupt's core comes last, whole cores first.
#[test]
fn second_threads_and_the_core_that_receives_come_last() {
    let found = found(Sketch::new(8).smt().device("eth0", &[2]));
    assert_eq!(text(&found.sized(0, 3).expect("three cores")), "node-3: 0-1,3");
    assert_eq!(text(&found.sized(0, 6).expect("both threads")), "node-6: 0-1,3-5,7");
    assert_eq!(text(&found.sized(0, 7).expect("all")), "node-7: 0-1,3-7");
}

/// 64 CPUs in two nodes, some isolated, a device on node 1.
#[test]
fn groups_of_a_large_machine() {
    let sketch = Sketch::new(64).nodes(2).device("eth0", &[40]).on_node("eth0", 1).traffic("eth0", 4e5);
    let sketch = sketch.receives(40, 0.9, 4e5).tune(|model| {
        [33, 34, 50].into_iter().for_each(|cpu| model.cpus[cpu].isolated = true);
    });
    let found = found(sketch);
    let named: Vec<(&str, usize)> = found.groups.iter().map(|group| (group.name, group.most)).collect();
    assert_eq!(named, [("node", 28), ("other-node", 32), ("machine", 60)]);
    assert_eq!(text(&found.sized(0, 7).expect("field case C")), "node-7: 32,35-39,41");
    assert!(all_masks(&found).iter().all(|mask| mask.intersection(&cpus("33-34,40,50")).is_empty()));
    assert!(found.list.len() <= super::MAX_CANDIDATES + 1, "{:?}", texts(&found));
}

/// A cache of a part of a node, as on processors of several dies.
#[test]
fn the_cache_of_the_interrupt_comes_before_its_node() {
    let sketch = Sketch::new(16).device("eth0", &[1]).tune(|model| {
        model.cpus.iter_mut().for_each(|cpu| {
            cpu.l3 = if cpu.id.0 < 4 { cpus("0-3") } else { cpus("4-15") };
        });
    });
    let found = found(sketch);
    assert_eq!(found.groups.iter().map(|group| group.name).collect::<Vec<_>>(), ["cache", "node"]);
    assert_eq!(text(&found.sized(1, 5).expect("a size")), "node-5: 0,2-5");
}

/// Two queues: neither hands packets to the CPU of the other, nor both to the same one while there are others.
#[test]
fn queues_keep_clear_of_each_other() {
    let two = found(Sketch::new(8).device("eth0", &[0, 1]));
    assert_eq!(text(&two.sized(0, 3).expect("a size")), "node-3: 2-4 | 5-7");
    assert_eq!(text(&two.sized(0, 6).expect("a size")), "node-6: 2-7 | 2-7");
    let every = found(Sketch::new(2).device("eth0", &[0, 1]));
    assert_eq!(texts(&every), ["off: ", "node-1: 1 | 0"], "no CPU is without an interrupt");
}

/// Field case C: 32 CPUs in two nodes, a queue on CPU 0 and one on CPU 16.
#[test]
fn queues_of_two_nodes_stay_there() {
    let found = found(Sketch::new(32).nodes(2).device("eth0", &[0, 16]));
    assert_eq!(text(&found.sized(0, 7).expect("a size")), "node-7: 1-7 | 17-23");
}

#[test]
fn slow_and_full_cpus_come_last() {
    let sketch = Sketch::new(6).device("eth0", &[0]).works(1, 0.98).tune(|model| {
        model.cpus.iter_mut().for_each(|cpu| cpu.capacity = Some(if cpu.id.0 == 2 { 400 } else { 1024 }));
    });
    let found = found(sketch.program("server", 0.5, "3").udp(53, 0, 0));
    assert_eq!(text(&found.sized(0, 1).expect("a size")), "readers-1: 3");
    assert_eq!(text(&found.sized(1, 3).expect("a size")), "node-3: 3-5");
    assert_eq!(text(&found.sized(1, 4).expect("a size")), "node-4: 1,3-5");
}

#[test]
fn off_and_the_current_mask_are_always_there() {
    let found = found(Sketch::new(4).device("eth0", &[0]).rps("eth0", "1-3"));
    assert_eq!(texts(&found), ["node-3: ", "off: off", "node-2: 1-2", "node-1: 1"]);
    let odd = found_odd();
    assert_eq!(texts(&odd)[..2], ["current: ".to_owned(), "off: off".to_owned()]);
}

fn found_odd() -> Candidates {
    found(Sketch::new(4).device("eth0", &[0]).rps("eth0", "0,2"))
}

#[test]
fn other_families_have_the_values_of_the_device() {
    let (model, rates) = Sketch::new(6).device("eth0", &[0]).build();
    let of = |model: &Model, searched| {
        candidates(model, &rates, &model.nics[0], searched)
            .map(|found| found.list.into_iter().map(|one| one.name).collect::<Vec<_>>())
    };
    assert!(of(&model, Searched::Queues).is_err());
    assert_eq!(of(&model, Searched::ThreadedNapi), Err("eth0 does not report threaded NAPI".to_owned()));
    assert_eq!(of(&model, Searched::Rfs), Ok(vec!["off".to_owned(), "on".to_owned()]));
    let sketch = Sketch::new(6).device("eth0", &[0]).queues_at_most("eth0", 8);
    let sketch = sketch.moderation("eth0", 50, false);
    let (model, _) = sketch.edit("eth0", |nic| nic.napi.threaded = Fact::Known(false)).build();
    assert_eq!(
        of(&model, Searched::Moderation).expect("delays"),
        ["current", "adaptive", "usecs-0", "usecs-10", "usecs-20", "usecs-100", "usecs-200"]
    );
    assert_eq!(
        of(&model, Searched::Queues).expect("queues"),
        ["current", "queues-2", "queues-4", "queues-6"]
    );
    assert_eq!(of(&model, Searched::ThreadedNapi).expect("switches"), ["off", "on"]);
    let (model, _) = Sketch::new(8).nodes(2).device("eth0", &[0, 0]).on_node("eth0", 1).build();
    assert_eq!(of(&model, Searched::IrqPlacement).expect("places")[0], "current");
}
