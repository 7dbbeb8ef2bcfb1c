//! Planning time on a large machine: `cargo run --release --example planner [CPUS [QUEUES [RUNS]]]`, 1024, 64
//! and 21 by default.
//!
//! The machine is a value: 8 nodes, two threads per core, one device with a transmit queue for each receive
//! queue. All its interrupts are on CPU 0, so every step has something to change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rxlab_advise::plan::{Options, Policy};
use rxlab_base::units::{CpuId, CpuMask, IrqId};
use rxlab_path::model::{
    Cpu, CpuRates, DeviceAddress, Fact, Identity, Irq, Irqbalance, Model, Nic, NicKind, NicRates, Rates,
    RxQueue, TxQueue,
};

const NODES: u32 = 8;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let defaults: [u32; 3] = [1024, 64, 21];
    let [cpus, queues, runs] = defaults.map(|default| numbers.next().unwrap_or(default));
    let (cpus, queues, runs) = (cpus.max(NODES), queues.max(1), runs.max(1));
    let (model, rates) = (model(cpus, queues), rates(cpus));
    println!("{cpus} CPUs, {queues} queues; wall time of {runs} runs in ms");
    for (name, policy) in Policy::ALL {
        let mut settings = 0;
        let mut times: Vec<Duration> = (0..runs)
            .map(|_| {
                let began = Instant::now();
                settings = policy.plan(&model, &rates, &Options::default(), None).plan.settings.len();
                began.elapsed()
            })
            .collect();
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:<12} {settings:4} settings  median {:6.2}  min {:6.2}  max {:6.2}",
            ms(times[times.len() / 2]),
            ms(times[0]),
            ms(times[times.len() - 1])
        );
    }
}

fn model(cpus: u32, queues: u32) -> Model {
    let of_node = cpus.div_ceil(NODES);
    let cpu = |id: u32| {
        let first = id / of_node * of_node;
        Cpu {
            id: CpuId(id),
            online: true,
            isolated: false,
            core: Some(id / 2),
            package: Some(id / of_node),
            siblings: [id & !1, id | 1].map(CpuId).into_iter().collect(),
            l3: (first..cpus.min(first + of_node)).map(CpuId).collect(),
            node: Some(id / of_node),
            capacity: None,
        }
    };
    let address = DeviceAddress("pci:0000:00:03.0".to_owned());
    let mut nic = Nic::new("eth0".parse().expect("a name"), address, NicKind::Device);
    nic.driver = Some("virtio_net".to_owned());
    nic.rx = (0..queues)
        .map(|index| RxQueue {
            index,
            rps_cpus: Fact::Known(CpuMask::new()),
            rps_flow_cnt: Fact::Known(0),
            irqs: vec![on_cpu_0(100 + 2 * index, &format!("virtio0-input.{index}"))],
            ..RxQueue::default()
        })
        .collect();
    nic.other_irqs =
        (0..queues).map(|index| on_cpu_0(101 + 2 * index, &format!("virtio0-output.{index}"))).collect();
    nic.tx = (0..queues)
        .map(|index| TxQueue { index, xps_cpus: Fact::Known(CpuMask::new()), xps_by_rxq: Fact::Known(false) })
        .collect();
    let irqbalance = Irqbalance { pid: 70, banned_irqs: Fact::Known(Vec::new()), ..Irqbalance::default() };
    Model {
        schema: Model::SCHEMA.to_owned(),
        identity: Identity { hostname: "bench".to_owned(), ..Identity::default() },
        cpus: (0..cpus).map(cpu).collect(),
        nics: vec![nic],
        rps_sock_flow_entries: Fact::Known(0),
        irqbalance: Fact::Known(Some(irqbalance)),
        ..Model::default()
    }
}

fn on_cpu_0(number: u32, action: &str) -> Irq {
    let only: CpuMask = [CpuId(0)].into_iter().collect();
    Irq {
        number: IrqId(number),
        action: action.to_owned(),
        affinity: Fact::Known(only.clone()),
        effective: Fact::Known(only),
        ..Irq::default()
    }
}

fn rates(cpus: u32) -> Rates {
    let cpu = |id: u32| CpuRates {
        cpu: CpuId(id),
        user: 0.1,
        system: 0.1,
        softirq: if id == 0 { 0.9 } else { 0.01 },
        idle: 0.5,
        net_rx: 1e3,
        packets: 1e4,
        ..CpuRates::default()
    };
    Rates {
        seconds: 2.0,
        cpus: (0..cpus).map(cpu).collect(),
        nics: vec![NicRates {
            name: "eth0".parse().expect("a name"),
            rx_packets: 1e7,
            counts_forwarded: false,
            to_queues: None,
            rx_bytes: 2e9,
            tx_packets: 1e7,
            tx_bytes: 2e9,
            rx_dropped: 0.0,
            rx_missed: 0.0,
            losses: BTreeMap::new(),
            unread: None,
            queues: BTreeMap::new(),
            limited: BTreeMap::new(),
            queue_drops: BTreeMap::new(),
        }],
        exact_softirq_time: Some(false),
        ..Rates::default()
    }
}
