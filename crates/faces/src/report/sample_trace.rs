//! Summary of a timeline that covers every column.

use rxlab_base::units::{CpuId, Fact, IrqId, QueueId};
use rxlab_probe::trace::{Burst, Cause, CpuTrace, IrqTrace, LongRun, Run, Spread, ThreadTrace, Trace};
use rxlab_probe::{Class, Cost, NapiPolls};

const US: u64 = 1_000;

fn spread(count: u64, p50: u64, p99: u64, max: u64) -> Spread {
    Spread { count, p50_ns: p50 * US, p99_ns: p99 * US, max_ns: max * US }
}

fn run(cpu: u32, ns: u64, cause: Cause, task: &str, pid: u32) -> LongRun {
    let (interrupts_ns, task) = (ns / 10, task.to_owned());
    let run = Run { interrupts_ns, cause, task, pid, polls: 12, full: 3, packets: 700, backlog: 20 };
    LongRun { cpu: CpuId(cpu), at_ns: 123_456_789 + ns, ns, run }
}

/// Two CPUs: one receives packets from a NIC, the other by RPS.
pub(super) fn traced() -> Trace {
    let cpu = |cpu, lost, squeezed, runs| CpuTrace {
        cpu: CpuId(cpu),
        lost,
        runs,
        net_rx_ns: 312_000 * US,
        interrupts_ns: 2_000 * US,
        polls: 81_000,
        packets: 400_120,
        backlog: 12,
        full_polls: 812,
        squeezed,
        bursts: spread(400, 90, 900, 12_000),
    };
    let by = |class, irq| Cause { class, irq };
    let idle = run(1, 800 * US, by(Class::SelfInflicted, None), "swapper/1", 0);
    Trace {
        schema: Trace::SCHEMA.to_owned(),
        seconds: 1.0,
        events: 1_234_567,
        lost: 0,
        cut: 0,
        cpus: vec![
            cpu(0, 0, Fact::Known(7), spread(80_000, 3, 40, 2_100)),
            cpu(1, 0, Fact::Unsupported, Spread::default()),
        ],
        burst_gap_ns: 100 * US,
        bursts: vec![Burst {
            cpu: CpuId(0),
            at_ns: 700_000 * US,
            ns: 12_000 * US,
            runs: 1_300,
            packets: 9_000,
        }],
        longest: vec![
            run(0, 2_100 * US, by(Class::NicIrq, Some(38)), "shop\u{1b}[31m worker", 4711),
            run(1, 900 * US, by(Class::RpsIpi, None), "ksoftirqd/1", 22),
            LongRun { run: Run { interrupts_ns: 0, full: 0, ..idle.run }, ..idle },
        ],
        irqs: vec![IrqTrace {
            irq: IrqId(38),
            cpu: CpuId(0),
            actions: vec!["virtio2-input.0".to_owned()],
            queue: Some("eth0/rx-0".to_owned()),
            count: 90_000,
            ns: 40_000 * US,
            gaps: spread(89_999, 9, 110, 48_000),
            runs: 79_000,
            packets: 400_120,
        }],
        napis: vec![NapiPolls {
            cpu: CpuId(0),
            napi: 513,
            device: "eth0".to_owned(),
            queues: vec![QueueId::rx(0)],
            polls: 81_000,
            packets: 400_120,
            full: 812,
        }],
        threads: vec![ThreadTrace {
            name: "ksoftirqd/1".to_owned(),
            pid: 22,
            wakeups: 31,
            delays: spread(30, 6, 4_000, 4_000),
            runs: spread(33, 50, 900, 2_000),
            ns: 9_000 * US,
        }],
        cost: Fact::Known(Cost { ns: 120_000 * US, runs: 1_300_000, missed: 0, of_ns: 1_000_000 * US }),
        notes: vec!["this kernel does not tell when it is in an interrupt".to_owned()],
    }
}

/// The same with a ring buffer that was too small, on a kernel that does not report the cost of programs.
pub(super) fn full() -> Trace {
    let mut trace = traced();
    trace.lost = 40_000;
    trace.cut = 211;
    trace.cpus[1].lost = 40_000;
    trace.cost = Fact::Unsupported;
    trace
}
