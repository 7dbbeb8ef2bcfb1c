//! Hand-written and generated plans, with and without measured costs.

use super::{add_forecast, forecast};
use crate::diagnose::sketch::Sketch;
use crate::plan::spread;
use rxlab_base::units::{CpuId, IrqId};
use rxlab_path::model::{Costs, HandOver, IrqRates, Model, Rates, StackWork};
use rxlab_setting::Plan;

fn plan(settings: &[&str]) -> Plan {
    let settings: Vec<_> = settings.iter().map(|text| text.parse().expect("a setting")).collect();
    Plan::new("own", &settings)
}

/// A machine with measured costs: `part` of what CPU `cpu` does can be handed over.
fn measured((model, mut rates): (Model, Rates), cpu: u32, part: f64) -> (Model, Rates) {
    let work = StackWork { part, interrupts: Some(0.0), waking: Some(0.0) };
    let hand_over = HandOver { send_ns: 1_500.0, take_ns: 500.0, packet_ns: 500.0, cycle_ns: 10_000.0 };
    rates.cpus.iter_mut().for_each(|cpu| cpu.net_rx = cpu.net_rx.max(cpu.packets / 40.0));
    rates.costs =
        Some(Costs { cpus: [(CpuId(cpu), work)].into(), hand_over: Some(hand_over), missing: Vec::new() });
    (model, rates)
}

#[test]
fn without_measures_it_says_what_the_planner_says() {
    let (model, rates) = Sketch::case_a().build();
    for proposal in spread(&model, &rates, None).proposals {
        let forecast = forecast(&model, &rates, &proposal.plan).expect("it moves work");
        let planned = proposal.plan.prediction.expect("predicted");
        assert_eq!((forecast.after, forecast.busiest), (planned.after, planned.busiest));
        assert!(forecast.basis.starts_with("a rough guess"), "{}", forecast.basis);
        assert!((forecast.packets, forecast.most_after) == (42_000.0, planned.most_after));
        assert!(forecast.most_before < forecast.most_after);
    }
}

/// `1.7x to 3.8x` was promised to a virtual machine whose host took no more packets from it.
#[test]
fn no_more_is_promised_than_the_host_lets_through() {
    let after = |exceeded| {
        let host = Sketch::new(8).device("eth0", &[2]).driver("eth0", "ena").traffic("eth0", 4.2e4);
        let host = host.receives(2, 0.98, 4.2e4).limited("eth0", "pps_allowance_exceeded", exceeded);
        let (model, rates) = host.build();
        forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 0-1,3-7"])).expect("it moves work")
    };
    let free = after(0.0);
    assert!(free.capacity().is_some() && free.regime().starts_with("this lets the host take"), "{free:?}");
    let bound = after(2_400.0);
    assert_eq!((bound.after, bound.capacity(), bound.fits()), (free.after, None, None));
    assert_eq!(
        bound.regime(),
        "this spreads the load, but the host limits eth0 (pps_allowance_exceeded grows by 2,400/s), which no setting of this \
         machine lifts"
    );
}

/// A third of a CPU's packets was forecast to take all of its work along, as no interrupt was known.
#[test]
fn what_other_devices_may_bring_stays() {
    let after = |others: f64| {
        let host = Sketch::new(4).device("eth0", &[0]).device("eth1", &[0]).traffic("eth0", 3e4);
        let host = host.traffic("eth1", others).receives(0, 0.9, 9e4);
        let hidden = |host: Sketch, name| host.edit(name, |nic| nic.rx[0].irqs.clear());
        let (model, rates) = hidden(hidden(host, "eth0"), "eth1").build();
        forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 1-3"])).expect("it moves work").after
    };
    assert!(after(0.0) < 0.5 && after(6e4) > 0.6, "{} and {}", after(0.0), after(6e4));
    assert_eq!(after(6e6), after(6e4), "no more than the CPU counts");
}

/// Equal parts of what no queue counts were moved, although interrupts say that one has nearly all.
#[test]
fn nothing_is_predicted_of_queues_whose_shares_are_unknown() {
    let notes = |rest: f64| {
        let host = Sketch::new(8).device("eth0", &[0; 3]).traffic("eth0", 1e5).receives(0, 0.97, 1e5);
        let (model, mut rates) = host.build();
        for (irq, rate) in rates.irqs.iter_mut().zip([1.4e4, rest, rest]) {
            irq.per_cpu = [(CpuId(0), rate)].into();
        }
        let mut plan = plan(&["irq_affinity eth0/rx-1 = 1"]);
        add_forecast(&model, &rates, &mut plan);
        assert_eq!(plan.notes.is_empty(), forecast(&model, &rates, &plan).is_ok());
        plan.notes
    };
    assert_eq!(notes(5e3), [""; 0]);
    let why =
        "no prediction: eth0 counts no packets by queue, and its interrupts differ too much for equal parts";
    assert_eq!(notes(120.0), [why]);
}

/// mvneta does not report the queue of a packet: rx-0's mask counts for all of them, and so it does here.
#[test]
fn the_mask_of_the_first_queue_counts_for_all_that_it_steers() {
    let after = |queues: usize| {
        let host = Sketch::new(2).device("eth0", &vec![0; queues]).driver("eth0", "mvneta");
        let (model, rates) = host.traffic("eth0", 8e4).receives(0, 0.94, 8e4).build();
        forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 1"])).expect("it moves work").after
    };
    assert!((after(8) - after(1)).abs() < 1e-9, "{} and {}", after(8), after(1));
}

/// Half of the packets come by an interrupt of another network namespace, which no plan moves: they once went along.
#[test]
fn what_other_namespaces_bring_stays() {
    let host = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 1e5).receives(2, 0.9, 2e5);
    let (model, mut rates) = host.build();
    let after = |rates: &Rates| {
        forecast(&model, rates, &plan(&["irq_affinity eth0/rx-0 = 4"])).expect("it moves work").after
    };
    assert!(after(&rates) < 0.01);
    let per_cpu = [(CpuId(2), 2e4)].into();
    rates.irqs.push(IrqRates { irq: IrqId(500), action: "eth9".to_owned(), per_cpu });
    assert!((0.44..=0.46).contains(&after(&rates)), "{}", after(&rates));
}

/// Plan files are read by people: they once had `after = 0.47823423420000004`.
#[test]
fn no_figure_has_more_digits_than_the_model() {
    let (model, rates) = Sketch::new(8)
        .device("eth0", &[2])
        .traffic("eth0", 42_000.7)
        .receives(2, 0.97 / 3.0, 42_000.7)
        .works(3, 2.0 / 3.0)
        .build();
    let prediction = forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 0-1,3-7"])).expect("it moves work");
    assert_eq!((prediction.packets, prediction.before, prediction.after), (42_001.0, 0.3233, 0.1552));
    let text = serde_json::to_string(&prediction).expect("numbers and text");
    let decimals = text.split('.').skip(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).count());
    assert!(prediction.range.is_some() && decimals.max() <= Some(4), "{text}");
}

#[test]
fn measured_costs_take_the_place_of_fractions() {
    let (model, rates) = Sketch::case_a().build();
    let with = |part| {
        let (model, rates) = measured((model.clone(), rates.clone()), 2, part);
        forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 0-1,3-7"])).expect("it moves work")
    };
    let (much, little) = (with(0.9), with(0.06));
    assert!((much.before - 0.98).abs() < 1e-9 && much.after < 0.2, "{much:?}");
    assert!(little.after > 0.9, "{little:?}");
    assert!(much.basis.starts_with("measured by eBPF"), "{}", much.basis);
    // No interrupt is free: the others get a little more than what left.
    assert!(much.total_change > 0.0 && much.total_change < 0.3, "{much:?}");
    let range = little.range.expect("no figure without its interval");
    assert!(range.after[0] <= little.after && little.after <= range.after[1], "{range:?}");
    assert!(range.after[1] - range.after[0] < 0.1, "what was measured is used: {range:?}");
    let sum: f64 = much.cpus.iter().map(|load| load.after).sum();
    assert!(sum <= 1.3 && much.cpus.len() == 8, "{:?}", much.cpus);
    assert!(
        much.cpus
            .iter()
            .all(|load| load.range.is_some_and(|[low, high]| low <= load.after && load.after <= high))
    );
}

/// If a cost is not known, fixed fractions are used; a mask in use was never measured without it.
#[test]
fn what_was_not_measured_is_said() {
    let forecast_of = |(model, rates): (Model, Rates)| {
        forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 4-7"])).expect("it moves work")
    };
    let unknown = forecast_of(measured(Sketch::case_a().build(), 5, 0.9));
    assert!(unknown.basis.starts_with("a rough guess"), "{unknown:?}");
    assert!(unknown.range.is_some() && (unknown.after - 0.98 * 0.48).abs() < 1e-9, "{unknown:?}");
    let known = forecast_of(measured(Sketch::case_a().build(), 2, 0.9));
    assert!(!known.basis.contains("rough guess"), "{known:?}");
    let steered = forecast_of(measured(Sketch::case_a().rps("eth0", "2-5").build(), 2, 0.9));
    assert!(steered.basis.contains("what a current mask already hands over is a rough guess"), "{steered:?}");
}

#[test]
fn settings_that_the_model_does_not_know_are_named() {
    let (model, rates) = Sketch::case_a().build();
    let own = plan(&["rps eth0/rx-0 = 4-7", "channels eth0 = combined 2"]);
    let left_out = forecast(&model, &rates, &own).expect("RPS moves").left_out;
    assert_eq!(left_out, ["packets go to other queues: channels (1 setting)"]);
    let why = |settings: &[&str]| forecast(&model, &rates, &plan(settings)).expect_err("nothing moves");
    assert_eq!(why(&["rps eth0/rx-0 = off"]), "in the model it moves no receive work");
    assert_eq!(
        why(&["irq_affinity eth0/rx-0 = 4-7", "xps_cpus eth0/tx-0 = 1"]),
        "in the model it moves no receive work (the kernel chooses where interrupts go: irq_affinity (1 setting); \
         other settings: xps_cpus (1 setting))"
    );
}

#[test]
fn a_quiet_interface_is_not_predicted() {
    let (model, rates) = Sketch::case_a().traffic("eth0", 0.2).build();
    let why = forecast(&model, &rates, &plan(&["rps eth0/rx-0 = 4-7"]));
    assert_eq!(why, Err("0.2 packets/s are too few to predict from".to_owned()));
}

/// Two interfaces whose interrupts all land on CPU 0 were once credited with all of its time each: 93 -> -4 %.
#[test]
fn interfaces_on_one_cpu_have_one_cpu_to_give() {
    let sketch = Sketch::new(16).device("eth0", &[0, 0]).device("eth1", &[0]);
    let sketch = sketch.traffic("eth0", 3e4).traffic("eth1", 3e4).receives(0, 0.93, 6e4);
    let (model, rates) = sketch.build();
    let after = |settings: &[&str]| forecast(&model, &rates, &plan(settings)).expect("work moves").after;
    let one = after(&["rps eth0/rx-0 = 2-7"]);
    assert!((one - 0.93 * (1.0 - 0.52 / 4.0)).abs() < 1e-6, "a quarter of the packets: {one}");
    let all = after(&["rps eth0/rx-0 = 2-7", "rps eth0/rx-1 = 2-7", "rps eth1/rx-0 = 8-15"]);
    assert!((all - 0.93 * 0.48).abs() < 1e-6, "{all}");
}

#[test]
fn an_interrupt_that_moves_takes_its_queue_along() {
    let sketch = Sketch::new(8).device("eth0", &[0, 0]).traffic("eth0", 6e4).receives(0, 0.9, 6e4);
    let (model, rates) = sketch.build();
    let moved = forecast(&model, &rates, &plan(&["irq_affinity eth0/rx-1 = 4"])).expect("it moves");
    assert!((moved.after - 0.45).abs() < 1e-6 && moved.total_change.abs() < 1e-9, "{moved:?}");
    assert!(moved.range.is_none() && moved.left_out.is_empty(), "nothing is guessed: {moved:?}");
    assert!(moved.regime().starts_with("this lets the host take 2.2x"), "{}", moved.regime());
    let stays = forecast(&model, &rates, &plan(&["irq_affinity eth0/rx-1 = 0"]));
    assert!(stays.is_err(), "{stays:?}");
}

/// The setting of one queue once left the packets of the other where they were.
#[test]
fn queues_of_one_interrupt_move_together() {
    let sketch = Sketch::new(8).device("eth0", &[0, 0]).traffic("eth0", 6e4).receives(0, 0.9, 6e4);
    let (mut model, rates) = sketch.build();
    model.nics[0].rx[1].irqs = model.nics[0].rx[0].irqs.clone();
    for queue in ["rx-0", "rx-1"] {
        let own = plan(&[&format!("irq_affinity eth0/{queue} = 4")]);
        let moved = forecast(&model, &rates, &own).expect("it moves");
        assert!(moved.after < 1e-9 && moved.busiest == CpuId(4), "{moved:?}");
    }
}

/// Hyper-V: the signals of a channel come to one CPU, and no interrupt shows it.
#[test]
fn a_channel_brings_its_cpu_the_packets() {
    let sketch = Sketch::new(8).device("eth0", &[0, 0]).channels("eth0", &[1, 3]).traffic("eth0", 6e4);
    let (model, rates) = sketch.receives(1, 0.6, 3e4).receives(3, 0.9, 3e4).build();
    let own = plan(&["rps eth0/rx-0 = 4-7"]);
    let moved = forecast(&model, &rates, &own).expect("it moves");
    assert!(moved.cpu == CpuId(1) && (moved.after - 0.6 * 0.48).abs() < 1e-9, "{moved:?}");
    assert!((moved.busiest, moved.busiest_after) == (CpuId(3), 0.9), "{moved:?}");
}

/// A queue without packets has no cost, and once gave a measured prediction the range of a guess.
#[test]
fn an_idle_queue_makes_no_prediction_a_guess() {
    let sketch = Sketch::case_a().device("eth1", &[3, 3, 4]).queue_traffic("eth1", &[2e4, 2e4, 0.0]);
    let (model, rates) = measured(sketch.receives(3, 0.9, 4e4).build(), 3, 0.9);
    let own = plan(&["rps eth1/rx-0 = 5-7", "rps eth1/rx-1 = 5-7", "rps eth1/rx-2 = 5-7"]);
    let known = forecast(&model, &rates, &own).expect("it moves work");
    assert!(known.basis.starts_with("measured by eBPF"), "{known:?}");
    let range = known.range.expect("an interval");
    assert!(range.after[1] - range.after[0] < 0.1, "{range:?}");
}

/// A mask that is changed was once said to move nothing, and so was one that is removed.
#[test]
fn a_mask_in_use_can_change() {
    let sketch =
        Sketch::case_a().rps("eth0", "4").ksoftirqd(2, 0.0).receives(2, 0.4, 0.0).receives(4, 0.6, 42_000.0);
    let (model, rates) = sketch.build();
    let forecast_of = |value: &str| {
        let own = plan(&[&format!("rps eth0/rx-0 = {value}")]);
        let prediction = forecast(&model, &rates, &own).expect("work moves");
        let at =
            |cpu| prediction.cpus.iter().find(|load| load.cpu == CpuId(cpu)).map_or(0.0, |load| load.after);
        [at(2), at(4), at(5)].map(|time| (time * 100.0).round())
    };
    assert_eq!(forecast_of("4-5"), [40.0, 30.0, 31.0]);
    assert_eq!(forecast_of("off"), [98.0, 0.0, 1.0]);
}
