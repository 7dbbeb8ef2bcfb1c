use super::{Pool, pools};
use crate::metrics::{describe, name};
use crate::recommendation::Advice;
use crate::record::{Better, Call, TrialRecord, Verdict};
use crate::simulate::fleet::trial;
use crate::spec::Kind;
use rxlab_path::model::Identity;
use rxlab_stats::noise::Noise;

/// A trial of 3 % noise on `hostname`, whose number is also its seed.
fn on(host: u64, effect: f64) -> TrialRecord {
    let mut record = trial(&format!("web{host:02}"), &Noise::white(0.03), host, effect);
    record.change = vec![format!("rps eth{host}/rx-0 = 2-7")];
    record
}

fn fleet(effects: &[f64]) -> Vec<TrialRecord> {
    (1..).zip(effects).map(|(host, effect)| on(host, *effect)).collect()
}

fn pooled(records: &[TrialRecord]) -> Vec<Pool> {
    pools(&records.iter().collect::<Vec<_>>())
}

fn only(records: &[TrialRecord]) -> Pool {
    let mut pools = pooled(records);
    assert_eq!(pools.len(), 1);
    pools.remove(0)
}

#[test]
fn hosts_that_agree_are_one_answer() {
    let pool = only(&fleet(&[0.18; 8]));
    let primary = pool.primary().expect("eight hosts");
    assert_eq!((primary.call, primary.hosts, pool.helped()), (Call::Helps, 8, 8));
    assert!(primary.effect.low > 0.15 && primary.effect.high < 0.21, "{primary:?}");
    assert_eq!(pool.change, ["rps NIC/rx-0 = 2-7"]);
    assert_eq!(pool.advice, Some(Advice::Keep), "{}", pool.reason);
    assert!(!pool.is_harmful() && pool.exceptions.is_empty());
    assert!(pool.hosts.iter().all(|tried| tried.first_look.is_some_and(|look| look.pairs == 9)));
}

/// A host counts by its first nine pairs, wherever its trial ended.
#[test]
fn each_host_has_the_pairs_of_its_first_look() {
    let mut records = fleet(&[0.18, 0.18, 0.0]);
    let pool = only(&records);
    assert!(records[2].slots.len() > 18, "it went on");
    let look = pool.hosts[2].first_look.expect("nine pairs");
    records[2].slots.truncate(18);
    records[2].analysis = None;
    let cut = only(&records);
    assert_eq!(cut.hosts[2].first_look, Some(look), "a trial that still runs counts too");
    records[2].slots.truncate(17);
    let short = only(&records);
    assert_eq!(short.hosts[2].left_out.as_deref(), Some("too few pairs have a value"));
    assert!(short.pooled.is_empty() && short.advice.is_none(), "two are left");
    // The time of a trial ends it by the clock alone.
    records[2].time_is_over = true;
    assert_eq!(only(&records).hosts[2].first_look.expect("eight pairs").pairs, 8);
}

#[test]
fn fewer_than_three_hosts_answer_for_themselves() {
    let pool = only(&fleet(&[0.18, 0.18]));
    assert!(pool.pooled.is_empty() && pool.spread.is_none() && pool.advice.is_none());
    assert_eq!(pool.reason, "Fewer than 3 hosts can be pooled: each one answers for itself.");
}

#[test]
fn harm_on_one_host_is_not_averaged_away() {
    let mut effects = vec![0.18; 9];
    effects.push(-0.20);
    let pool = only(&fleet(&effects));
    assert_eq!(pool.primary().expect("ten").call, Call::Helps);
    assert_eq!(pool.advice, Some(Advice::DoNotKeep));
    assert!(pool.is_harmful() && pool.reason.starts_with("It does harm on web10: "), "{}", pool.reason);
    assert!(pool.hosts[9].against[0].starts_with("throughput -2"), "{:?}", pool.hosts[9].against);
}

#[test]
fn a_tripped_guard_stands_before_the_benefit() {
    let mut records = fleet(&[0.18; 5]);
    let reason = || "error rate 4.2 %, allowed 1 %".to_owned();
    records[4].slots.truncate(8);
    records[4].slots.last_mut().expect("slots").arm = rxlab_stats::design::Arm::B;
    records[4].analysis.as_mut().expect("analysed").verdict = Verdict::GuardTripped { reason: reason() };
    let pool = only(&records);
    assert_eq!((pool.primary().expect("four").hosts, pool.advice), (4, Some(Advice::DoNotKeep)));
    assert_eq!((&pool.hosts[4].against, pool.hosts[4].first_look), (&vec![reason()], None));
    records[4].slots.last_mut().expect("slots").arm = rxlab_stats::design::Arm::A;
    let pool = only(&records);
    assert!(!pool.is_harmful(), "the change was not set");
    assert_eq!(pool.advice, Some(Advice::MeasureLonger), "{}", pool.reason);
}

/// On each host latency is undecided; over all of them it is worse.
#[test]
fn harm_that_no_host_shows_alone_is_found_together() {
    let mut records = fleet(&[0.18; 12]);
    let metric = describe(name::P99, "req/s");
    for (seed, record) in (500..).zip(&mut records) {
        record.metrics.push(metric.clone());
        let (a, b) = Noise::white(0.15).arms(seed, record.max_pairs, 0.12);
        for slot in &mut record.slots {
            let values = if slot.arm == rxlab_stats::design::Arm::A { &a } else { &b };
            slot.values.insert(metric.name.clone(), values[slot.pair]);
        }
        record.analysis = Some(crate::conclude::conclude(record, &Default::default(), false, None));
    }
    let alone = records.iter().filter(|record| record.verdict() == Some(&Verdict::Hurts)).count();
    assert_eq!(alone, 0);
    let pool = only(&records);
    assert_eq!(
        pool.worse().first().map(|one| one.metric.name.as_str()),
        Some(name::P99),
        "{:?}",
        pool.pooled
    );
    assert_eq!(pool.advice, Some(Advice::DoNotKeep));
    assert!(pool.is_harmful());
}

#[test]
fn hosts_that_differ_are_measured_one_by_one() {
    let pool = only(&fleet(&[0.30, 0.28, 0.02, 0.25, 0.01, 0.31, 0.15, 0.22]));
    let spread = pool.spread.expect("eight");
    assert!(spread.differs && spread.share > 0.8 && (0.05..0.20).contains(&spread.between), "{spread:?}");
    assert_eq!(pool.primary().expect("eight").call, Call::Helps);
    assert_eq!(pool.advice, Some(Advice::MeasureAgain), "{}", pool.reason);
    let same = only(&fleet(&[0.18; 8])).spread.expect("eight");
    assert!(!same.differs, "{same:?}");
}

/// Two of twenty hosts, with a kernel and a driver of their own.
#[test]
fn an_exception_has_the_name_of_what_its_hosts_share() {
    let mut effects = vec![0.18; 18];
    effects.extend([0.0, 0.0]);
    let mut records = fleet(&effects);
    for (at, record) in records.iter_mut().enumerate() {
        let (kernel, driver) =
            if at < 18 { ("6.12.1", "mlx5_core") } else { ("5.15.0-91-generic", "virtio_net") };
        record.host.kernel = kernel.to_owned();
        record.drivers = [driver.to_owned()].into();
        record.cpu_model = Some(["this", "that"][at % 2].to_owned());
    }
    let pool = only(&records);
    let [except] = &pool.exceptions[..] else { panic!("{:?}", pool.exceptions) };
    assert_eq!(
        (except.group.as_str(), &except.hosts[..]),
        ("kernel 5.15 with virtio_net", &["web19", "web20"].map(str::to_owned)[..])
    );
    assert!(except.is_less(Better::Higher) && !except.helps_some && except.effect.abs() < 0.04, "{except:?}");
    assert_eq!(except.compared, 2, "the kernel with its driver, and the CPU; both together are one host");
    records[19].drivers.clear();
    assert_eq!(only(&records).exceptions[0].group, "kernel 5.15", "an unknown driver names no group");
}

/// Groups by kernel and driver, with these effects on as many hosts.
fn grouped(groups: &[(&str, &str, usize, f64)]) -> Pool {
    let effects: Vec<f64> = groups.iter().flat_map(|&(_, _, hosts, effect)| vec![effect; hosts]).collect();
    let mut records = fleet(&effects);
    let names = groups.iter().flat_map(|&(kernel, driver, hosts, _)| vec![(kernel, driver); hosts]);
    for (record, (kernel, driver)) in records.iter_mut().zip(names) {
        record.host.kernel = kernel.to_owned();
        record.drivers = [driver.to_owned()].into();
    }
    only(&records)
}

#[test]
fn every_group_that_is_not_helped_is_named() {
    let pool = grouped(&[
        ("6.12.1", "mlx5_core", 40, 0.30),
        ("5.15.0", "mlx5_core", 3, 0.0),
        ("6.12.1", "virtio_net", 3, 0.0),
    ]);
    assert_eq!(pool.primary().expect("hosts").call, Call::Helps);
    assert_eq!(pool.unhelped(), ["virtio_net", "kernel 5.15"], "{:?}", pool.exceptions);
    assert_eq!((pool.advice, &*pool.reason), (Some(Advice::Keep), "Leave out virtio_net, kernel 5.15."));
}

/// It helps in the group alone: the smaller group is named, the others are the exception.
#[test]
fn hosts_other_than_a_group_may_be_the_exception() {
    let pool = grouped(&[("6.12.1", "mlx5_core", 8, 0.25), ("5.15.0", "mlx5_core", 9, 0.0)]);
    assert_eq!(pool.unhelped(), ["hosts other than kernel 6.12"], "{:?}", pool.exceptions);
}

/// Where it helps, but less, it is kept too.
#[test]
fn a_group_that_is_helped_less_is_no_exception() {
    let pool = grouped(&[("6.12.1", "mlx5_core", 12, 0.30), ("5.15.0", "mlx5_core", 4, 0.12)]);
    assert_eq!((pool.exceptions.len(), pool.unhelped()), (1, Vec::new()));
    assert_eq!(pool.advice, Some(Advice::Keep));
    assert!(!pool.reason.contains("Except"), "{}", pool.reason);
}

/// A host that is left out is not counted among those that are pooled.
#[test]
fn only_pooled_hosts_are_counted_as_helped() {
    let mut records = fleet(&[0.18; 5]);
    records[4].design = Kind::BeforeAfter;
    let pool = only(&records);
    assert_eq!((pool.primary().expect("four").hosts, pool.helped()), (4, 4));
}

#[test]
fn trials_of_other_changes_loads_and_metrics_are_not_pooled() {
    let mut records = fleet(&[0.18; 6]);
    records[1].change = vec!["rps eth0/rx-0 = 2-3".to_owned()];
    records[2].workload = "another".to_owned();
    records[3].metrics = vec![describe(name::P99, "req/s")];
    records[4].against = vec!["rps eth0/rx-0 = 0".to_owned()];
    assert_eq!(pooled(&records).iter().map(|pool| pool.hosts.len()).collect::<Vec<_>>(), [2, 1, 1, 1, 1]);
}

/// Two trials of one host, one of them twice and once before its end, are one host; its first trial counts.
#[test]
fn a_host_counts_once() {
    let mut records = fleet(&[0.18; 3]);
    let mut again = on(3, 0.40);
    (again.id, again.started) = ("0002-simulated".to_owned(), "2026-03-02T12:00:00Z".to_owned());
    again.host.boot_id = "after a reboot".to_owned();
    let unfinished = TrialRecord { slots: again.slots[..4].to_vec(), analysis: None, ..again.clone() };
    records.extend([again.clone(), unfinished, again]);
    let pool = only(&records);
    let tried = &pool.hosts[2];
    assert_eq!((pool.hosts.len(), tried.repeated, tried.boots), (3, 1, 2));
    assert_eq!((tried.trial.as_str(), tried.first_look.expect("nine").mid < 0.25), ("0001-simulated", true));
    assert!(records[3].slots.len() > 4);
}

/// Of two copies of a trial that still runs, the longer one counts, in whichever order they are given.
#[test]
fn the_latest_copy_of_a_record_counts() {
    let records = fleet(&[0.18; 3]);
    let copy = |slots: usize| TrialRecord {
        slots: records[2].slots[..slots].to_vec(),
        analysis: None,
        ..records[2].clone()
    };
    for copies in [[copy(18), copy(4)], [copy(4), copy(18)]] {
        let pool = only(&[&records[..2], &copies].concat());
        assert_eq!((pool.hosts[2].repeated, pool.hosts[2].first_look.is_some()), (0, true));
    }
}

/// Two machines of one name, tried in the same second.
#[test]
fn machines_of_one_name_are_no_copies() {
    let mut records = fleet(&[0.18, 0.18, 0.18, -0.20]);
    records[3].host = Identity { boot_id: "another".to_owned(), ..records[2].host.clone() };
    let pool = only(&records);
    assert_eq!((pool.hosts.len(), pool.hosts[2].boots, pool.hosts[2].repeated), (3, 2, 1));
    assert!(!pool.hosts[2].against.is_empty(), "the harm of either counts");
}

#[test]
fn what_compares_nothing_is_left_out_with_its_reason() {
    let mut records = fleet(&[0.18; 5]);
    records[0].design = Kind::BeforeAfter;
    let verdict =
        |record: &mut TrialRecord, verdict| record.analysis.as_mut().expect("analysed").verdict = verdict;
    verdict(&mut records[1], Verdict::NotApplied { reason: String::new() });
    verdict(&mut records[2], Verdict::MachineChanged { reason: String::new() });
    let pool = only(&records);
    let why: Vec<&str> = pool.hosts.iter().filter_map(|tried| tried.left_out.as_deref()).collect();
    assert_eq!(
        why,
        ["nothing was randomised", "the change did not take hold", "values were changed from outside"]
    );
    assert!(pool.pooled.is_empty());
}

#[test]
fn numbers_of_a_strange_record_end_nothing() {
    let mut records = fleet(&[0.18; 4]);
    (records[0].min_pairs, records[0].max_pairs, records[0].margin) = (usize::MAX, usize::MAX, -5.0);
    (records[1].min_pairs, records[1].max_pairs) = (0, 0);
    records[2].slots.iter_mut().for_each(|slot| slot.pair = usize::MAX);
    let pool = only(&records);
    let looks: Vec<Option<usize>> =
        pool.hosts.iter().map(|tried| tried.first_look.map(|look| look.pairs)).collect();
    assert_eq!(looks, [None, Some(2), None, Some(9)], "two pairs are the fewest that end a trial");
}

/// No effect over hosts whose load could not show one is not a proven lack.
#[test]
fn a_limited_load_is_named_before_no_effect() {
    let mut records = fleet(&[0.0; 10]);
    assert_eq!(only(&records).advice, Some(Advice::DoNotKeep));
    let verdict = Verdict::ClientLimited { reason: "a full thread".to_owned() };
    records[0].analysis.as_mut().expect("analysed").verdict = verdict;
    let pool = only(&records);
    assert_eq!((pool.hidden(), pool.advice), (1, Some(Advice::MeasureAgain)));
}
