//! Samples of a machine that cover every column and every kind of absence.

use std::collections::BTreeMap;

use rxlab_base::parse::Container;
use rxlab_base::units::{CpuId, Fact, IrqId, QueueId};
use rxlab_probe::{
    Class, Cost, CpuInterference, Inference, Interference, IrqInterference, IrqOverhead, Method, NapiPolls,
    ThreadTime, Tier, Victim,
};

const MS: u64 = 1_000_000;

fn cpu(cpu: u32, classes: &[(Class, u64)]) -> CpuInterference {
    let all = Class::OF_RUNS.into_iter().chain([Class::ThreadedNapi, Class::BusyPoll]);
    let mut by_class: BTreeMap<Class, Fact<u64>> = all.map(|class| (class, Fact::Known(0))).collect();
    by_class.extend(classes.iter().map(|(class, ms)| (*class, Fact::Known(ms * MS))));
    CpuInterference {
        cpu: CpuId(cpu),
        net_rx_ns: Fact::Known(classes.iter().map(|(_, ms)| ms * MS).sum()),
        runs: Fact::Known(90_000),
        hard_irq_ns: Fact::Known(40 * MS),
        by_class,
        histogram: Fact::Known(vec![0; 32]),
        busy_polled: Fact::Known(0),
        packets: Fact::Known(400_000),
        hypervisor_ns: Fact::Known(10 * MS),
    }
}

fn victim(command: &str, pid: Option<u32>, classes: &[(Class, u64)]) -> Victim {
    let by_class: BTreeMap<Class, u64> = classes.iter().map(|(class, ms)| (*class, ms * MS)).collect();
    let known = |ns| if pid.is_some() { Fact::Known(ns) } else { Fact::Unsupported };
    Victim {
        command: command.to_owned(),
        pid,
        processes: if pid.is_some() { 1 } else { 13 },
        control_group: Fact::Known("/system.slice/shop.service".to_owned()),
        container: (command == "sender").then(|| Container {
            engine: "containerd".to_owned(),
            id: "4f9b0d1cbe6f".repeat(5) + "4f9b",
            pod: Some("1d5f0c9a-55b1-4a7c-9d39-0a6f6a1c7e11".to_owned()),
        }),
        unit: Some("shop.service".to_owned()),
        by_class,
        hard_irq_ns: 9 * MS,
        believed_ns: known(2_900 * MS),
        really_ns: known(1_100 * MS),
    }
}

/// Four CPUs under the load of a NIC and of RPS, measured.
pub(crate) fn measured() -> Interference {
    let napi = |cpu, napi, device: &str, queues: &[u32]| NapiPolls {
        cpu: CpuId(cpu),
        napi,
        device: device.to_owned(),
        queues: queues.iter().map(|index| QueueId::rx(*index)).collect(),
        polls: 81_220,
        packets: 400_120,
        full: 812,
    };
    Interference {
        schema: Interference::SCHEMA.to_owned(),
        tier: Tier::Ebpf,
        missing: None,
        exact_softirq_time: Fact::Known(false),
        seconds: 3.0,
        cpus: vec![
            cpu(0, &[(Class::NicIrq, 1_800), (Class::Idle, 12), (Class::OtherIrq, 2)]),
            cpu(1, &[(Class::RpsIpi, 640), (Class::Ksoftirqd, 300)]),
            cpu(2, &[(Class::SelfInflicted, 700)]),
            cpu(3, &[(Class::ThreadedNapi, 2_000), (Class::IrqThread, 100)]),
        ],
        victims: Fact::Known(vec![
            victim("shop worker\u{1b}[31m", Some(4711), &[(Class::NicIrq, 1_780), (Class::OtherIrq, 2)]),
            victim("make", None, &[(Class::RpsIpi, 640)]),
            victim("sender", Some(12), &[(Class::SelfInflicted, 700)]),
            victim("quiet", Some(13), &[]),
        ]),
        irqs: Fact::Known(vec![IrqInterference {
            cpu: CpuId(0),
            irq: IrqId(38),
            actions: vec!["virtio2-input.0".to_owned()],
            queue: Some("eth0/rx-0".to_owned()),
            ns: 38 * MS,
            count: 90_000,
            net_rx_ns: 1_812 * MS,
        }]),
        napis: Fact::Known(vec![
            napi(0, 513, "eth0", &[0]),
            napi(3, 700, "veth12", &[]),
            napi(1, 0, "", &[]),
            napi(2, 0, "eth0", &[]),
        ]),
        threads: vec![ThreadTime { name: "napi/veth12-700".to_owned(), pid: 99, ns: 2_050 * MS }],
        inference: vec![Inference {
            method: Method::Spin,
            cpu: CpuId(0),
            seconds: 3.0,
            believed: Fact::Known(0.96),
            missing: 0.68,
            interruptions: Fact::Known(91_000),
            waiting: Fact::Known(0.04),
            hypervisor: Fact::Known(0.01),
            inferred: 0.63,
            exact: Fact::Known(0.61),
            other_interrupts: Fact::Known(0.005),
            irq_overhead: Fact::Known(IrqOverhead { ns: 410, sender_ns: 1_200, rate: 29_000 }),
        }],
        cost: Fact::Known(Cost { ns: 120 * MS, runs: 640_000, missed: 3, of_ns: 3_000 * MS }),
        notes: vec!["a table was full 2 times: 0.1 ms are in the CPUs' time and name no process".to_owned()],
    }
}

/// The same machine for a user without access to eBPF.
pub(crate) fn counted() -> Interference {
    let unknown = |cpu: CpuInterference| CpuInterference {
        by_class: cpu
            .by_class
            .into_iter()
            .map(|(class, ns)| (class, if class == Class::Ksoftirqd { ns } else { Fact::Unsupported }))
            .collect(),
        histogram: Fact::Unsupported,
        busy_polled: Fact::Unsupported,
        ..cpu
    };
    let measured = measured();
    Interference {
        tier: Tier::Procfs,
        missing: Some("eBPF needs CAP_BPF and CAP_PERFMON, which root has".to_owned()),
        cpus: measured.cpus.into_iter().map(unknown).collect(),
        victims: Fact::Unsupported,
        irqs: Fact::Unsupported,
        napis: Fact::Unsupported,
        inference: vec![Inference {
            method: Method::Openssl,
            interruptions: Fact::NotAsked,
            waiting: Fact::Unsupported,
            exact: Fact::Unsupported,
            other_interrupts: Fact::Unsupported,
            irq_overhead: Fact::NotAsked,
            ..measured.inference[0].clone()
        }],
        cost: Fact::NotAsked,
        notes: vec!["NET_RX is the time of all softirqs here".to_owned()],
        ..measured
    }
}
