//! The metrics of a slot: from rates and from the workload's own report.

use std::collections::{BTreeMap, BTreeSet};

use super::check;
use super::probed::{self, Probed};
use super::query;
use super::record::{Better, Metric, TrialRecord};
use super::spec::Spec;
use super::verdict::FULL_FROM;
use rxlab_base::number::count;
use rxlab_base::units::NicName;
use rxlab_load::Protocol;
use rxlab_path::evidence::{LOST, busy, in_softirq, lost};
use rxlab_path::model::{CpuRates, NicRates, Rates};

/// Work per second, by source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Throughput {
    /// Reported by the workload.
    Counted(f64),
    /// Nothing is driven: packets that the interfaces received.
    Packets {
        /// The interfaces also count packets dropped by a backlog.
        drops_counted: bool,
    },
}

/// Workload report for one slot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// Work done per second.
    pub throughput: Option<Throughput>,
    /// Metrics by name, already in the metric's unit (`p99_us`, ...).
    pub values: BTreeMap<String, f64>,
    /// Names of the values that are lower bounds: some requests were unanswered at the end.
    pub at_least: Vec<String>,
    /// CPU time per second of the load generator on this machine.
    pub client_cpu: Option<f64>,
}

/// Fraction of time in softirqs from which a CPU counts as receiving.
const SOME: f64 = 0.05;

/// Requests of a slot from which its p99 is a metric: 100 lie beyond it.
const REQUESTS_FOR_P99: f64 = 10_000.0;

/// Metric names used elsewhere.
pub mod name {
    /// Work done per second.
    pub const THROUGHPUT: &str = "throughput";
    /// Largest share of a CPU's time spent in softirqs.
    pub const HOTTEST_SOFTIRQ: &str = "hottest_cpu_softirq";
    /// The hottest CPU's share of all NET_RX runs.
    pub const HOTTEST_SHARE: &str = "hottest_cpu_net_rx_share";
    /// Softirq time of all CPUs per packet.
    pub const SOFTIRQ_PER_PACKET: &str = "softirq_us_per_packet";
    /// CPU time of the whole machine per unit of work.
    pub const MACHINE_CPU: &str = "machine_cpu";
    /// CPU time of the load generator per unit of work.
    pub const CLIENT_CPU: &str = "client_cpu";
    /// 99 % quantile of the latency.
    pub const P99: &str = "p99_us";
    /// Total utilisation of the CPU with the most softirq time; a circumstance, not judged.
    pub const HOTTEST_BUSY: &str = "hottest_cpu_busy";
    /// Utilisation of the busiest CPU; a circumstance, not judged.
    pub const BUSIEST: &str = "busiest_cpu";
    /// Time that the hypervisor gave to other guests, percent of all CPUs' time; a circumstance, not judged.
    pub const STEAL: &str = "steal";
    /// Bytes of a received packet of live traffic; a circumstance.
    pub const BYTES_PER_PACKET: &str = "bytes_per_packet";
    /// Packets of live traffic that reached the interfaces, whatever became of them; a circumstance.
    pub const ARRIVALS: &str = "arrivals";
}

/// The metrics that this program measures, for a workload with or without the built-in load.
/// Latency requires a load with answers.
pub fn names(load: Option<Protocol>) -> Vec<&'static str> {
    let mut names = vec![
        name::THROUGHPUT,
        name::HOTTEST_SHARE,
        name::HOTTEST_SOFTIRQ,
        name::SOFTIRQ_PER_PACKET,
        name::MACHINE_CPU,
    ];
    if let Some(protocol) = load {
        names.push(name::CLIENT_CPU);
        if !protocol.is_one_way() {
            names.extend(["p50_us", name::P99, "p99_9_us"]);
        }
    }
    names
}

/// Circumstances of live traffic that move a metric and that the change does not cause: the trial adjusts for them.
/// Arrivals are not among those of the throughput, which they nearly are, nor of anything per unit of work.
pub fn covariates(metric: &str) -> &'static [&'static str] {
    match metric {
        name::THROUGHPUT | name::SOFTIRQ_PER_PACKET | name::MACHINE_CPU | probed::NET_RX_PER_PACKET => {
            &[name::BYTES_PER_PACKET]
        }
        name::HOTTEST_SHARE | name::HOTTEST_SOFTIRQ | probed::NET_RX_MAX_CPU => {
            &[name::BYTES_PER_PACKET, name::ARRIVALS]
        }
        _ => &[],
    }
}

pub fn covariate(name: &str) -> &'static str {
    if name == name::ARRIVALS { "arrivals" } else { "bytes per packet" }
}

/// The metric that decides a trial of which none was given, and the reason, from a prior sample of the machine and
/// its load; `None` for a closed loop and for commands: throughput.
pub fn choose(spec: &Spec, rates: &Rates, work: &Work) -> Option<(&'static str, String)> {
    // The probe takes the place of the programs that measure softirq time.
    let is_timed =
        rates.exact_softirq_time == Some(true) || rates.softirq_timed.is_some() && !spec.is_probed();
    if spec.workload.live {
        return Some(of_live(rates, is_timed));
    }
    let load = spec.workload.load.as_ref()?;
    let offered = spec.offered()?;
    let Some(Throughput::Counted(done)) = work.throughput else { return None };
    // One way there is no latency; as with live traffic, time is left once all of it arrives.
    let is_kept = done >= KEPT * offered;
    Some(if load.url.protocol.is_one_way() && is_kept {
        of_live(rates, is_timed)
    } else {
        of_paced(offered, done, spec.design.measure().as_secs_f64())
    })
}

/// The metric that decides a trial of live traffic, and the reason, from a prior sample of the machine.
/// Never the place where packets are counted: the change moves that. `is_timed`: softirq time is measured,
/// not sampled.
///
/// If a receiving CPU is full or packets are lost, more capacity would raise throughput. Otherwise
/// everything gets through already, and only the time it takes can change.
fn of_live(rates: &Rates, is_timed: bool) -> (&'static str, String) {
    let receives = |cpu: &&CpuRates| in_softirq(cpu) >= SOME && busy(cpu) >= FULL_FROM;
    let full = rates.cpus.iter().filter(receives).max_by(|a, b| a.softirq.total_cmp(&b.softirq));
    let lost = lost(rates);
    match full {
        Some(cpu) => (name::THROUGHPUT, format!("CPU {} receives packets and is full", cpu.cpu)),
        None if lost >= LOST => (name::THROUGHPUT, format!("{} packets/s are lost", count(lost))),
        None if is_timed => {
            (name::HOTTEST_SOFTIRQ, "no receiving CPU is full, and no packets are lost".to_owned())
        }
        None => {
            let why = "no receiving CPU is full, no packets are lost, and softirq time is only sampled here";
            (name::MACHINE_CPU, why.to_owned())
        }
    }
}

/// Fraction of the offered rate from which a paced load counts as kept: no more can get through, whatever
/// fits.
pub const KEPT: f64 = 0.97;

/// The metric that decides a trial under a paced load of requests with answers, and the reason. `offered` and `done`:
/// requests per second of the schedule, and answered in a prior sample. `slot`: length of a slot in seconds.
///
/// While the schedule is kept it pins throughput, so that only latency and cost can change.
fn of_paced(offered: f64, done: f64, slot: f64) -> (&'static str, String) {
    if done < KEPT * offered {
        let kept = 100.0 * done / offered;
        return (name::THROUGHPUT, format!("only {kept:.0} % of the offered rate gets through"));
    }
    if offered * slot >= REQUESTS_FOR_P99 {
        return (name::P99, "the offered rate gets through, which pins throughput".to_owned());
    }
    let why = format!(
        "the offered rate gets through, which pins throughput, and slots have fewer than {} requests, too few for p99",
        count(REQUESTS_FOR_P99)
    );
    (name::MACHINE_CPU, why)
}

/// A metric of this program, by name; other names are metrics of an external command.
pub fn describe(metric: &str, work_unit: &str) -> Metric {
    use Better::{Higher, Lower};
    if let Some(probed) = Probed::parse(metric) {
        let (title, unit) = probed.title();
        let better = if probed == Probed::Packets { Higher } else { Lower };
        return Metric { name: metric.to_owned(), title, unit: unit.to_owned(), better };
    }
    if let Some(outside) = check::describe(metric).or_else(|| query::describe(metric)) {
        return outside;
    }
    let work = match work_unit {
        "pkt/s" => "packet",
        "req/s" => "request",
        "conn/s" => "connection",
        _ => "unit of work",
    };
    let (machine_cpu, client_cpu) = (format!("CPU time per {work}"), format!("client CPU time per {work}"));
    let (title, unit, better) = match metric {
        name::THROUGHPUT => ("throughput", work_unit, Higher),
        "p50_us" => ("latency p50", "us", Lower),
        name::P99 => ("latency p99", "us", Lower),
        "p99_9_us" => ("latency p99.9", "us", Lower),
        name::HOTTEST_SOFTIRQ => ("hottest CPU, softirq time", "%", Lower),
        name::HOTTEST_SHARE => ("hottest CPU, NET_RX share", "%", Lower),
        name::SOFTIRQ_PER_PACKET => ("softirq time per packet", "us", Lower),
        name::MACHINE_CPU => (machine_cpu.as_str(), "us", Lower),
        name::CLIENT_CPU => (client_cpu.as_str(), "us", Lower),
        // By convention names show which direction is better: lower for times and error counts.
        other => {
            let lower = ["_us", "_ms", "_ns", "latency", "errors", "error_rate", "cpu"]
                .iter()
                .any(|end| other.ends_with(end));
            (other, "", if lower { Lower } else { Higher })
        }
    };
    Metric { name: metric.to_owned(), title: title.to_owned(), unit: unit.to_owned(), better }
}

/// The metrics that an external command printed in addition to the requested ones, sorted by name.
pub fn printed(record: &TrialRecord) -> Vec<Metric> {
    let is_outside = |name: &str| check::describe(name).is_some() || query::describe(name).is_some();
    let all = [name::HOTTEST_BUSY, name::BUSIEST, name::STEAL, name::BYTES_PER_PACKET, name::ARRIVALS];
    let circumstance = |name: &str| all.contains(&name);
    let asked = |name: &str| record.metrics.iter().any(|metric| metric.name == name);
    let names: BTreeSet<&str> =
        record.slots.iter().flat_map(|slot| slot.values.keys()).map(String::as_str).collect();
    names
        .into_iter()
        .filter(|name| !circumstance(name) && !asked(name) && !is_outside(name))
        .map(|name| describe(name, ""))
        .collect()
}

/// The values of one slot. Unavailable ones (no packets, too few requests for a quantile) are
/// omitted, never 0. A throughput of 0 was measured: it is kept.
pub fn values(rates: &Rates, work: &Work, nic: Option<&NicName>) -> BTreeMap<String, f64> {
    let mut values = work.values.clone();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            values.insert(name.to_owned(), value);
        }
    };
    let packets: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let softirq: f64 = rates.cpus.iter().map(|cpu| cpu.softirq).sum();
    let throughput = work.throughput.and_then(|throughput| match throughput {
        Throughput::Counted(rate) => Some(rate),
        Throughput::Packets { drops_counted } => live_packets(rates, nic, drops_counted),
    });
    put(name::THROUGHPUT, throughput);
    if let Some(Throughput::Packets { .. }) = work.throughput {
        let [packets, bytes, missed] = received(rates, nic);
        put(name::BYTES_PER_PACKET, (packets > 0.0).then(|| bytes / packets));
        put(name::ARRIVALS, Some(packets + missed));
    }
    let largest = |value: fn(&CpuRates) -> f64| rates.cpus.iter().map(value).reduce(f64::max);
    put(name::HOTTEST_SOFTIRQ, largest(|cpu| cpu.softirq).map(|share| 100.0 * share));
    put(name::HOTTEST_SHARE, rates.hottest(|cpu| cpu.net_rx).map(|(_, share)| 100.0 * share));
    put(name::SOFTIRQ_PER_PACKET, (packets > 0.0).then(|| 1e6 * softirq / packets));
    let busy = |cpu: &CpuRates| 100.0 * (1.0 - cpu.idle - cpu.steal);
    let hottest = rates.cpus.iter().max_by(|a, b| a.softirq.total_cmp(&b.softirq));
    put(name::HOTTEST_BUSY, hottest.map(busy));
    let steal: f64 = rates.cpus.iter().map(|cpu| cpu.steal).sum();
    put(name::STEAL, (!rates.cpus.is_empty()).then(|| 100.0 * steal / rates.cpus.len() as f64));
    put(name::BUSIEST, rates.cpus.iter().map(busy).reduce(f64::max));
    if let Some(throughput) = throughput.filter(|rate| *rate > 0.0) {
        let busy: f64 = rates.cpus.iter().map(|cpu| 1.0 - cpu.idle - cpu.steal).sum();
        // Includes a generator on this machine: the kernel bills receive work to whatever thread it
        // interrupts, so subtracting the generator's time would subtract some of the server's too, and how
        // much would depend on the arm.
        put(name::MACHINE_CPU, (!rates.cpus.is_empty()).then_some(1e6 * busy / throughput));
        put(name::CLIENT_CPU, work.client_cpu.map(|client| 1e6 * client / throughput));
    }
    values
}

/// Packets and bytes per second that the counted interfaces received, and packets that they had no buffer for.
fn received(rates: &Rates, nic: Option<&NicName>) -> [f64; 3] {
    let counts = |rates: &&NicRates| match nic {
        Some(nic) => rates.name == *nic,
        None => rates.name.as_str() != "lo",
    };
    let nics = rates.nics.iter().filter(counts);
    nics.fold([0.0; 3], |sum, nic| [sum[0] + nic.rx_packets, sum[1] + nic.rx_bytes, sum[2] + nic.rx_missed])
}

/// Packets per second that were received and not dropped by a full backlog: devices count those too, while a
/// veth counts only packets that the backlog accepted.
fn live_packets(rates: &Rates, nic: Option<&NicName>, drops_counted: bool) -> Option<f64> {
    let received = match nic {
        Some(nic) => rates.nic(nic)?.rx_packets,
        None => rates.nics.iter().filter(|nic| nic.name.as_str() != "lo").map(|nic| nic.rx_packets).sum(),
    };
    Some(if drops_counted { (received - rates.backlog_drops().ok()?).max(0.0) } else { received })
}

#[cfg(test)]
mod tests {
    use super::{Throughput, Work, choose, name, of_live, values};
    use crate::spec::Spec;
    use rxlab_path::sketch::Sketch;

    fn work(throughput: Option<Throughput>) -> Work {
        Work { throughput, client_cpu: Some(0.25), ..Work::default() }
    }

    /// A change that stopped all traffic once left no throughput, and so no harm to report.
    #[test]
    fn no_work_is_a_throughput_of_nothing() {
        let (_, rates) = Sketch::new(2).veth("veth0").build();
        let values = values(&rates, &work(Some(Throughput::Counted(0.0))), None);
        assert_eq!(values.get(name::THROUGHPUT), Some(&0.0));
        assert!(!values.contains_key(name::MACHINE_CPU), "cost per unit is undefined without units");
    }

    /// A command that prints no throughput was once given the packets of the interfaces.
    #[test]
    fn packets_stand_for_the_throughput_of_live_traffic_only() {
        let (_, rates) = Sketch::new(2).loopback().veth("veth0").traffic("veth0", 500.0).build();
        assert_eq!(values(&rates, &work(None), None).get(name::THROUGHPUT), None);
        let live = values(&rates, &work(Some(Throughput::Packets { drops_counted: true })), None);
        assert_eq!(live.get(name::THROUGHPUT), Some(&500.0), "without lo");
        let mut full = rates.clone();
        full.cpus[1].dropped = 120.0;
        let of_device = |drops_counted| {
            let packets = Some(Throughput::Packets { drops_counted });
            values(&full, &work(packets), None).get(name::THROUGHPUT).copied()
        };
        assert_eq!(of_device(true), Some(380.0), "without what a backlog dropped");
        assert_eq!(of_device(false), Some(500.0));
        let nic = "lo".parse().expect("a name");
        let live = values(&rates, &work(Some(Throughput::Packets { drops_counted: true })), Some(&nic));
        assert_eq!(live.get(name::THROUGHPUT), Some(&10.0), "or those of one interface");
        assert_eq!(live.get(name::ARRIVALS), Some(&10.0), "to adjust for");
    }

    /// In a container with files of lxcfs no CPU of the kernel is known.
    #[test]
    fn what_is_not_measured_is_absent() {
        let (_, mut rates) = Sketch::new(2).veth("veth0").traffic("veth0", 500.0).build();
        rates.cpus.clear();
        rates.masked = Some("/proc/stat is of fuse.lxcfs".to_owned());
        let of = |drops_counted| values(&rates, &work(Some(Throughput::Packets { drops_counted })), None);
        assert_eq!(of(true).get(name::THROUGHPUT), None, "drops are unknown");
        let known: Vec<String> = of(false).into_keys().collect();
        assert_eq!(known, [name::ARRIVALS, name::BYTES_PER_PACKET, name::CLIENT_CPU, name::THROUGHPUT]);
    }

    #[test]
    fn live_traffic_is_judged_by_what_gets_through_only_where_more_could() {
        let chosen = |sketch: Sketch, is_timed: bool| of_live(&sketch.build().1, is_timed);
        let quiet = || Sketch::new(2).receives(0, 0.4, 3e4);
        assert_eq!(chosen(quiet(), true).0, name::HOTTEST_SOFTIRQ);
        assert_eq!(chosen(quiet(), false).0, name::MACHINE_CPU);
        let full = chosen(quiet().works(0, 0.6), true);
        assert_eq!(full, (name::THROUGHPUT, "CPU 0 receives packets and is full".to_owned()));
        assert_eq!(chosen(quiet().works(1, 1.0), true).0, name::HOTTEST_SOFTIRQ, "another one is full");
        let (_, mut rates) = quiet().build();
        rates.cpus[1].dropped = 12.0;
        assert_eq!(of_live(&rates, true), (name::THROUGHPUT, "12 packets/s are lost".to_owned()));
    }

    /// A schedule that is kept pins throughput: it once was the primary metric all the same.
    #[test]
    fn a_paced_load_is_judged_by_throughput_only_where_it_is_not_kept() {
        let chosen = |url: &str, rate: Option<f64>, done: f64| {
            let text = format!(
                "name = \"x\"\nchange = {{ set = [\"rps a/rx-0 = 0\"] }}\nworkload.load = {{ url = \"{url}\"{} }}",
                rate.map_or_else(String::new, |rate| format!(", rate = {rate}"))
            );
            let spec = Spec::parse(&text).expect("a specification");
            let (_, mut rates) = Sketch::new(2).receives(0, 0.4, 3e4).build();
            rates.exact_softirq_time = Some(true);
            choose(&spec, &rates, &work(Some(Throughput::Counted(done)))).map(|(name, _)| name)
        };
        let http = "http://10.0.0.1/";
        assert_eq!(chosen(http, None, 9e3), None, "a closed loop");
        assert_eq!(chosen(http, Some(6e3), 5.9e3), Some(name::P99), "12,000 requests in 2 s");
        assert_eq!(chosen(http, Some(4e3), 3.9e3), Some(name::MACHINE_CPU));
        assert_eq!(chosen(http, Some(6e3), 5e3), Some(name::THROUGHPUT));
        let sink = "udp-sink://10.0.0.1:9000";
        assert_eq!(chosen(sink, Some(6e3), 5.9e3), Some(name::HOTTEST_SOFTIRQ));
        assert_eq!(chosen(sink, Some(6e3), 5e3), Some(name::THROUGHPUT));
    }

    #[test]
    fn shares_costs_and_circumstances_of_a_slot() {
        let sketch = Sketch::new(2).veth("veth0").receives(0, 0.5, 3e4).receives(1, 0.1, 1e4);
        let (_, rates) = sketch.works(1, 0.7).build();
        let values = values(&rates, &work(Some(Throughput::Counted(4e4))), None);
        let near = |name: &str, want: f64| {
            assert!((values[name] - want).abs() < 1e-6, "{name}: {} is not {want}", values[name]);
        };
        near(name::HOTTEST_SOFTIRQ, 50.0);
        near(name::HOTTEST_SHARE, 75.0);
        near(name::SOFTIRQ_PER_PACKET, 15.0);
        near(name::HOTTEST_BUSY, 51.5);
        near(name::BUSIEST, 80.5);
        near("client_cpu", 1e6 * 0.25 / 4e4);
        near(name::MACHINE_CPU, 1e6 * (0.515 + 0.805) / 4e4);
    }
}
