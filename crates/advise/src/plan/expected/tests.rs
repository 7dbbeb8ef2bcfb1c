use super::{Most, Work};
use crate::plan::topology::CpuTopology;
use rxlab_base::units::{CpuId, IrqId};
use rxlab_path::model::{Fact, IrqRates, Model, Rates};
use rxlab_path::sketch::{Sketch, cpus};

fn times(rates: &Rates) -> Vec<u32> {
    rates.cpus.iter().map(|cpu| (cpu.softirq * 1e3).round() as u32).collect()
}

fn carried(before: &Model, rates: &Rates, after: &Model) -> Rates {
    let topology = CpuTopology::new(before);
    Work::new(before, rates, &topology).rates(after, &topology)
}

fn send(model: &Model, queue: usize, cpu: &str) -> Model {
    let mut model = model.clone();
    let irq = &mut model.nics[0].rx[queue].irqs[0];
    (irq.affinity, irq.effective) = (Fact::Known(cpus(cpu)), Fact::Known(cpus(cpu)));
    model
}

#[test]
fn uncounted_packets_may_be_shared_out_otherwise() {
    let sketch = Sketch::new(4).device("eth0", &[0, 1]).device("eth1", &[0, 1]);
    let sketch = sketch.traffic("eth0", 2e4).traffic("eth1", 2e4);
    let (model, rates) = sketch.receives(0, 0.6, 3e4).receives(1, 0.2, 1e4).build();
    let (topology, after) = (CpuTopology::new(&model), send(&model, 0, "2"));
    let moved = |most| times(&Work::with(&model, &rates, &topology, most).rates(&after, &topology))[2];
    assert!((290..310).contains(&moved(None)), "half of it");
    assert!((370..400).contains(&moved(Some(Most::Queue(0, 0)))), "all packets of eth0");
    assert!((200..230).contains(&moved(Some(Most::Queue(1, 0)))), "all packets of eth1");
    let others = |model: &Model| Work::new(model, &rates, &topology).others();
    assert_eq!(others(&model), [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(nic, queue)| Most::Queue(nic, queue)));
    assert_eq!(
        others(&send(&send(&model, 0, "1"), 1, "1")).len(),
        2,
        "only eth1 has queues that can be told apart"
    );
}

#[test]
fn work_goes_where_its_interrupt_goes_by_packets() {
    let sketch = Sketch::new(4).device("eth0", &[0, 0]).queue_traffic("eth0", &[3e4, 1e4]);
    let (model, rates) = sketch.receives(0, 0.8, 4e4).build();
    let after = |model_after: &Model| carried(&model, &rates, model_after);
    assert_eq!(after(&model), rates, "nothing has moved");
    assert_eq!(times(&after(&send(&model, 0, "3"))), [200, 5, 5, 605]);
    assert_eq!(times(&after(&send(&send(&model, 0, "1"), 1, "1"))), [0, 805, 5, 5]);
    assert_eq!(after(&send(&model, 1, "2")).cpus[2].packets, 10_030.0);
}

/// What was left of it was once taken for the time of programs, and no interrupt was sent there again.
#[test]
fn a_cpu_that_received_all_the_time_is_idle_for_what_leaves() {
    let sketch = Sketch::new(3).device("eth0", &[0, 0]).queue_traffic("eth0", &[2e4; 2]);
    let (model, rates) = sketch.receives(0, 1.0, 4e4).build();
    let after = carried(&model, &rates, &send(&model, 1, "2"));
    assert_eq!((times(&after)[0], after.cpus[0].idle), (500, 0.5));
}

/// Two interrupts that swap CPUs: neither takes the other's work along.
#[test]
fn what_has_come_does_not_go_on() {
    let sketch = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 2e4);
    let (model, rates) = sketch.receives(0, 0.9, 1e4).receives(1, 0.1, 1e4).build();
    let swapped = send(&send(&model, 0, "1"), 1, "0");
    assert_eq!(times(&carried(&model, &rates, &swapped)), [100, 900]);
}

#[test]
fn new_queues_share_the_work_of_their_interface() {
    let sketch = Sketch::new(4).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).receives(0, 0.8, 4e4);
    let (model, rates) = sketch.build();
    let (after, _) = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).build();
    let carried = carried(&model, &rates, &after);
    assert_eq!(times(&carried), [200, 205, 205, 205]);
    assert!(carried.nics[0].queues.is_empty(), "how many packets each has is unknown");
}

/// One of two queues is full of packets, and none is counted: the times of the masks' CPUs tell which.
#[test]
fn measured_times_tell_which_queue_brings_the_work() {
    let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 8e4);
    let (model, rates) = sketch.receives(0, 0.8, 7e4).receives(1, 0.1, 1e4).build();
    let mut masked = model.clone();
    masked.nics[0].rx[0].rps_cpus = Fact::Known(cpus("2-3"));
    let after = carried(&model, &rates, &masked);
    assert_eq!(times(&after), [384, 100, 221, 221], "0.48 stays, and 0.5408 goes");
    assert_eq!(times(&carried(&masked, &after, &model)), [805, 100, 2, 2], "nearly the same back");
}

/// Packets of a device of another namespace once moved with an interrupt without packets.
#[test]
fn work_without_packets_stays() {
    let sketch = Sketch::new(2).device("eth0", &[0]).queue_traffic("eth0", &[0.0]).receives(0, 0.9, 4e4);
    let (model, mut rates) = sketch.build();
    assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [900, 5]);
    rates.nics[0].rx_packets = 2e4;
    rates.nics[0].queues = [(0, 2e4)].into();
    assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [0, 905]);
    let per_cpu = [(CpuId(0), 1e4)].into();
    rates.irqs.push(IrqRates { irq: IrqId(99), action: "eno1".to_owned(), per_cpu });
    assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [450, 455], "half of the packets");
}

/// Queues that are not counted: the packets of the CPUs tell which brings how many, and masks may swap them.
#[test]
fn packets_of_cpus_tell_those_of_queues() {
    let sketch = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 8e4);
    let (mut model, rates) = sketch.receives(0, 0.5, 7e4).receives(1, 0.5, 1e4).build();
    model.nics[0].rx[0].rps_cpus = Fact::Known(cpus("1"));
    model.nics[0].rx[1].rps_cpus = Fact::Known(cpus("0"));
    let mut after = model.clone();
    after.nics[0].rx.iter_mut().for_each(|queue| queue.rps_cpus = Fact::Known(cpus("")));
    let then = carried(&model, &rates, &after);
    assert!(then.cpus[1].softirq > 4.0 * then.cpus[0].softirq, "{then:?}");
}

/// A queue that nothing counts had the packets of an interrupt of another namespace, and took their work along.
#[test]
fn packets_of_another_namespace_are_no_queue_s() {
    let sketch = Sketch::new(3).device("eth0", &[0, 1]).traffic("eth0", 4e4).receives(0, 0.1, 1e4);
    let (model, mut rates) = sketch.receives(1, 0.9, 9e4).build();
    let per_cpu = [(CpuId(1), 1e4)].into();
    rates.irqs.push(IrqRates { irq: IrqId(99), action: "eno1".to_owned(), per_cpu });
    assert_eq!(times(&carried(&model, &rates, &send(&model, 1, "2"))), [100, 600, 305], "3e4 of 9e4");
}

/// Packets once came to the busiest CPU if it was not known where, and took its work along.
#[test]
fn work_from_an_unknown_cpu_is_added_to_the_mask() {
    let sketch = Sketch::new(3).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).receives(0, 0.6, 3e4);
    let (mut model, rates) = sketch.receives(1, 0.4, 1e4).build();
    model.nics[0].rx[0].irqs.clear();
    let mut after = model.clone();
    after.nics[0].rx[0].rps_cpus = Fact::Known(cpus("1-2"));
    let then = carried(&model, &rates, &after);
    assert_eq!(times(&then), [600, 672, 277], "half of 0.5408 each, of all receive time");
    assert_eq!(times(&carried(&after, &then, &model))[0], 600);
}

fn worst(before: &Model, rates: &Rates, after: &Model) -> Vec<u32> {
    let topology = CpuTopology::new(before);
    let worst = Work::new(before, rates, &topology).worst(after, &topology);
    worst.into_iter().map(|time| (time * 1e3).round() as u32).collect()
}

/// Interrupts were once sent to a CPU because half of the work of theirs was expected to come along: all of it came.
#[test]
fn an_uncounted_queue_may_bring_all_of_its_cpu() {
    let host = |counted: bool| {
        let sketch = Sketch::new(3).device("eth0", &[0, 0]).receives(0, 0.8, 8e4).receives(1, 0.3, 0.0);
        match counted {
            true => sketch.queue_traffic("eth0", &[4e4, 4e4]).build(),
            false => sketch.traffic("eth0", 8e4).build(),
        }
    };
    let (model, rates) = host(false);
    let moved = send(&model, 1, "1");
    assert_eq!(times(&carried(&model, &rates, &moved))[..2], [400, 700]);
    assert_eq!(worst(&model, &rates, &moved)[..2], [800, 1100], "none of it leaves, or all");
    assert_eq!(worst(&model, &rates, &model)[..2], [800, 300], "nothing moves");
    let (model, rates) = host(true);
    assert_eq!(worst(&model, &rates, &send(&model, 1, "1"))[..2], [400, 700], "it is counted");
}

/// What comes to an unknown CPU once seemed to be the work of a queue whose interrupt moved away.
#[test]
fn a_counted_queue_takes_no_more_along_than_its_packets_cost() {
    let sketch = Sketch::new(2).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).device("eth1", &[0]);
    let sketch = sketch.queue_traffic("eth1", &[4e4]).receives(0, 0.8, 8e4);
    let (mut model, rates) = sketch.build();
    assert_eq!(worst(&model, &rates, &send(&model, 0, "1")), [400, 405]);
    model.nics[1].rx[0].irqs.clear();
    let worst = worst(&model, &rates, &send(&model, 0, "1"));
    assert_eq!(worst[0], 398, "half of all receive time is that of eth1");
}

/// Interrupts that do not say which queue they serve take its work along.
#[test]
fn work_of_unknown_queues_is_where_their_device_interrupts() {
    let sketch = Sketch::new(3).device("eth0", &[1]).queue_traffic("eth0", &[4e4]).receives(1, 0.4, 4e4);
    let (mut model, mut rates) = sketch.receives(0, 0.6, 0.0).build();
    let irq = model.nics[0].rx[0].irqs.remove(0);
    let per_cpu = [(CpuId(1), 1e4)].into();
    rates.irqs.push(IrqRates { irq: irq.number, action: "mlx4-1".to_owned(), per_cpu });
    model.nics[0].other_irqs.push(irq);
    let mut after = model.clone();
    after.nics[0].other_irqs[0].effective = Fact::Known(cpus("2"));
    assert_eq!(times(&carried(&model, &rates, &after)), [600, 0, 405]);
}
