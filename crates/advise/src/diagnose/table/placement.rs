//! Machines with too few queues, or with queues in the wrong place.

use super::{Host, receives};
use rxlab_path::model::Function;
use rxlab_path::sketch::Sketch;

pub(super) fn hosts() -> Vec<Host> {
    let two = |softirq| {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 2e5);
        sketch.all_receive("2-3", softirq, 1e5)
    };
    let function = || Function::Virtual { physical: None };
    let crowd = |softirq| {
        let sketch = Sketch::new(4).device("eth0", &[0, 0, 1]).traffic("eth0", 9e4);
        sketch.receives(0, softirq, 6e4).receives(1, softirq / 2.0, 3e4)
    };
    let nodes = |irqs: &[u32]| {
        let sketch = Sketch::new(32).nodes(2).device("eth0", irqs).traffic("eth0", 9e4).on_node("eth0", 1);
        irqs.iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu, 0.4, 4e4))
    };
    let each = |queues: &[f64]| {
        let sketch = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", queues);
        let sketch = sketch.all_receive("0-3", 0.2, 2e4).rps("eth0", "0-3");
        (0..4).fold(sketch, |sketch, cpu| sketch.ipis(cpu, 4e3))
    };
    let sixteen = || {
        let irqs: Vec<u32> = (0..16).collect();
        let sketch = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3.2e6);
        sketch.all_receive("0-15", 0.82, 2e5).queues_at_most("eth0", 64)
    };
    vec![
        Host::new("16 equal queues on 128 CPUs, all busy", sixteen(), &["one-core-hotspot"]).lacks(
            "one-core-hotspot",
            "15 of them are at 30 %",
            |_, rates| (1..16).for_each(|cpu| receives(rates, cpu, 0.3)),
        ),
        Host::new("two queues of eight, busy", two(0.63).queues_at_most("eth0", 8), &["queues-share-a-cpu"]),
        Host::new(
            "a virtual function with two queues, busy",
            two(0.63).queues_at_most("eth0", 2).driven_by("eth0", "ixgbevf", function()),
            &["one-core-hotspot"],
        ),
        Host::new("two queues of eight, with room", two(0.2).queues_at_most("eth0", 8), &["too-few-queues"]),
        Host::new("two of three queues on one CPU", crowd(0.7), &["too-few-queues"]),
        Host::new("the same with time to spare", crowd(0.2), &["queues-share-a-cpu"]).lacks(
            "queues-share-a-cpu",
            "there is none",
            |_, rates| receives(rates, 0, 0.7),
        ),
        Host::new("case C's shape, interrupt on the other node", nodes(&[3]), &["queues-share-a-cpu"]),
        Host::new("case C's shape, one queue a node", nodes(&[0, 16]), &["irq-on-wrong-node"]),
        Host::new("RPS, and a queue for each CPU", each(&[2e4; 4]), &["rps-mask-contains-irq-cpu"]),
        Host::new("the same with one large flow", each(&[7.7e4, 1e3, 1e3, 1e3]), &["rps-redundant"]).lacks(
            "rps-redundant",
            "its packets are spread",
            |_, rates| rates.nics[0].queues.values_mut().for_each(|packets| *packets = 2e4),
        ),
    ]
}
