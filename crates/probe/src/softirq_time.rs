//! Softirq time of each CPU at a cost that any load can bear: programs that measure every run, attached for
//! as much of the time as the budget allows, and the kernel's own count of all runs.
//!
//! The kernel counts each run of a softirq (`/proc/softirqs`) and, unless it was built with
//! CONFIG_IRQ_TIME_ACCOUNTING, samples their time by timer ticks, which is off by much. The mean length of
//! the runs inside the windows times the count of all runs is the time of all: a ratio estimate (W. G.
//! Cochran, Sampling Techniques, 3rd ed., chapter 6), whose error comes from how much the windows differ.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::budget::{Budget, SHORTEST};
use super::loaded::{self, Missing};
use super::raw::Words;
use rxlab_base::units::Fact;
use rxlab_path::model::{Rates, SoftirqTimed};
use rxlab_path::sample::Inventory;
use rxlab_sys::Host;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/softirq_time.bpf.o"));

/// Position of windows in their periods: multiples of the golden ratio, to avoid locking to a rhythm of the
/// traffic.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// The programs, loaded; attached only while they count.
#[derive(Debug)]
pub struct SoftirqTime {
    object: Object,
    budget: Budget,
    /// Runs per second of the CPU with the most, in the latest window.
    rate: Option<f64>,
}

/// Counts of softirqs in consecutive windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Windows {
    /// Each with the CPUs from 0 on.
    all: Vec<Vec<Vectors>>,
}

/// Time in nanoseconds and runs: of NET_RX, and of all other softirqs.
type Vectors = [(u64, u64); 2];

impl SoftirqTime {
    /// Loads the programs, or returns what is missing in one line. Nothing runs yet.
    pub fn load(host: &dyn Host, budget: Budget) -> Result<Self, Missing> {
        loaded::refuse_real_time(host)?;
        let object = ObjectBuilder::default().open_memory(OBJECT).and_then(|open| open.load());
        let object = object.map_err(|error| loaded::refusal(host, &error))?;
        Ok(Self { object, budget, rate: None })
    }

    /// Loads the programs if they are needed: not if the kernel measures the time itself, nor on files. `None` also
    /// without eBPF.
    pub fn if_needed(host: &dyn Host, inventory: &Inventory, budget: Budget) -> Option<Self> {
        let is_exact = inventory.settings.exact_softirq_time == Fact::Known(true);
        if is_exact || host.namespace().is_none() { None } else { Self::load(host, budget).ok() }
    }

    /// Runs `wait`, and counts in windows until it returns.
    pub fn during<T>(&mut self, wait: impl FnOnce() -> T) -> (T, Result<Windows, libbpf_rs::Error>) {
        let (ends, end) = channel::<()>();
        std::thread::scope(|scope| {
            let counting = scope.spawn(move || self.count(&end));
            let waited = wait();
            drop(ends);
            (waited, counting.join().expect("the thread does not panic"))
        })
    }

    /// Windows until the other side of `end` is dropped.
    fn count(&mut self, end: &Receiver<()>) -> Result<Windows, libbpf_rs::Error> {
        let ended = |time: Duration| !matches!(end.recv_timeout(time), Err(RecvTimeoutError::Timeout));
        let mut windows = Windows::default();
        let mut attached = None;
        for number in 0u32.. {
            let rhythm = self.budget.rhythm(self.rate);
            let pause = rhythm.period - rhythm.window;
            let before = pause.mul_f64((f64::from(number) * GOLDEN).fract());
            if ended(before) {
                break;
            }
            let (links, first) = match attached.take() {
                Some(kept) => kept,
                None => (self.open()?, Vec::new()),
            };
            let began = Instant::now();
            let is_over = ended(rhythm.window);
            let length = began.elapsed();
            // All the time: the next window begins where this one ends.
            let kept = pause.is_zero().then_some(links);
            let last = self.read()?;
            if length >= SHORTEST {
                let window = since(&last, &first);
                self.rate = Some(most_runs(&window) as f64 / length.as_secs_f64());
                windows.all.push(window);
            }
            attached = kept.map(|links| (links, last));
            if is_over || ended(pause - before) {
                break;
            }
        }
        Ok(windows)
    }

    /// Begins a window with all counters at zero.
    fn open(&mut self) -> Result<[Link; 2], libbpf_rs::Error> {
        let cpus = libbpf_rs::num_possible_cpus()?;
        let nothing = vec![vec![0; size_of::<u64>() * FIELDS]; cpus];
        for map in self.object.maps_mut() {
            if map.name() == MAP {
                map.update_percpu(&0u32.to_ne_bytes(), &nothing, MapFlags::ANY)?;
            }
        }
        let attach = |name: &str| {
            let program = self.object.progs_mut().find(|program| program.name() == name);
            program.expect("the source has this program").attach()
        };
        // The end before the beginning: each run that begins also ends.
        Ok([attach("softirq_exit")?, attach("softirq_entry")?])
    }

    fn read(&self) -> Result<Vec<Vectors>, libbpf_rs::Error> {
        let values = loaded::map(&self.object, MAP).lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        Ok(values.iter().flatten().map(|bytes| vectors(bytes)).collect())
    }
}

/// Counts between two readings; empty before the first.
fn since(last: &[Vectors], first: &[Vectors]) -> Vec<Vectors> {
    let less = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
    let before = first.iter().copied().chain(std::iter::repeat(Vectors::default()));
    last.iter().zip(before).map(|(last, first)| [less(last[0], first[0]), less(last[1], first[1])]).collect()
}

/// Runs of the CPU with the most.
fn most_runs(window: &[Vectors]) -> u64 {
    window.iter().map(|[net_rx, others]| net_rx.1 + others.1).max().unwrap_or_default()
}

const MAP: &str = "times";
/// Of `struct time` in the source.
const FIELDS: usize = 5;

fn vectors(bytes: &[u8]) -> Vectors {
    let mut words = Words(bytes);
    let fields: [u64; FIELDS] = std::array::from_fn(|_| words.number().unwrap_or_default());
    let [_, net_rx_ns, other_ns, net_rx_runs, other_runs] = fields;
    [(net_rx_ns, net_rx_runs), (other_ns, other_runs)]
}

impl Windows {
    /// The counts of `timer` until `wait` returns; empty without a timer, and if it cannot be read.
    pub fn during(timer: Option<&mut SoftirqTime>, wait: impl FnOnce()) -> Self {
        match timer {
            Some(timer) => timer.during(wait).1.unwrap_or_default(),
            None => {
                wait();
                Self::default()
            }
        }
    }

    /// Replaces the sampled softirq time of each CPU. Leaves `rates` unchanged if no window has seen a
    /// run.
    pub fn time(&self, rates: &mut Rates) {
        let of_all = |kind: usize| self.length(|window| window.iter().map(|cpu| cpu[kind]).fold((0, 0), add));
        let all = [of_all(0), of_all(1)];
        if all.iter().all(Option::is_none) {
            return;
        }
        let mut error = Some(0.0_f64);
        for cpu in &mut rates.cpus {
            let runs = [cpu.net_rx, cpu.net_tx + cpu.other_softirqs.values().sum::<f64>()];
            let mut share = 0.0;
            for (kind, (runs, all)) in runs.into_iter().zip(all).enumerate() {
                // No window may have seen a run of a CPU that has hardly any: those of the others stand in.
                let own =
                    self.length(|window| window.get(cpu.cpu.0 as usize).copied().unwrap_or_default()[kind]);
                let Some(length) = own.or(all) else { continue };
                share += runs * length.ns / 1e9;
                error = error.zip(length.error).map(|(most, error)| most.max(runs * error / 1e9));
            }
            cpu.softirq = share.min(1.0);
        }
        rates.softirq_timed = Some(SoftirqTimed { windows: self.all.len(), error });
    }

    /// Mean length of a run; `None` if no window has one.
    fn length(&self, of: impl Fn(&[Vectors]) -> (u64, u64)) -> Option<Length> {
        let windows = || self.all.iter().map(|window| of(window)).map(|(ns, runs)| (ns as f64, runs as f64));
        let (ns, runs) = windows().fold((0.0, 0.0), |sum, window| (sum.0 + window.0, sum.1 + window.1));
        if runs == 0.0 {
            return None;
        }
        let (count, mean) = (self.all.len() as f64, ns / runs);
        let squares: f64 = windows().map(|(ns, runs)| (ns - mean * runs).powi(2)).sum();
        let t = StudentsT::new(0.0, 1.0, count - 1.0).ok().map(|student| student.inverse_cdf(0.975));
        let error = t.map(|t| t * (squares * count / (count - 1.0)).sqrt() / runs);
        Some(Length { ns: mean, error })
    }
}

/// Mean length of a run.
#[derive(Debug, Clone, Copy)]
struct Length {
    ns: f64,
    /// Half of the 95 % interval; `None` for a single window.
    error: Option<f64>,
}

fn add(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

#[cfg(test)]
mod tests {
    use super::{Vectors, Windows, most_runs, since, vectors};
    use rxlab_base::units::CpuId;
    use rxlab_path::model::{CpuRates, Rates};

    /// Two CPUs; the first one ran NET_RX so often and so long in each window, the second one other softirqs.
    fn windows(rx: &[(u64, u64)]) -> Windows {
        let window =
            |(ns, runs): &(u64, u64)| -> Vec<Vectors> { vec![[(*ns, *runs), (0, 0)], [(0, 0), (2_000, 2)]] };
        Windows { all: rx.iter().map(window).collect() }
    }

    fn cpu(cpu: u32, net_rx: f64, net_tx: f64, other: f64) -> CpuRates {
        CpuRates {
            cpu: CpuId(cpu),
            softirq: 0.9,
            idle: 0.1,
            net_rx,
            net_tx,
            other_softirqs: [("SCHED".to_owned(), other)].into(),
            packets: net_rx,
            ..CpuRates::default()
        }
    }

    fn rates() -> Rates {
        Rates {
            seconds: 1.0,
            cpus: vec![cpu(0, 1e5, 0.0, 0.0), cpu(1, 0.0, 1e3, 1e3), cpu(2, 10.0, 0.0, 0.0)],
            exact_softirq_time: Some(false),
            ..Rates::default()
        }
    }

    #[test]
    fn time_is_all_runs_times_their_mean_length() {
        let mut rates = rates();
        windows(&[(3_000, 1), (9_000, 3), (6_000, 2)]).time(&mut rates);
        let times: Vec<f64> = rates.cpus.iter().map(|cpu| (cpu.softirq * 1e6).round()).collect();
        // 3 us each; 1 us each; and those of the others for CPU 2, of which no window has seen a run.
        assert_eq!(times, [300_000.0, 2_000.0, 30.0]);
        let timed = rates.softirq_timed.expect("measured");
        assert_eq!((timed.windows, timed.error), (3, Some(0.0)), "all windows agree");
    }

    /// The interval of Student's t for two windows of 2 and 4 us a run: 12.7 times the half of their
    /// difference.
    #[test]
    fn windows_that_differ_make_an_error() {
        let mut rates = rates();
        windows(&[(2_000, 1), (4_000, 1)]).time(&mut rates);
        let error = rates.softirq_timed.and_then(|timed| timed.error).expect("two windows");
        assert!((error - 12.706 * 1e-6 * 1e5).abs() < 0.001, "{error}");
        windows(&[(2_000, 1)]).time(&mut rates);
        assert_eq!(rates.softirq_timed.and_then(|timed| timed.error), None, "one window does not say");
    }

    #[test]
    fn without_a_run_the_kernel_s_figures_stay() {
        let mut rates = rates();
        Windows { all: vec![vec![[(0, 0); 2]; 3]] }.time(&mut rates);
        Windows::default().time(&mut rates);
        assert_eq!((rates.cpus[0].softirq, rates.softirq_timed), (0.9, None));
    }

    #[test]
    fn a_window_is_what_was_counted_in_it() {
        let first: Vec<Vectors> = vec![[(5, 1), (7, 2)], [(0, 0), (0, 0)]];
        let last: Vec<Vectors> = vec![[(9, 3), (7, 2)], [(4, 1), (6, 4)]];
        let between = since(&last, &first);
        assert_eq!(between, vec![[(4, 2), (0, 0)], [(4, 1), (6, 4)]]);
        assert_eq!((since(&last, &[]), most_runs(&between)), (last, 5));
    }

    #[test]
    fn the_layout_of_the_source() {
        let bytes: Vec<u8> = [7u64, 1, 2, 3, 4].iter().flat_map(|field| field.to_ne_bytes()).collect();
        assert_eq!(vectors(&bytes), [(1, 3), (2, 4)]);
    }
}
