//! Rates between two samples: counters that wrap, restart or are missing.

use std::collections::BTreeMap;

use super::{IntervalError, NicRates, Rates};
use crate::sample::{Counters, CpuCounters, Inventory, NapiThread, NicCounters, Scope};
use rxlab_base::parse::{CpuTimes, QueueCounters, SoftnetRow};
use rxlab_base::units::{CpuId, Fact, NicName};
use rxlab_sys::RecordedHost;

fn counters(seconds: u64, cpus: &[(u32, CpuTimes, CpuCounters)]) -> Counters {
    Counters {
        times: Fact::Known(cpus.iter().map(|(cpu, times, _)| (CpuId(*cpu), *times)).collect()),
        cpus: Fact::Known(cpus.iter().map(|(cpu, _, events)| (CpuId(*cpu), *events)).collect()),
        softnet: Fact::Known(()),
        ..Counters::unread(seconds * 1_000_000_000)
    }
}

fn times(idle: u64, softirq: u64) -> CpuTimes {
    CpuTimes { idle, softirq, ..CpuTimes::default() }
}

#[test]
fn interrupts_that_have_never_fired_are_noted() {
    let table = "  CPU0 CPU1\n 30: 0 0 PCI-MSI 0-edge eth0-0\n 31: 0 5 PCI-MSI 1-edge eth0-1\n";
    let interrupts = rxlab_base::parse::interrupts(table).expect("a table");
    let at = |seconds| Counters {
        interrupts: Fact::Known(interrupts.clone()),
        ..counters(seconds, &[0, 1].map(|cpu| (cpu, times(seconds * 100, 0), CpuCounters::default())))
    };
    let rates = Rates::between(&at(10), &at(20)).expect("an interval");
    assert_eq!(rates.unfired, [rxlab_base::units::IrqId(30)].into());
}

/// A thread that stays, one that moves to another CPU, and one that started meanwhile.
#[test]
fn threads_that_poll_count_where_they_ran() {
    let at = |seconds, threads: &[(u32, u64, u32)]| {
        let cpus = [0, 1].map(|cpu| (cpu, times(seconds * 100, 0), CpuCounters::default()));
        let mut counters = counters(seconds, &cpus);
        counters.napi_threads = threads
            .iter()
            .map(|(pid, ran_ms, cpu)| {
                let (ran_ns, cpu, is_cpumap) = (ran_ms * 1_000_000, CpuId(*cpu), *pid == 93);
                (*pid, NapiThread { ran_ns, cpu, is_pinned: *pid == 90 || is_cpumap, is_cpumap })
            })
            .collect();
        counters
    };
    let before = at(10, &[(90, 500, 0), (91, 7_000, 0)]);
    let after = at(20, &[(90, 3_500, 0), (91, 9_000, 1), (92, 900, 1)]);
    let rates = Rates::between(&before, &after).expect("an interval");
    assert_eq!(rates.cpus.iter().map(|cpu| cpu.napi).collect::<Vec<_>>(), [0.4, 0.1]);
    assert_eq!(rates.pinned_napi, [(CpuId(0), vec![90])].into());
    let redirected = |ran| at(if ran > 0 { 20 } else { 10 }, &[(90, 500, 0), (93, ran, 1)]);
    let rates = Rates::between(&redirected(0), &redirected(8_200)).expect("an interval");
    let threads: Vec<_> = rates.cpus.iter().map(|cpu| (cpu.napi, cpu.cpumap)).collect();
    assert_eq!(threads, [(0.0, 0.0), (0.82, 0.82)], "an XDP program redirects to CPU 1");
    assert!(rates.pinned_napi.is_empty(), "it cannot be moved");
}

#[test]
fn an_interface_that_unseen_threads_poll_is_a_gap() {
    let inventory = |threaded: &str, polls: &str| {
        let host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with("sys/class/net/eth0/threaded", threaded)
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("proc/2/comm", "kthreadd\n")
            .with("proc/90/comm", polls)
            .with("proc/90/schedstat", "9 9 9\n");
        Inventory::take(&host, Scope::Load)
    };
    let eth0: NicName = "eth0".parse().expect("a name");
    let seen = |threaded, polls, packets| {
        let at = |seconds, packets| {
            let mut counters = counters(seconds, &[(0, times(seconds * 100, 0), CpuCounters::default())]);
            let nic = NicCounters { rx_packets: packets, ..NicCounters::default() };
            counters.nics.insert(eth0.clone(), nic);
            counters
        };
        let rates = Rates::between(&at(1, 0), &at(2, packets)).expect("an interval");
        let rates = rates.accounted(&inventory(threaded, polls));
        let said = rates.gaps.iter().any(|gap| gap.starts_with("eth0 is polled by threads"));
        assert_eq!(said, !rates.unseen.is_empty(), "{:?}", rates.gaps);
        rates.unseen
    };
    assert_eq!(seen("1\n", "sh\n", 9), std::slice::from_ref(&eth0));
    assert_eq!(seen("1\n", "napi/eth0-7\n", 9), [], "one is seen");
    assert_eq!(seen("1\n", "sh\n", 0), [], "no packets, no polls");
    assert_eq!(seen("0\n", "sh\n", 9), []);
}

/// mlx5 with virtual functions behind its switch: the interface of the wire counts what it receives there (mlx5e_get_stats).
#[test]
fn what_no_queue_takes_is_kept_by_the_device() {
    let name: NicName = "eth0".parse().expect("a name");
    let base = "sys/class/net/eth0";
    let host = RecordedHost::new()
        .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
        .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
        .with(&format!("{base}/queues/rx-1/rps_cpus"), "0\n");
    let to_cpus = |rx_packets, queues: &[(u32, u64)]| {
        let at = |seconds: u64| {
            let counted =
                |packets: u64| QueueCounters { packets: packets * seconds, ..QueueCounters::default() };
            let rx_queues = queues.iter().map(|(queue, packets)| (*queue, counted(*packets))).collect();
            let nic = NicCounters { rx_packets: rx_packets * seconds, rx_queues, ..NicCounters::default() };
            let cpu = (0, times(seconds * 100, 0), CpuCounters::default());
            Counters { nics: [(name.clone(), nic)].into(), ..counters(seconds, &[cpu]) }
        };
        let rates = Rates::between(&at(1), &at(2)).expect("an interval");
        rates.accounted(&Inventory::take(&host, Scope::Load)).rx_packets(&name)
    };
    assert_eq!(to_cpus(5_000_000, &[(0, 385_000), (1, 15_000)]), 400_000.0);
    assert_eq!(to_cpus(5_000_000, &[(0, 385_000)]), 5_000_000.0, "rx-1 is not counted");
    assert_eq!(to_cpus(5_000_000, &[(0, 4_000_000), (1, 500_000)]), 5_000_000.0, "not read at one time");
}

#[test]
fn softnet_counters_wrap_at_32_bits() {
    let row = |processed| SoftnetRow { processed, ..SoftnetRow::default() };
    let packets = |processed| CpuCounters { softnet: row(processed), ..CpuCounters::default() };
    let a = counters(1, &[(0, times(0, 0), packets(u32::MAX - 9))]);
    let b = counters(3, &[(0, times(100, 100), packets(10))]);
    let rates = Rates::between(&a, &b).expect("an interval");
    assert_eq!(rates.cpus[0].packets, 10.0);
    assert_eq!((rates.cpus[0].softirq, rates.cpus[0].idle), (0.5, 0.5));
    assert_eq!(rates.gaps, ["interrupt counts: /proc/interrupts is missing"]);
}

/// Idle vectors are left out, and the network's have fields of their own.
#[test]
fn other_softirqs_go_by_name() {
    let runs = |softirqs| CpuCounters { softirqs, ..CpuCounters::default() };
    let a = counters(1, &[(0, times(0, 0), runs([5, 250, 0, 10, 7, 0, 0, 0, 0, 9]))]);
    let b = counters(3, &[(0, times(9, 0), runs([5, 750, 4, 90, 8, 0, 0, 0, 0, 9]))]);
    let rates = Rates::between(&a, &b).expect("an interval");
    let expected = [("TIMER", 250.0), ("BLOCK", 0.5)].map(|(name, rate)| (name.to_owned(), rate));
    assert_eq!(rates.cpus[0].other_softirqs, expected.into());
}

/// Zero is a count too; a state that was not counted before has no rate.
#[test]
fn entries_into_idle_states_go_by_name() {
    let at = |seconds, entries: &[(&str, u64)]| {
        let mut counters = counters(seconds, &[(0, times(seconds, 0), CpuCounters::default())]);
        let entries = entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        counters.deep_idle.insert(CpuId(0), entries);
        counters
    };
    let (a, b) = (at(1, &[("C6", 500), ("C7", 3)]), at(3, &[("C6", 900), ("C7", 3), ("C8", 70)]));
    let rates = Rates::between(&a, &b).expect("an interval");
    let expected = [("C6", 200.0), ("C7", 0.0)].map(|(name, rate)| (name.to_owned(), rate));
    assert_eq!(rates.cpus[0].deep_idle, expected.into());
}

#[test]
fn a_cpu_that_came_or_went_is_left_out() {
    let none = CpuCounters::default();
    let a = counters(1, &[(0, times(0, 0), none), (1, times(0, 0), none)]);
    let b = counters(2, &[(0, times(9, 0), none), (2, times(5, 0), none)]);
    let rates = Rates::between(&a, &b).expect("an interval");
    assert_eq!(rates.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [CpuId(0)]);
}

/// Its counts are from before it went offline, not from this interval.
#[test]
fn interrupts_of_a_cpu_that_came_are_left_out() {
    let at = |seconds, text: &str| Counters {
        interrupts: Fact::Known(rxlab_base::parse::interrupts(text).expect("valid")),
        ..counters(seconds, &[(0, times(seconds, 0), CpuCounters::default())])
    };
    let a = at(1, "CPU0\n 5: 0 chip 1-edge eth0\n");
    let b = at(2, "CPU0 CPU1\n 5: 7 9000 chip 1-edge eth0\n");
    let rates = Rates::between(&a, &b).expect("an interval");
    assert_eq!(rates.irqs[0].per_cpu, BTreeMap::from([(CpuId(0), 7.0)]));
}

/// A driver that resets its device allocates its vectors again: 799,009,459 interrupts/s were shown.
#[test]
fn counts_that_restart_are_no_rates() {
    let rates = |first: &str, last: &str| {
        let at = |seconds, counts: &str| Counters {
            interrupts: Fact::Known(
                rxlab_base::parse::interrupts(&format!("CPU0 CPU1\n 5: {counts} chip 1-edge eth0\n"))
                    .expect("valid"),
            ),
            ..counters(seconds, &[(0, times(seconds, 0), CpuCounters::default())])
        };
        let rates = Rates::between(&at(1, first), &at(11, last)).expect("an interval");
        let per_cpu = rates.irqs.into_iter().next().map(|irq| irq.per_cpu.into_values().collect::<Vec<_>>());
        (
            per_cpu,
            rates
                .gaps
                .iter()
                .any(|gap| gap == "interrupt counts: those of IRQ 5 restarted within the sample"),
        )
    };
    assert_eq!(rates("4000 0", "70 0"), (None, true));
    assert_eq!(rates("4000 0", "0 70"), (None, true), "on another CPU");
    assert_eq!(rates("2600000000 0", "70 0"), (None, true), "less than half of the range");
    assert_eq!(rates("4294967290 0", "14 0"), (Some(vec![2.0]), false), "a wrap");
    assert_eq!(rates("4000 0", "4000 70"), (Some(vec![7.0]), false), "it moved");
}

#[test]
fn a_broken_source_of_cpu_times_keeps_its_reason() {
    let whole = counters(1, &[(0, times(10, 0), CpuCounters::default())]);
    let mut broken = Counters { taken_ns: 2_000_000_000, ..whole.clone() };
    broken.times = Fact::Broken("/proc/stat: line 2: `x` is not a counter".into());
    let error = Rates::between(&whole, &broken).expect_err("no times");
    assert_eq!(error.to_string(), "no CPU times: /proc/stat: line 2: `x` is not a counter");
}

/// A container under lxcfs: CPU 3 of /proc/stat was taken for CPU 3 of the kernel.
#[test]
fn times_of_a_container_are_not_those_of_the_kernel_s_cpus() {
    let at = |seconds, cpus: &[u32], header: &str, is_masked| {
        let cpus: Vec<_> =
            cpus.iter().map(|cpu| (*cpu, times(seconds * 100, 7), CpuCounters::default())).collect();
        let mut counters = counters(seconds, &cpus);
        counters.interrupts =
            Fact::Known(rxlab_base::parse::interrupts(&format!("{header}\n")).expect("valid"));
        if is_masked {
            (counters.times, counters.is_masked) = (Fact::Broken("by lxcfs".to_owned()), true);
        }
        counters
    };
    let rates = |first: Counters, last: Counters| Rates::between(&first, &last).expect("an interval");
    let by_mount = rates(at(1, &[0], "CPU0", true), at(2, &[0], "CPU0", true));
    assert_eq!((by_mount.masked.as_deref(), by_mount.cpus.len()), (Some("by lxcfs"), 0));
    assert!(by_mount.gaps.contains(&"CPU times: by lxcfs".to_owned()), "{:?}", by_mount.gaps);
    let by_number =
        |cpus: &[u32], header| rates(at(1, cpus, header, false), at(2, cpus, header, false)).masked;
    assert_eq!(
        by_number(&[0, 1], "CPU8 CPU9 CPU30").as_deref(),
        Some("/proc/stat has CPUs 0-1, /proc/interrupts has CPUs 8-9,30")
    );
    assert_eq!(by_number(&[0, 1], "CPU0 CPU1"), None);
    assert_eq!(by_number(&[0, 1, 2], "CPU0 CPU1"), None, "offline CPUs have times, too");
    let came = rates(at(1, &[0], "CPU0 CPU1", false), at(2, &[0, 1], "CPU0 CPU1", false));
    assert_eq!(came.masked, None, "a CPU that came between two files");
}

#[test]
fn rows_that_one_sample_lacks_are_not_0() {
    let at = |seconds, softnet| Counters {
        softnet,
        ..counters(seconds, &[(0, times(seconds, 0), CpuCounters::default())])
    };
    let rates = |first, last| Rates::between(&at(1, first), &at(2, last)).expect("an interval").uncounted;
    assert!(!rates(Fact::Known(()), Fact::Known(())));
    assert!(rates(Fact::Unsupported, Fact::Known(())) && rates(Fact::Known(()), Fact::Unsupported));
}

#[test]
fn an_idle_counter_may_step_back() {
    let none = CpuCounters::default();
    let a = counters(1, &[(0, times(10, 0), none)]);
    let b = counters(2, &[(0, times(9, 5), none)]);
    assert_eq!(Rates::between(&a, &b).expect("an interval").cpus[0].softirq, 1.0);
}

#[test]
fn a_recording_is_not_a_quiet_machine() {
    let a = counters(1, &[(0, times(10, 0), CpuCounters::default())]);
    let b = Counters { taken_ns: 2_000_000_000, ..a.clone() };
    assert_eq!(Rates::between(&a, &b), Err(IntervalError::Still));
    assert_eq!(Rates::between(&b, &a), Err(IntervalError::NoTime));
}

/// Rates of an interface between two samples `seconds` apart.
fn nic_rates(seconds: u64, before: NicCounters, after: NicCounters) -> NicRates {
    let at = |seconds, nic| Counters {
        nics: [("eth0".parse().expect("a name"), nic)].into(),
        ..counters(seconds, &[(0, times(seconds, 0), CpuCounters::default())])
    };
    let rates = Rates::between(&at(1, before), &at(1 + seconds, after)).expect("an interval");
    rates.nics.into_iter().next().expect("one interface")
}

#[test]
fn a_queue_that_came_or_began_anew_is_left_out() {
    let nic = |queues: &[(u32, u64)]| {
        let counted =
            |packets| QueueCounters { packets, drops: Some(packets / 10), ..QueueCounters::default() };
        let rx_queues = queues.iter().map(|(queue, packets)| (*queue, counted(*packets))).collect();
        NicCounters { rx_queues, ..NicCounters::default() }
    };
    let rates = nic_rates(2, nic(&[(0, 100), (1, 7_000), (3, 50)]), nic(&[(0, 140), (1, 5), (2, 9_000)]));
    assert_eq!(rates.queues, BTreeMap::from([(0, 20.0)]));
    assert_eq!(rates.queue_drops, BTreeMap::from([(0, 2.0)]));
}

#[test]
fn a_limit_that_was_not_counted_before_has_no_rate() {
    let nic = |counts: &[(&str, u64)]| {
        let limited = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        NicCounters { limited, ..NicCounters::default() }
    };
    let rates = nic_rates(
        2,
        nic(&[("pps", 100), ("bw", 7), ("old", 9)]),
        nic(&[("pps", 140), ("bw", 7), ("new", 5)]),
    );
    let expected = [("pps", 20.0), ("bw", 0.0)].map(|(name, rate)| (name.to_owned(), rate));
    assert_eq!(rates.limited, expected.into());
}

/// igb counts packets without a buffer only as FIFO errors: such losses were once missed.
#[test]
fn the_counter_of_the_two_that_grew_is_the_loss() {
    let nic = |missed: u64, fifo: u64| {
        let losses = [("rx_missed_errors", missed), ("rx_fifo_errors", fifo)];
        let losses = losses.map(|(name, count)| (name.to_owned(), count)).into();
        NicCounters { losses, ..NicCounters::default() }
    };
    assert_eq!(nic_rates(1, nic(9_000, 10), nic(9_000, 50)).rx_missed, 40.0);
    assert_eq!(nic_rates(1, nic(9_000, 10), nic(9_040, 50)).rx_missed, 40.0, "one loss in both");
}

#[test]
fn a_counter_that_the_driver_repeats_is_one() {
    let nic = |interface: u64, driver: u64| {
        let losses = [("rx_dropped", interface), ("ethtool -S rx_dropped", driver)];
        let losses = losses.map(|(name, count)| (name.to_owned(), count)).into();
        NicCounters { losses, ..NicCounters::default() }
    };
    let names = |before, after| nic_rates(1, before, after).losses.into_keys().collect::<Vec<_>>();
    assert_eq!(names(nic(0, 0), nic(40, 41)), ["rx_dropped"]);
    let only_the_driver = nic_rates(1, nic(0, 0), nic(0, 40)).losses;
    assert_eq!((only_the_driver["rx_dropped"], only_the_driver["ethtool -S rx_dropped"]), (0.0, 40.0));
}

#[test]
fn an_interface_that_was_re_created_starts_from_zero() {
    let nic = |rx_packets| NicCounters { rx_packets, ..NicCounters::default() };
    assert_eq!(nic_rates(1, nic(1_000), nic(30)).rx_packets, 30.0);
}

/// `fec` on a 32-bit kernel: half of the packets were missing.
#[test]
fn counters_of_32_bits_wrap() {
    let nic = |rx_packets, tx_packets| NicCounters { rx_packets, tx_packets, ..NicCounters::default() };
    let rates = |before, after| {
        let rates = nic_rates(10, before, after);
        (rates.rx_packets, rates.tx_packets)
    };
    assert_eq!(rates(nic(u64::from(u32::MAX) - 99_999, 500), nic(500_000, 600)), (60_000.0, 10.0));
    assert_eq!(rates(nic(u64::from(u32::MAX) - 99_999, 0), nic(500_000, 0)), (60_000.0, 0.0));
    assert_eq!(rates(nic(4_000_000_000, 500), nic(500_000, 60)), (50_000.0, 6.0), "all began again");
    assert_eq!(rates(nic(1 << 33, 500), nic(500_000, 600)), (50_000.0, 60.0), "it has 64 bits");
}
