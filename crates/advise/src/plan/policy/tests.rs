//! Policies on the published cases and each alone.

mod interrupts;
mod machines;
mod masks;

use super::{Options, Policed, Policy, Variable};
use rxlab_base::parse::IrqbalanceArguments;
use rxlab_base::parse::ethtool::Coalesce;
use rxlab_base::units::{CpuId, CpuMask, IrqId, NicName};
use rxlab_path::model::{Fact, Function, IdleState, IrqRates, Irqbalance, Model, Nic, Rates};
use rxlab_path::sketch::{Sketch, cpus};
use rxlab_setting::{Plan, Risk, Upkeep, simulation};

fn texts(plan: &Plan) -> Vec<String> {
    plan.settings.iter().map(|planned| planned.set.to_string()).collect()
}

fn planned(policy: Policy, (model, rates): &(Model, Rates), options: &Options) -> Policed {
    policy.plan(model, rates, options, None)
}

/// The plan with the default options.
fn plan_of(policy: Policy, host: &(Model, Rates)) -> Plan {
    planned(policy, host, &Options::default()).plan
}

/// The settings of one knob.
fn only(plan: &Plan, knob: &str) -> Vec<String> {
    let own = plan.settings.iter().filter(|planned| planned.set.knob == knob);
    own.map(|planned| planned.set.to_string().split_once(' ').expect("a target").1.to_owned()).collect()
}

fn nic_name(name: &str) -> NicName {
    name.parse().expect("a name")
}

/// An interrupt of no interface of the model that fires often on a CPU.
fn of_another_namespace(cpu: u32) -> IrqRates {
    let per_cpu = [(CpuId(cpu), 2e4)].into();
    IrqRates { irq: IrqId(5000), action: "virtio99-input.0".to_owned(), per_cpu }
}

/// The machine after it follows a plan.
fn simulate(model: &Model, plan: &Plan) -> Model {
    let mut model = model.clone();
    plan.settings.iter().for_each(|planned| simulation::simulate(&mut model, &planned.set));
    model
}

fn case_c() -> (Model, Rates) {
    Sketch::new(32).nodes(2).device("eth0", &[16, 16]).device("eth1", &[16, 16]).build()
}

/// Field case C one step earlier, with one interface of two queues: seven CPUs of the fifteen that a node has left.
#[test]
fn field_case_c_with_two_queues_takes_seven_of_fifteen() {
    let host = Sketch::new(32).nodes(2).device("eth0", &[0, 16]).build();
    let masks = |cpus_per_queue| {
        hex_masks(&planned(Policy::NumaLocal, &host, &Options { cpus_per_queue, ..Options::default() }).plan)
    };
    assert_eq!(masks(Some(7)), ["fe", "fe0000"]);
    assert_eq!(masks(None), ["fffe", "fffe0000"], "all that there are");
}

/// Two cards on one line (INTx), both busy on its CPU.
fn on_one_line() -> (Model, Rates) {
    let cards =
        Sketch::new(8).device("eth0", &[3]).device("eth1", &[3]).traffic("eth0", 6e4).traffic("eth1", 6e4);
    let irq = |nic: &Nic| nic.rx[0].irqs[0].clone();
    let mut shared = None;
    let cards = cards.edit("eth0", |nic| shared = Some(irq(nic)));
    cards.edit("eth1", |nic| nic.rx[0].irqs = shared.into_iter().collect()).receives(3, 0.93, 1.2e5).build()
}

/// Each interface once got a CPU of its own for the interrupt that they share: `apply` set both, and one drifted.
#[test]
fn an_interrupt_of_two_interfaces_is_sent_once() {
    let host = on_one_line();
    for policy in [Policy::NumaLocal, Policy::Isolate, Policy::Latency, Policy::Spread] {
        let plan = plan_of(policy, &host);
        let sent = only(&plan, "irq_affinity");
        assert!(sent.len() <= 1, "{policy}: {sent:?}");
        let then = simulate(&host.0, &plan);
        let cpus = ["eth0", "eth1"]
            .map(|name| then.nic(&nic_name(name)).map(|nic| nic.rx[0].irqs[0].affinity.clone()));
        assert_eq!(cpus[0], cpus[1], "{policy}: both interfaces have it");
        let texts = plan.settings.iter().map(|planned| planned.why.clone()).collect::<Vec<_>>().join("; ");
        assert!(!texts.contains("already takes another queue's interrupt"), "{policy}: {texts}");
    }
}

/// The RPS masks of a plan.
fn masks(plan: &Plan) -> impl Iterator<Item = CpuMask> {
    let rps = plan.settings.iter().filter(|planned| planned.set.knob == "rps");
    rps.map(|planned| cpus(&planned.set.value))
}

fn hex_masks(plan: &Plan) -> Vec<String> {
    masks(plan).map(|mask| mask.to_hex()).collect()
}

/// Options that name interfaces.
fn of_nics(names: &[&str]) -> Options {
    let nics = names.iter().map(|name| name.parse().expect("a name")).collect();
    Options { nics, ..Options::default() }
}

/// Field case C as it ended: four interrupts, two a node, and seven CPUs for each.
#[test]
fn field_case_c_by_hand_is_numa_local() {
    let options = Options { cpus_per_queue: Some(7), ..Options::default() };
    let policed = planned(Policy::NumaLocal, &case_c(), &options);
    assert_eq!(
        only(&policed.plan, "irq_affinity"),
        ["eth0/rx-0 = 0", "eth1/rx-0 = 8", "eth1/rx-1 = 24"],
        "that of eth0/rx-1 is on CPU 16 already"
    );
    assert_eq!(hex_masks(&policed.plan), ["fe", "fe0000", "fe00", "fe000000"]);
    assert_eq!(policed.variables, [Variable::Irq, Variable::Rps], "RFS would choose other CPUs");
    let why = |knob: &str| {
        let found = policed.plan.settings.iter().find(|planned| planned.set.knob == knob);
        found.map(|planned| planned.why.as_str())
    };
    assert_eq!(why("irq_affinity"), Some("node 0, because the device's node is unknown; its own core"));
    assert_eq!(why("rps"), Some("the CPUs of node 0 except those of interrupts, for this queue only"));
}

#[test]
fn each_variable_is_a_plan_for_the_machine_as_it_is() {
    let case_c = case_c();
    let alone =
        |variable| Policy::NumaLocal.plan(&case_c.0, &case_c.1, &Options::default(), Some(&[variable])).plan;
    let rps = alone(Variable::Rps);
    assert_eq!(rps.name, "numa-local.rps");
    assert_eq!(texts(&rps)[0], "rps eth0/rx-0 = 17-19", "all interrupts are on CPU 16 still");
    assert_eq!(texts(&rps).len(), 4);
    assert_eq!(texts(&alone(Variable::Irq)).len(), 3);
    assert_eq!(texts(&alone(Variable::Xps)), [""; 0]);
    assert_eq!(only(&alone(Variable::Rfs), "rfs").len(), 4, "asked for by name");
    let whole = plan_of(Policy::NumaLocal, &case_c);
    assert_eq!(
        whole.notes,
        [
            "rfs: left off for eth0, because RPS hands the packets on and RFS would choose other CPUs; plan \
             rfs separately",
            "rfs: left off for eth1, because RPS hands the packets on and RFS would choose other CPUs; plan \
             rfs separately",
            "2 variables; try each as a separate plan, in this order: numa-local.irq, numa-local.rps"
        ]
    );
}

#[test]
fn a_device_of_a_known_node_stays_there() {
    let host = Sketch::new(32).nodes(2).device("eth0", &[0, 1]).on_node("eth0", 1);
    let plan = plan_of(Policy::NumaLocal, &host.build());
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-0 = 16", "eth0/rx-1 = 24"]);
    assert_eq!(only(&plan, "rps"), ["eth0/rx-0 = 17-23", "eth0/rx-1 = 25-31"]);
}

#[test]
fn isolation_keeps_the_cpus_that_are_named_clean() {
    let host = || Sketch::new(16).device("eth0", &[0, 1]).rfs(32768, "eth0", 16384);
    let options = Options { isolated: cpus("0-11"), ..Options::default() };
    let plan = planned(Policy::Isolate, &host().build(), &options).plan;
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-0 = 12", "eth0/rx-1 = 14"]);
    assert_eq!(only(&plan, "rps"), ["eth0/rx-0 = 13", "eth0/rx-1 = 15"]);
    assert_eq!(only(&plan, "rfs"), ["eth0/rx-0 = 0", "eth0/rx-1 = 0"], "readers are on clean CPUs");
    assert_eq!(plan.notes[0], "receive work on CPUs 12-15, none on CPUs 0-11");
    let all = Options { isolated: cpus("0-15"), ..Options::default() };
    let none = planned(Policy::Isolate, &host().build(), &all);
    assert_eq!(
        (texts(&none.plan).len(), none.reasons.as_slice()),
        (0, &["no CPU is left for receive work".to_owned()][..])
    );
}

/// Field case B gave two of eight CPUs to eight queues.
#[test]
fn isolation_chooses_the_last_cpus_itself() {
    let plan = |sketch: Sketch| plan_of(Policy::Isolate, &sketch.build());
    let case_b = plan(Sketch::new(8).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).rps("eth0", "0-7"));
    let moved: Vec<String> = (0..6).map(|queue| format!("eth0/rx-{queue} = {}", 6 + queue % 2)).collect();
    assert_eq!(only(&case_b, "irq_affinity"), moved, "those of rx-6 and rx-7 are there already");
    assert_eq!(only(&case_b, "rps").len(), 8, "both CPUs have queues");
    assert!(only(&case_b, "rps").iter().all(|text| text.ends_with(" = off")));
    let smt = plan(Sketch::new(8).smt().device("eth0", &[0]));
    assert_eq!(only(&smt, "irq_affinity"), ["eth0/rx-0 = 3"]);
    assert_eq!(only(&smt, "rps"), [""; 0], "the other thread of that core is of no help");
}

/// A new queue's interrupt once came to a CPU of the mask that the kernel applies to the packets of every queue of xen_netfront.
#[test]
fn new_queues_are_judged_where_drivers_ask_for_their_interrupts() {
    let channels = |mask: &str| {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 9e4).receives(0, 0.9, 0.0);
        let sketch = sketch.all_receive(mask, 0.34, 3e4).rps("eth0", mask);
        let (model, rates) = sketch.driver("eth0", "xen_netfront").queues_at_most("eth0", 2).build();
        Policy::Full.plan(&model, &rates, &Options::default(), Some(&[Variable::Channels])).plan
    };
    assert_eq!(only(&channels("2-4"), "channels"), ["eth0 = combined 2"]);
    let plan = channels("1-3");
    assert_eq!(only(&plan, "channels"), [""; 0]);
    let why = "channels: left alone: the doctor would then report `CPU 1 handles the interrupt of eth0/rx-1 and its RPS work`";
    assert!(plan.notes.contains(&why.to_owned()), "{:?}", plan.notes);
}

/// A new channel of VMBus, which signals the first CPU that has none of its interface, came to the CPU of a mask.
#[test]
fn new_channels_are_judged_where_vmbus_puts_them() {
    let channels = |mask: &str| {
        let sketch = Sketch::new(4).device("eth0", &[3]).channels("eth0", &[3]).traffic("eth0", 9e4);
        let sketch = sketch.receives(3, 0.4, 0.0).all_receive(mask, 0.45, 9e4).rps("eth0", mask);
        let (model, rates) = sketch.queues_at_most("eth0", 2).build();
        Policy::Full.plan(&model, &rates, &Options::default(), Some(&[Variable::Channels])).plan
    };
    assert_eq!(only(&channels("1"), "channels"), ["eth0 = combined 2"]);
    let plan = channels("0");
    assert_eq!(only(&plan, "channels"), [""; 0], "{:?}", plan.notes);
}

/// The interface that brings most to the hot CPU has its mask already, and no setting moves its channel.
#[test]
fn where_nothing_is_left_to_spread_another_interface_of_the_hot_cpu_is_planned() {
    let sketch = Sketch::new(4).device("eth0", &[0]).channels("eth0", &[0]).device("eth1", &[0]);
    let sketch = sketch.traffic("eth0", 9e4).rps("eth0", "2-3").traffic("eth1", 5e4).receives(0, 0.9, 5e4);
    let host = sketch.all_receive("2-3", 0.24, 4.5e4).build();
    let named = |name: &str| {
        let options = Options { nics: vec![nic_name(name)], ..Options::default() };
        texts(&planned(Policy::Spread, &host, &options).plan)
    };
    assert_eq!(named("eth0"), [""; 0]);
    let any = texts(&plan_of(Policy::Spread, &host));
    assert_eq!((any, named("eth1").len()), (named("eth1"), 2), "its interrupt and its mask");
}

#[test]
fn irqbalance_is_told_and_only_where_interrupts_are_placed() {
    let host = |banned: Fact<Vec<IrqId>>| {
        let (mut model, rates) = Sketch::new(8).device("eth0", &[2]).build();
        let irqbalance = Irqbalance { pid: 7, banned_irqs: banned, ..Irqbalance::default() };
        model.irqbalance = Fact::Known(Some(irqbalance));
        (model, rates)
    };
    let plan = |banned| planned(Policy::NumaLocal, &host(banned), &Options::default());
    assert_eq!(texts(&plan(Fact::Known(vec![])).plan)[0], "irqbalance eth0 = banned");
    assert_eq!(only(&plan(Fact::Known(vec![IrqId(41)])).plan, "irqbalance"), [""; 0]);
    let deaf = plan(Fact::Unsupported);
    assert!(deaf.reasons[0].contains("stop it first") && deaf.plan.notes[0].contains("stop it first"));
    assert_eq!(only(&deaf.plan, "irqbalance"), [""; 0]);
    let started = |arguments: IrqbalanceArguments| {
        let (mut model, rates) = host(Fact::Unsupported);
        let Fact::Known(Some(irqbalance)) = &mut model.irqbalance else { unreachable!("it runs") };
        irqbalance.arguments = Fact::Known(arguments);
        planned(Policy::NumaLocal, &(model, rates), &Options::default())
    };
    let by_number = IrqbalanceArguments { banned_irqs: vec![IrqId(41)], ..IrqbalanceArguments::default() };
    let left = started(by_number);
    let is_deaf = left.reasons.iter().any(|reason| reason.contains("stop it first"));
    assert!(!is_deaf && only(&left.plan, "irqbalance").is_empty(), "{:?}", left.reasons);
    let many = (1000..1051).map(IrqId).collect();
    assert!(
        plan(Fact::Known(many)).reasons[0].contains("list too long for irqbalance"),
        "irqbalance would cut it off"
    );
    let minimal = planned(Policy::Minimal, &host(Fact::Known(vec![])), &Options::default());
    assert_eq!(texts(&minimal.plan), [""; 0]);
}

/// A device whose driver supports everything: 2 of 8 queues, no moderation, an uneven table, on a slow clock.
fn able() -> (Model, Rates) {
    let sketch = Sketch::new(8).device("eth0", &[0, 1]).traffic("eth0", 6e4).driver("eth0", "i40e");
    let sketch = sketch.queues_at_most("eth0", 64).moderation("eth0", 0, false);
    let sketch = sketch.table("eth0", &[0, 0, 0, 1].repeat(32)).xps("eth0", &["", ""]);
    sketch.clock("hpet", &["tsc"]).build()
}

/// Field case C's advice in two tiers: all of it for the record, the cheap and safe for production.
#[test]
fn full_has_all_and_minimal_what_is_safe_and_stays() {
    let full = planned(Policy::Full, &able(), &Options::default());
    let knobs: Vec<&str> = full.plan.settings.iter().map(|planned| planned.set.knob.as_str()).collect();
    let mut once = knobs.clone();
    once.dedup();
    assert_eq!(once, ["channels", "rss", "adaptive_rx", "irq_affinity", "xps_cpus", "clocksource"]);
    assert_eq!(only(&full.plan, "channels"), ["eth0 = combined 8"]);
    assert_eq!(only(&full.plan, "irq_affinity").len(), 6, "those that there are stay on CPU 0 and 1");
    assert_eq!(only(&full.plan, "xps_cpus").len(), 8);
    assert_eq!(only(&full.plan, "rps"), [""; 0], "every CPU has a queue then");
    let minimal = plan_of(Policy::Minimal, &able());
    assert_eq!(texts(&minimal), ["rx_usecs eth0 = 20"]);
    let careful = |plan: &Plan| {
        plan.settings.iter().all(|s| s.risk == Some(Risk::Safe) && s.upkeep == Some(Upkeep::Low))
    };
    assert!(careful(&minimal) && !careful(&full.plan));
}

/// Future interrupts once had the same number on two interfaces, and were banned with the first.
#[test]
fn queues_to_come_of_two_devices_are_two() {
    let (mut model, mut rates) = able();
    let mut second = model.nics[0].clone();
    second.name = "eth1".parse().expect("a name");
    let mut traffic = rates.nics[0].clone();
    traffic.name = second.name.clone();
    rates.nics.push(traffic);
    second.rx.iter_mut().flat_map(|queue| &mut queue.irqs).for_each(|irq| irq.number.0 += 10);
    model.nics.push(second);
    let banned_irqs = Fact::Known(Vec::new());
    model.irqbalance = Fact::Known(Some(Irqbalance { pid: 7, banned_irqs, ..Irqbalance::default() }));
    let plan = |model: &Model| Policy::Full.plan(model, &rates, &Options::default(), None).plan;
    let first = plan(&model);
    assert_eq!(only(&first, "irqbalance"), ["eth0 = banned", "eth1 = banned"]);
    assert_eq!(only(&first, "channels").len(), 2);
    assert_eq!(texts(&plan(&simulate(&model, &first))), [""; 0]);
}

#[test]
fn only_latency_takes_delays_away() {
    let (mut model, rates) = able();
    let nic = &mut model.nics[0];
    let coalesce = Coalesce { rx_usecs: Some(50), adaptive_rx: Some(true), ..Coalesce::default() };
    nic.hardware.coalesce = Fact::Known(coalesce);
    nic.napi.defer_hard_irqs = Fact::Known(2);
    nic.rx[0].rps_cpus = Fact::Known(cpus("2-3"));
    for (_, policy) in Policy::ALL {
        let plan = policy.plan(&model, &rates, &Options::default(), None).plan;
        let delays = only(&plan, "adaptive_rx").len() + only(&plan, "rx_usecs").len();
        let clock = only(&plan, "clocksource").len();
        match policy {
            Policy::Latency => {
                assert_eq!((delays, clock), (2, 1));
                assert_eq!(only(&plan, "napi_defer_hard_irqs"), ["eth0 = 0"]);
                assert_eq!(only(&plan, "rps"), ["eth0/rx-0 = off"]);
            }
            Policy::Full => assert_eq!((delays, clock), (0, 1)),
            _ => assert_eq!((delays, clock), (0, 0), "{policy}"),
        }
    }
}

/// They keep interrupts off while a program polls: without them it would compete with an interrupt for each packet.
#[test]
fn what_busy_polling_needs_is_left_alone() {
    let (mut model, rates) = able();
    model.nics[0].napi.defer_hard_irqs = Fact::Known(100);
    model.nics[0].napi.gro_flush_timeout_ns = Fact::Known(200_000);
    model.settings.busy_read = Fact::Known(50);
    let policed = Policy::Latency.plan(&model, &rates, &Options::default(), None);
    assert_eq!(only(&policed.plan, "napi_defer_hard_irqs"), [""; 0]);
    assert_eq!(only(&policed.plan, "gro_flush_timeout"), [""; 0]);
    let why = "moderation: napi_defer_hard_irqs and gro_flush_timeout of eth0 are left alone: they serve programs that \
               busy-poll (net.core.busy_read, net.core.busy_poll)";
    assert!(policed.reasons.contains(&why.to_owned()), "{:?}", policed.reasons);
    model.settings.busy_read = Fact::Known(0);
    let plan = Policy::Latency.plan(&model, &rates, &Options::default(), None).plan;
    assert_eq!(only(&plan, "gro_flush_timeout"), ["eth0 = 0"]);
}

#[test]
fn latency_names_the_idle_state_that_packets_wake_a_cpu_from() {
    let note = |exit_us: u32, runs: f64| {
        let sketch = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 2e3);
        let (mut model, rates) = sketch.receives(1, 0.02, 2e3).net_rx(1, runs).build();
        let state = |name: &str, exit_us| IdleState { name: name.to_owned(), exit_us, disabled: false };
        model.settings.idle_states = Fact::Known(vec![state("C1", 2), state("C6", exit_us)]);
        let plan = plan_of(Policy::Latency, &(model, rates));
        plan.notes.into_iter().find(|note| note.contains("C6"))
    };
    let found = note(133, 2e3).expect("idle for 490 us");
    assert!(
        found.starts_with("a packet that finds CPU 1 idle may wait 133 us until it leaves C6"),
        "{found}"
    );
    assert_eq!(note(133, 2e4), None, "idle for 49 us");
    assert_eq!(note(10, 2e3), None, "no request notices");
}

#[test]
fn a_device_of_the_hypervisor_gets_advice() {
    let (mut model, rates) = able();
    model.nics[0].hardware.function = Function::Paravirtual;
    let notes = |policy: Policy| policy.plan(&model, &rates, &Options::default(), None).plan.notes;
    assert!(notes(Policy::Minimal).iter().any(|note| note.contains("SR-IOV")));
    assert!(notes(Policy::NumaLocal).iter().all(|note| !note.contains("SR-IOV")));
}

#[test]
fn idle_devices_take_no_cpus_from_busy_ones() {
    let host = Sketch::new(8).device("eth0", &[7]).device("eth1", &[7]).traffic("eth1", 5e3).build();
    let policed = planned(Policy::NumaLocal, &host, &Options::default());
    assert_eq!(only(&policed.plan, "irq_affinity"), [""; 0], "CPU 7 is as near as any for eth1");
    assert_eq!(only(&policed.plan, "rps"), ["eth1/rx-0 = 0-6"]);
    assert_eq!(policed.reasons[0], "eth0 is idle and left alone; use --nic to include it");
    let named = of_nics(&["eth0"]);
    let plan = planned(Policy::NumaLocal, &host, &named).plan;
    assert_eq!(only(&plan, "rps"), ["eth0/rx-0 = 1-6"], "CPU 7 takes the interrupt of eth1");
    assert_eq!(only(&plan, "irq_affinity"), ["eth0/rx-0 = 0"], "and is not shared with it");
    let both = Sketch::new(8).device("eth0", &[1, 1]).device("eth1", &[0]).traffic("eth1", 5e3).build();
    assert_eq!(only(&planned(Policy::NumaLocal, &both, &named).plan, "irq_affinity"), ["eth0/rx-1 = 4"]);
    assert_eq!(only(&planned(Policy::Spread, &both, &named).plan, "irq_affinity"), ["eth0/rx-1 = 2"]);
    let veth = Sketch::new(8).veth("veth0").build();
    assert!(planned(Policy::Full, &veth, &of_nics(&["veth0"])).reasons[0].contains("policy spread"));
}

/// The documentation covers exactly the existing policies, and everything that a plan says.
#[test]
#[allow(clippy::disallowed_methods)] // Reads a file of the tree.
fn the_document_has_every_policy_and_every_word() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let text = std::fs::read_to_string(path).expect("docs/policies.md can be read");
    let named: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
    assert_eq!(named, Policy::ALL.map(|(name, _)| name));
    for (name, _) in Variable::ALL {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
    for word in ["safe", "brief stall", "link reset", "low", "medium", "high"] {
        assert!(text.contains(&format!("**{word}**")), "{word}");
    }
}

#[test]
fn names_read_as_they_are_written() {
    for (name, policy) in Policy::ALL {
        assert_eq!((name.parse(), policy.to_string().as_str()), (Ok(policy), name));
    }
    for (name, variable) in Variable::ALL {
        assert_eq!((name.parse(), variable.to_string().as_str()), (Ok(variable), name));
    }
    let error = "all".parse::<Policy>().expect_err("none");
    assert_eq!(error, "`all` is not one of spread, numa-local, isolate, latency, minimal, full");
}

/// No setting moves them, so their CPUs are not free.
#[test]
fn channels_signal_cpus_that_are_not_kept_clean() {
    let signalled = Sketch::new(8).device("eth0", &[6]).traffic("eth0", 5e4).channels("eth0", &[2]);
    let plan = plan_of(Policy::Isolate, &signalled.build());
    let note = |start: &str| plan.notes.iter().any(|note| note.starts_with(start));
    assert!(note("receive work on CPU 7, none on CPUs 0-1,3-6"), "{:?}", plan.notes);
    assert!(note("VMBus channels still signal CPU 2"), "{:?}", plan.notes);
}

#[test]
fn a_plan_of_interrupts_gives_no_reasons_of_masks() {
    let (model, rates) = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 5e4).build();
    let irq = Policy::Spread.plan(&model, &rates, &of_nics(&["eth0"]), Some(&[Variable::Irq]));
    assert_eq!(irq.reasons, ["irq: nothing to change"]);
    let (model, rates) = Sketch::new(2).veth("veth0").traffic("veth0", 5e4).build();
    let none = Policy::Spread.plan(&model, &rates, &of_nics(&["veth0"]), Some(&[Variable::Irq]));
    assert_eq!(none.reasons, ["irq: veth0 has no interrupts of its own"]);
}

/// "channels: nothing to change" was next to a finding about too few queues.
#[test]
fn queues_are_for_the_cores_of_the_node_of_the_device() {
    let sketch = Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3]).on_node("eth0", 0);
    let (model, rates) = sketch.queues_at_most("eth0", 8).traffic("eth0", 4e5).build();
    let planned = Policy::Full.plan(&model, &rates, &Options::default(), Some(&[Variable::Channels]));
    assert_eq!(planned.reasons, ["channels: 4 queues for 4 cores of its node"]);
}
