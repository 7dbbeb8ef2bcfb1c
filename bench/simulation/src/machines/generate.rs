//! A random machine from a seed. Most are small: each of their states comes up often then, and a run is short.

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::drivers::facts;

use super::drivers::{Bus, DRIVERS, Driver, Pairs, STRANGE, TABLE, driver};
use super::losses::lose;
use super::truth::{
    Counted, Cpu, Damage, Foreign, INTERRUPTS, Irq, Irqbalance, Kernel, Nic, Rx, Told, Truth, Tx, Upper,
};
use crate::random::Random;

impl Random {
    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        f64::from(self.below(1 << 20)) / f64::from(1 << 20)
    }
}

/// Receive time that the hottest CPU of a machine gets, as a fraction of wall time.
const HEAT: [f64; 8] = [0.002, 0.03, 0.12, 0.3, 0.45, 0.7, 0.9, 0.97];
/// Costs of a packet in microseconds.
const COSTS: [f64; 4] = [0.6, 2.0, 6.0, 20.0];
/// First number of an interrupt of a device.
const FIRST_IRQ: u32 = 24;

/// The machine of a seed.
pub(crate) fn generate(seed: u64) -> Truth {
    let random = &mut Random::new(seed);
    let kernel = random.pick(&Kernel::ALL);
    let mut truth = Truth {
        kernel,
        cpus: cpus(random),
        nohz: CpuMask::new(),
        cpuset: None,
        exclusive: CpuMask::new(),
        full: CpuMask::new(),
        nics: Vec::new(),
        uppers: Vec::new(),
        veths: Vec::new(),
        masks: Default::default(),
        flows: Default::default(),
        foreign: Vec::new(),
        irqbalance: None,
        sock_flows: random.pick(&[0, 0, 32_768]),
        losses: Vec::new(),
        has_tracking: false,
        cost: random.pick(&COSTS) * 1e-6,
        is_exact: random.percent(60),
        damage: if random.percent(20) { random.pick(&Damage::ALL) } else { Damage::Nothing },
    };
    reserve(random, &mut truth);
    nics(random, &mut truth);
    stack(random, &mut truth);
    masks(random, &mut truth);
    load(random, &mut truth);
    if random.percent(30) {
        irqbalance(random, &mut truth);
    }
    // Its own numbers: the machines without constraints stay as they are.
    constrain(&mut Random::new(seed.rotate_left(32) ^ 0x5eed), &mut truth);
    lose(&mut Random::new(seed.rotate_left(16) ^ 0x1055), &mut truth);
    vary(&mut Random::new(seed.rotate_left(8) ^ 0x5b17), &mut truth);
    truth
}

/// Adds what may not be done, to some machines.
fn constrain(random: &mut Random, truth: &mut Truth) {
    let before = truth.clone();
    if random.percent(8) {
        let slow = random.pick(&[406, 530, 1000]);
        let part = 1 + random.below(3);
        for cpu in &mut truth.cpus {
            cpu.capacity = Some(if cpu.core % 4 < part { slow } else { 1024 });
        }
    }
    for nic in &mut truth.nics {
        nic.has_xdp = ["ena", "virtio_net"].contains(&nic.driver.name) && random.percent(8);
        nic.is_fixed = nic.driver.bus == Bus::Pci && random.percent(4);
        nic.is_managed |= nic.is_fixed;
    }
    if random.percent(40) {
        // Pinned by hand there is another reason for a ban.
        let pinned = truth.nics.iter().flat_map(|nic| &nic.irqs).filter(|irq| irq.affinity.len() == 1);
        let pinned = pinned.fold(CpuMask::new(), |all, irq| all.union(&irq.affinity));
        let chosen: CpuMask = truth.online().iter().filter(|_| random.percent(30)).collect();
        if let Some(irqbalance) = &mut truth.irqbalance {
            irqbalance.banned_cpus = chosen.difference(&pinned);
        }
        if truth.usable().is_empty() {
            *truth = before.clone();
        }
    }
    if let Some(irqbalance) = &mut truth.irqbalance
        && irqbalance.told == Told::Nowhere
    {
        irqbalance.told = random.pick(&[Told::Environment, Told::Configuration, Told::Nowhere]);
        if truth.usable().is_empty() {
            *truth = before.clone();
        }
    }
    if random.percent(4) && truth.cpuset.is_none() {
        truth.exclusive = truth.online().iter().filter(|_| random.percent(40)).collect();
        if truth.usable().is_empty() {
            truth.exclusive = CpuMask::new();
        }
    }
    let online = truth.online();
    let nodes: Vec<u32> = truth.cpus.iter().map(|cpu| cpu.node).collect();
    for nic in &mut truth.nics {
        nic.half_node = nic.half.as_ref().map(|_| random.pick(&nodes));
        // Its name begins with that of the device.
        if nic.driver.bus == Bus::Platform && random.percent(30) {
            let action = format!("{}-1:00", nic.driver.bus.device(nic.number, &nic.function));
            let number = nic.irqs.last().map_or(FIRST_IRQ + nic.number * 300, |last| last.number + 1);
            let (affinity, lands) = (online.clone(), online.first().expect("one is online"));
            nic.irqs.push(Irq { number, action, affinity, lands });
        }
    }
    // Where the CPU of an interrupt cannot be seen, nothing shows that it did not move.
    if random.percent(6) && truth.damage == Damage::Nothing {
        exhaust(random, truth);
    }
}

/// Varies what other drivers do otherwise.
fn vary(random: &mut Random, truth: &mut Truth) {
    for nic in &mut truth.nics {
        nic.is_split = nic.driver.pairs == Pairs::Combined && nic.driver.bus == Bus::Pci && random.percent(4);
    }
    for loss in &mut truth.losses {
        if random.percent(40) {
            loss.place.count_as_error();
        }
    }
}

/// Sends some interrupts to CPUs that have no vectors left for them.
fn exhaust(random: &mut Random, truth: &mut Truth) {
    let usable: Vec<CpuId> = truth.usable().iter().collect();
    let full: CpuMask = usable.into_iter().filter(|_| random.percent(40)).collect();
    let is_fast = |nic: &Nic, irq: usize| {
        let queues = nic.rx.iter().filter(|queue| queue.irq == Some(irq));
        queues.map(|queue| queue.packets).sum::<f64>() >= 10.0
    };
    for nic in &mut truth.nics {
        for at in 0..nic.irqs.len() {
            let comes = is_fast(nic, at) && !full.contains(nic.irqs[at].lands);
            if comes && !nic.is_fixed && random.percent(60) && !full.is_empty() {
                nic.irqs[at].affinity = full.clone();
                truth.full = full.clone();
            }
        }
    }
}

/// A number from 1, mostly near it.
fn few(random: &mut Random, most: u32) -> u32 {
    let mut up_to = 2;
    while up_to < most && random.percent(50) {
        up_to *= 2;
    }
    1 + random.below(up_to.min(most))
}

/// The way the firmware numbers CPUs.
#[derive(Clone, Copy)]
enum Numbering {
    /// Threads of a core next to each other, node by node.
    Cores,
    /// First one thread of every core, then the others.
    Threads,
    /// The nodes in turn.
    Turns,
}

fn cpus(random: &mut Random) -> Vec<Cpu> {
    let most = random.pick(&[4, 4, 8, 8, 8, 16, 16, 32]);
    let most = if random.percent(3) { random.pick(&[128, 256, 1024]) } else { most };
    let threads = random.pick(&[1, 1, 2, 2, 2, 4]).min(most);
    let nodes = few(random, 8.min(most / threads));
    let cores = 1 + random.below(most / threads / nodes);
    let numbering = random.pick(&[Numbering::Cores, Numbering::Threads, Numbering::Turns]);
    let (stride, of_nodes) = (random.pick(&[1, 1, 1, 1, 2, 8]), random.pick(&[1, 1, 1, 8]));
    let of_cache = random.pick(&[2, 4, u32::MAX]).min(cores);
    let has_offline = random.percent(25);
    let count = nodes * cores * threads;
    let stride = if count * stride > 1024 { 1 } else { stride };
    let programs = random.pick(&[&[0.02][..], &[0.0, 0.3], &[0.02, 0.4, 0.97], &[0.8]]);
    let cpu = |number: u32| {
        let (node, core) = match numbering {
            Numbering::Cores => (number / (cores * threads), number / threads),
            Numbering::Threads => (number % (nodes * cores) / cores, number % (nodes * cores)),
            Numbering::Turns => (number % nodes, number % nodes * cores + number / nodes / threads),
        };
        Cpu {
            id: CpuId(number * stride),
            node: node * of_nodes,
            core,
            cache: node * 1024 + core % cores / of_cache,
            online: number == 0 || !has_offline || !random.percent(15),
            isolated: false,
            capacity: None,
            program: random.pick(programs),
        }
    };
    (0..count).map(cpu).collect()
}

/// Sets CPUs apart in one of the ways that there are, but not all.
fn reserve(random: &mut Random, truth: &mut Truth) {
    let part = random.pick(&[20, 50, 80]);
    let mut some = |truth: &Truth| -> CpuMask {
        truth.cpus.iter().map(|cpu| cpu.id).filter(|_| random.percent(part)).collect()
    };
    let before = truth.clone();
    let chosen = some(truth);
    match random.below(10) {
        0 => truth.cpus.iter_mut().for_each(|cpu| cpu.isolated = chosen.contains(cpu.id)),
        1 => {
            truth.cpus.iter_mut().for_each(|cpu| cpu.isolated = chosen.contains(cpu.id));
            truth.nohz = chosen;
        }
        2 => truth.nohz = chosen,
        3 => truth.cpuset = Some(chosen.intersection(&truth.online())),
        _ => {}
    }
    if truth.usable().is_empty() {
        *truth = before;
    }
}

fn nics(random: &mut Random, truth: &mut Truth) {
    let count = if random.percent(60) { 1 } else { few(random, 8) };
    // One machine, one cloud: its paravirtual devices are of one kind.
    let kind = random.pick(&["", "", "virtio_net", "hv_netvsc", "vif", "ena"]);
    while truth.nics.len() < count as usize {
        let driver = match kind {
            "" => match random.below(10) {
                0..=4 => random.pick(&DRIVERS.each_ref()),
                5..=8 => random.pick(&TABLE.iter().collect::<Vec<_>>()),
                _ => random.pick(&STRANGE.each_ref()),
            },
            kind => self::driver(kind),
        };
        let at = truth.nics.len();
        if at > 0 && driver.name == "hv_netvsc" && random.percent(50) {
            continue;
        }
        add(random, truth, driver);
        if driver.name == "hv_netvsc" && random.percent(50) {
            let below = random.pick(&["mlx5_core", "mana", "mlx4_core"]);
            add(random, truth, self::driver(below));
            let master = truth.nics[at].name.clone();
            let function = truth.nics.last_mut().expect("just added");
            function.master = Some(master);
        }
    }
    rename(random, truth);
}

/// Swaps the names of two interfaces whose interrupts keep those that the kernel gave them.
fn rename(random: &mut Random, truth: &mut Truth) {
    let is_renamed = |nic: &Nic| {
        facts(Some(nic.driver.name)).is_named_at_probe && nic.name.starts_with("eth") && nic.master.is_none()
    };
    let mut renamed = truth.nics.iter_mut().filter(|nic| is_renamed(nic));
    if let (Some(one), Some(other)) = (renamed.next(), renamed.next())
        && random.percent(50)
    {
        std::mem::swap(&mut one.name, &mut other.name);
    }
}

/// Placement of interrupts by a driver, an administrator or irqbalance.
#[derive(Clone, Copy)]
enum Placement {
    /// One on each CPU from the first on.
    Each,
    /// All on one CPU.
    One,
    /// On CPUs of this node, in turn.
    Node(u32),
    /// Each on a random CPU.
    Anywhere,
}

fn add(random: &mut Random, truth: &mut Truth, driver: &'static Driver) {
    let at = u32::try_from(truth.nics.len()).expect("few");
    let online: Vec<CpuId> = truth.online().iter().collect();
    let cpus = u32::try_from(online.len()).expect("few");
    let most = driver.most.min(if random.percent(80) { cpus.max(2) } else { cpus * 2 });
    let queues = few(random, most);
    let node = random.pick(&truth.cpus.iter().map(|cpu| cpu.node).collect::<Vec<_>>());
    let placement = match random.below(6) {
        0 | 1 => Placement::Each,
        2 => Placement::One,
        3 => Placement::Node(node),
        4 => Placement::Node(random.pick(&truth.cpus.iter().map(|cpu| cpu.node).collect::<Vec<_>>())),
        _ => Placement::Anywhere,
    };
    let one = random.pick(&online);
    let lands = |random: &mut Random, turn: u32| match placement {
        Placement::Each => online[turn as usize % online.len()],
        Placement::One => one,
        Placement::Node(node) => {
            let own: Vec<CpuId> = truth.of_node(node).intersection(&truth.online()).iter().collect();
            if own.is_empty() { one } else { own[turn as usize % own.len()] }
        }
        Placement::Anywhere => random.pick(&online),
    };
    let name = if random.percent(80) { format!("eth{at}") } else { format!("enp{}s0f{at}np{at}", 65 + at) };
    let function = format!("0000:{:02x}:00.{}", 0x10 + at, at % 8);
    // Two ports of one function.
    let port = truth.nics.last().filter(|last| std::ptr::eq(last.driver, driver) && !driver.shares);
    let port = port.filter(|_| driver.bus == Bus::Pci && random.percent(40)).cloned();
    let function = port.as_ref().map_or(function, |port| port.function.clone());
    let is_listed = matches!(driver.bus, Bus::Pci | Bus::Virtio) && random.percent(85);
    // Where there is no list of the interrupts of a function, its directory is hidden.
    let node = (driver.bus == Bus::Pci && is_listed && random.percent(80)).then_some(node);
    let (is_listed, node) = port.as_ref().map_or((is_listed, node), |port| (port.is_listed, port.node));
    let spans =
        driver.name == "mlx5_core" && truth.kernel >= Kernel::V6_18 && queues > 1 && random.percent(15);
    let own = Nic {
        ifindex: 2 + at,
        driver,
        number: at,
        counts: (random.pick(&[0, 0, 1, 3]), random.pick(&[1, 1, 2])),
        half: spans.then(|| format!("0000:{:02x}:00.0", 0x80 + at)),
        name: name.clone(),
        function: function.clone(),
        ..Nic::default()
    };
    let is_wide = random.percent(30);
    let mut number = FIRST_IRQ + at * 300;
    let mut irqs: Vec<Irq> = Vec::new();
    let mut push = |action: String, lands: CpuId| {
        let affinity = if is_wide { truth.online() } else { lands.into() };
        irqs.push(Irq { number, action, affinity, lands });
        number += 1;
        irqs.len() - 1
    };
    let (mut rx, mut tx) = (Vec::new(), Vec::new());
    for queue in 0..queues {
        let cpu = lands(random, queue);
        let (irq, signal) = match driver.bus {
            Bus::Vmbus => (None, Some(cpu)),
            _ if driver.has_one_for_all && queue > 0 => (Some(0), None),
            _ => (Some(push(own.action(driver.rx, queue, queues), cpu)), None),
        };
        let sends = driver.tx.map(|name| push(own.action(name, queue, queues), lands(random, queue)));
        rx.push(Rx { irq, signal, rps: CpuMask::new(), flows: 0, packets: 0.0, interrupts: 0.0 });
        tx.push(Tx { irq: sends, xps: CpuMask::new() });
    }
    // An interrupt of the function is there once.
    let name = driver.own.map(|name| own.action(name, 0, queues));
    if let Some(name) = name.filter(|name| port.is_none() || name.contains(&own.name)) {
        push(name, one);
    }
    let counted = match random.below(3) {
        0 => Counted::Nowhere,
        1 if truth.kernel >= Kernel::V6_18 => Counted::ByKernel,
        _ if driver.statistic.is_some() => Counted::ByDriver,
        _ => Counted::Nowhere,
    };
    let table: Vec<u32> = match queues {
        1 => Vec::new(),
        _ if random.percent(30) => Vec::new(),
        _ => (0..128).map(|entry| entry % queues).collect(),
    };
    // gve asks for the interrupts of all queues that it may have.
    let spare = if driver.name == "gve" { 0 } else { random.pick(&[0, 0, 1, 8, 64]) };
    let max_queues = (queues + spare).min(driver.most);
    // Until 6.5 as many event queues as there may be channels, when it is loaded (mlx5_eq_table_create, mlx5e_get_max_num_channels);
    // since then, each when a channel is opened (f14c1a14e632, "net/mlx5: Allocate completion EQs dynamically").
    // The blocks of gve are those that it has found vectors for, whatever the number of queues (gve_alloc_notify_blocks).
    let keeps_vectors = match driver.name {
        "mlx5_core" => truth.kernel < Kernel::V6_8,
        name => name == "gve",
    };
    for queue in (queues..max_queues).filter(|_| keeps_vectors) {
        push(own.action(driver.rx, queue, queues), lands(random, queue));
    }
    truth.nics.push(Nic {
        node,
        max_queues,
        rx,
        tx,
        irqs,
        keeps_vectors,
        harmless: Vec::new(),
        is_told: truth.kernel >= Kernel::V6_8 && random.percent(50) && truth.damage != Damage::NetlinkDenied,
        is_listed,
        is_managed: random.percent(5),
        is_fixed: false,
        has_xdp: false,
        is_split: false,
        counted,
        table,
        delay: random.percent(70).then(|| (random.pick(&[0, 1, 3, 8, 20, 50]), random.percent(40))),
        ..own
    });
}

/// Bonds, VLANs and bridges on the devices, and veths of containers.
fn stack(random: &mut Random, truth: &mut Truth) {
    let devices: Vec<String> =
        truth.nics.iter().filter(|nic| nic.master.is_none()).map(|nic| nic.name.clone()).collect();
    let mut ifindex = 100;
    let mut add = |truth: &mut Truth, name: &str, kind, lower| {
        ifindex += 1;
        truth.uppers.push(Upper { name: name.to_owned(), ifindex, kind, lower });
    };
    let mut top = devices[0].clone();
    if devices.len() > 1 && random.percent(30) {
        add(truth, "bond0", "bond", devices[..2].to_vec());
        top = "bond0".to_owned();
    }
    if random.percent(25) {
        add(truth, "vlan7", "vlan", vec![top]);
    }
    if random.percent(15) {
        truth.veths = (0..1 + random.below(3)).map(|at| (format!("veth{at}"), 200 + at)).collect();
        let ends = truth.veths.iter().map(|(name, _)| name.clone()).collect();
        add(truth, "br0", "bridge", ends);
    }
    if random.percent(8) {
        let cpu = random.pick(&truth.online().iter().collect::<Vec<_>>());
        let action = "virtio99-input.0".to_owned();
        let irq = Irq { number: 5000, action, affinity: cpu.into(), lands: cpu };
        truth.foreign.push(Foreign { irq, packets: 0.0 });
    }
}

/// Values that someone has set: masks, tables, transmit queues.
fn masks(random: &mut Random, truth: &mut Truth) {
    let isolated: CpuMask = truth.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect();
    // The kernel keeps these out of masks (rps_cpumask_housekeeping), but not CPUs that are offline.
    let dropped = isolated.union(&truth.nohz);
    let all: Vec<CpuId> = truth.cpus.iter().map(|cpu| cpu.id).filter(|cpu| !dropped.contains(*cpu)).collect();
    let online = truth.online();
    for nic in &mut truth.nics {
        let part = random.pick(&[20, 60, 100]);
        let same: CpuMask = all.iter().copied().filter(|_| random.percent(part)).collect();
        let style = random.below(10);
        let flows = random.pick(&[0, 0, 2048]);
        let queues = u32::try_from(nic.rx.len()).expect("few");
        for at in 0..nic.rx.len() {
            let home = nic.home(&nic.rx[at]);
            let queue = &mut nic.rx[at];
            queue.flows = flows;
            queue.rps = match style {
                0 => same.clone(),
                1 => all.iter().copied().filter(|cpu| Some(*cpu) != home && random.percent(part)).collect(),
                2 if !all.is_empty() => random.pick(&all).into(),
                _ => CpuMask::new(),
            };
        }
        nic.share_first();
        if queues > 1 && random.percent(30) {
            for (at, cpu) in online.iter().enumerate() {
                nic.tx[at % queues as usize].xps.insert(cpu);
            }
        }
    }
}

/// Packets of every queue, so that the hottest CPU is as hot as it should be.
fn load(random: &mut Random, truth: &mut Truth) {
    let heat = random.pick(&HEAT);
    let has_function: Vec<String> = truth.nics.iter().filter_map(|nic| nic.master.clone()).collect();
    for nic in truth.nics.iter_mut().filter(|nic| !has_function.contains(&nic.name)) {
        let all = random.pick(&[1.0, 1.0, 0.3, 0.0]);
        let uneven = random.pick(&[0.02, 0.3, 1.0]);
        let elephant = random.percent(25).then(|| random.below(nic.rx.len() as u32) as usize);
        for (at, queue) in nic.rx.iter_mut().enumerate() {
            let own = 1.0 - uneven * random.part();
            queue.packets = all
                * if elephant == Some(at) {
                    random.pick(&[1.5, 3.0, 10.0]) * (1.0 + 3.0 * random.part())
                } else {
                    own
                };
        }
    }
    truth.foreign.iter_mut().for_each(|foreign| foreign.packets = random.part());
    let hottest = truth.hottest();
    if hottest == 0.0 {
        return;
    }
    let queues = truth.nics.iter_mut().flat_map(|nic| &mut nic.rx).map(|queue| &mut queue.packets);
    let all = queues.chain(truth.foreign.iter_mut().map(|foreign| &mut foreign.packets));
    // Whole numbers: counters count nothing else.
    all.for_each(|packets| *packets = (*packets * heat / hottest).round());
    let queues = truth.nics.iter_mut().flat_map(|nic| &mut nic.rx);
    queues.for_each(|queue| queue.interrupts = queue.packets * INTERRUPTS);
}

fn irqbalance(random: &mut Random, truth: &mut Truth) {
    let irqs = truth.nics.iter().flat_map(|nic| &nic.irqs).map(|irq| irq.number);
    let banned = if random.percent(30) { irqs.take(20).collect() } else { Vec::new() };
    let banned_cpus = CpuMask::new();
    let told = if random.percent(80) { Told::Socket } else { Told::Nowhere };
    truth.irqbalance = Some(Irqbalance { banned, banned_cpus, told });
}
