//! The programs that use most CPU time between two samples, and the CPUs they may use and ran on.
//!
//! The kernel does not list busy programs: CPU times of every program are read in both samples, and other
//! facts only for the few that used most. Each program costs one file of about 10 us, so their number is
//! limited; kernel threads are left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cpuset::Groups;
use super::processes::Seen;
use super::{Counters, Inventory, SocketRates, ThrottledRates, read, socket_queues, throttling};
use rxlab_base::parse::{self, TICKS_PER_SECOND};
use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_sys::Host;

/// Programs read: on a machine with more, some are missed.
const LOOKED_AT: usize = 2_048;
/// Most programs that are reported.
const MAX_REPORTED: usize = 64;
/// Share of one CPU below which a program is not reported.
const LEAST: f64 = 0.05;
/// Running fraction of a thread from which its process is asked for its sockets.
const NO_PAUSE: f64 = 0.9;
/// Threads read, of all reported programs together.
const THREADS: u64 = 512;

/// CPU time of one program at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// Name of the program, as in `/proc/PID/stat`.
    pub command: String,
    /// Time of all its threads in user and kernel mode, in ticks of 1/100 s.
    pub cpu_ticks: u64,
    /// Its start time: distinguishes two programs with one number.
    pub began_ticks: u64,
    /// Number of its threads.
    pub threads: u64,
    /// The CPU its main thread last ran on.
    pub last_cpu: CpuId,
    /// Nice value of its main thread.
    pub nice: i32,
}

/// One program that uses CPU time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Process ID, as `/proc` names it.
    pub pid: u32,
    /// Its name, truncated by the kernel to 15 bytes.
    pub command: String,
    /// CPU seconds per second of all its threads: 1.0 is the whole time of one CPU. If softirq time is
    /// sampled by ticks, a tick during a softirq on top of a process is also charged to the process.
    pub cpu: f64,
    /// Number of its threads in the second sample.
    pub threads: u32,
    /// Threads that ran or waited for a CPU in the second sample; not asked if there are too many.
    pub runnable: Fact<u32>,
    /// CPUs that its main thread may run on.
    pub allowed: Fact<CpuMask>,
    /// CPUs of its control group (cpuset).
    pub cpuset: Fact<CpuMask>,
    /// CPUs that its threads last ran on, in the second sample; not asked if there are too many.
    pub ran_on: Fact<CpuMask>,
    /// The CPU of its main thread, if it is the same in both samples.
    pub stays_on: Option<CpuId>,
    /// Nice value of its main thread: above 0 it gives way to others.
    pub nice: i32,
    /// Its threads present in both samples whose run time the kernel reports.
    #[serde(default)]
    pub each: Vec<ThreadRates>,
    /// Its public sockets; asked if one of its threads was hardly ever idle.
    #[serde(default)]
    pub sockets: Fact<SocketRates>,
    /// The control group that throttled it, if one did.
    #[serde(default)]
    pub throttled: Option<ThrottledRates>,
}

/// One thread. Times are fractions of wall time, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRates {
    /// Thread ID, as `/proc` names it.
    pub tid: u32,
    /// The CPU it last ran on; the scheduler may have moved it meanwhile.
    pub cpu: CpuId,
    /// Running. Includes interrupts and softirqs on top of it unless the kernel accounts for them.
    pub ran: f64,
    /// Runnable while another thread ran.
    pub waited: f64,
}

/// The programs whose CPU time the counters should contain.
pub(super) fn programs(seen: &Seen) -> Fact<Vec<u32>> {
    // Kernel threads have the lowest numbers: if they cannot be distinguished, those are skipped first.
    let told_apart = seen.programs.len() < seen.pids.len();
    let beyond = if told_apart { 0 } else { seen.programs.len().saturating_sub(LOOKED_AT) };
    let programs: Vec<u32> = seen.programs.iter().copied().skip(beyond).take(LOOKED_AT).collect();
    if programs.is_empty() { seen.everybody.clone().map(|()| programs) } else { Fact::Known(programs) }
}

/// The CPU times of an inventory's programs. Those that ended meanwhile are left out.
pub(super) fn times(host: &dyn Host, inventory: &Inventory) -> Fact<BTreeMap<u32, ProcessTimes>> {
    inventory.programs.clone().and_then(|pids| {
        let mut found = BTreeMap::new();
        for pid in pids {
            // A name may be any bytes.
            let Ok(bytes) = host.read(&format!("proc/{pid}/stat")) else { continue };
            match process_times(&String::from_utf8_lossy(&bytes)) {
                Ok(Some(times)) => drop(found.insert(pid, times)),
                // A kernel thread that the kernel did not list as one.
                Ok(None) => {}
                Err(error) => return Fact::Broken(format!("/proc/{pid}/stat: {error}")),
            }
        }
        if found.is_empty() { Fact::Unsupported } else { Fact::Known(found) }
    })
}

fn process_times(text: &str) -> Result<Option<ProcessTimes>, parse::ParseError> {
    let stat = parse::process_stat(text)?;
    let last_cpu = parse::last_cpu(text)?;
    let nice = parse::scheduling(text)?.nice;
    Ok((!stat.of_kernel).then_some(ProcessTimes {
        command: stat.command,
        cpu_ticks: stat.cpu_ticks,
        began_ticks: stat.began_ticks,
        threads: stat.threads,
        last_cpu,
        nice,
    }))
}

/// The programs that used most CPU time from `before` to `after`, which is later and just read from `host`, most first.
pub fn busiest(host: &dyn Host, before: &Counters, after: &Counters) -> Fact<Vec<ProcessRates>> {
    let seconds = after.taken_ns.saturating_sub(before.taken_ns) as f64 / 1e9;
    let least = (LEAST * TICKS_PER_SECOND * seconds).max(1.0);
    before.processes.clone().and_then(|earlier| {
        after.processes.clone().map(|now| {
            let spent = now.into_iter().map(|(pid, now)| {
                let same = earlier.get(&pid).filter(|then| then.began_ticks == now.began_ticks);
                let ticks = now.cpu_ticks.saturating_sub(same.map_or(0, |then| then.cpu_ticks));
                (ticks, pid, same.map(|then| then.last_cpu), now)
            });
            let mut spent: Vec<_> = spent.filter(|(ticks, ..)| *ticks as f64 >= least).collect();
            spent.sort_by_key(|(ticks, pid, ..)| (std::cmp::Reverse(*ticks), *pid));
            spent.truncate(MAX_REPORTED);
            if spent.is_empty() {
                return Vec::new();
            }
            let groups = Groups::new(host);
            let mut left = THREADS;
            let told = spent.into_iter().map(|(ticks, pid, was_on, now)| {
                let rates = |tid| thread_rates(before, after, seconds, pid, tid);
                let threads = if now.threads <= left { threads(host, pid, rates) } else { Fact::NotAsked };
                left = left.saturating_sub(now.threads);
                let each = threads.known().map(|threads| threads.each.clone()).unwrap_or_default();
                let never_pauses = each.iter().any(|thread| thread.ran >= NO_PAUSE);
                let throttled = throttling::between(before, after, seconds, pid);
                ProcessRates {
                    pid,
                    cpu: ticks as f64 / TICKS_PER_SECOND / seconds,
                    threads: u32::try_from(now.threads).unwrap_or(u32::MAX),
                    runnable: threads.clone().map(|threads| threads.runnable),
                    allowed: read::parsed(host, &format!("proc/{pid}/status"), parse::allowed_cpus),
                    cpuset: groups.cpus_of(host, pid),
                    ran_on: threads.map(|threads| threads.ran_on),
                    stays_on: was_on.filter(|cpu| *cpu == now.last_cpu),
                    nice: now.nice,
                    command: now.command,
                    each,
                    sockets: if never_pauses || throttled.is_some() {
                        socket_queues::held(host, pid, before, after, seconds)
                    } else {
                        Fact::NotAsked
                    },
                    throttled,
                }
            });
            told.collect()
        })
    })
}

/// Parts of the time between two samples, `seconds` apart, that a thread ran and waited.
fn thread_rates(before: &Counters, after: &Counters, seconds: f64, pid: u32, tid: u32) -> Option<(f64, f64)> {
    let at = |counters: &Counters| counters.threads.known()?.get(&pid)?.get(&tid).copied();
    let (then, now) = (at(before)?, at(after)?);
    let part = |ns: u64| (ns as f64 / 1e9 / seconds).min(1.0);
    // A reused number starts again from 0.
    let (ran, waited) = (now.ran_ns.checked_sub(then.ran_ns)?, now.waited_ns.checked_sub(then.waited_ns)?);
    Some((part(ran), part(waited)))
}

/// Threads of a program in the second sample.
#[derive(Clone, Default)]
struct Threads {
    /// Those that were in both samples.
    each: Vec<ThreadRates>,
    /// Number of those that ran or waited for a CPU.
    runnable: u32,
    ran_on: CpuMask,
}

/// `rates` has the parts of the time that a thread ran and waited, if it was in both samples.
fn threads(host: &dyn Host, pid: u32, rates: impl Fn(u32) -> Option<(f64, f64)>) -> Fact<Threads> {
    read::list(host, &format!("proc/{pid}/task")).and_then(|names| {
        let mut threads = Threads::default();
        for name in names {
            // Threads that ended meanwhile are skipped.
            let Ok(bytes) = host.read(&format!("proc/{pid}/task/{name}/stat")) else { continue };
            let Ok(tid) = name.parse() else { continue };
            let text = String::from_utf8_lossy(&bytes);
            match parse::last_cpu(&text).and_then(|cpu| Ok((cpu, parse::is_runnable(&text)?))) {
                Ok((cpu, is_runnable)) => {
                    threads.runnable += u32::from(is_runnable);
                    threads.ran_on.insert(cpu);
                    let rates = rates(tid).map(|(ran, waited)| ThreadRates { tid, cpu, ran, waited });
                    threads.each.extend(rates);
                }
                Err(error) => return Fact::Broken(format!("/proc/{pid}/task/{name}/stat: {error}")),
            }
        }
        Fact::Known(threads)
    })
}

#[cfg(test)]
mod tests {
    use super::{LOOKED_AT, ThreadRates, busiest};
    use crate::sample::{Counters, Inventory, Scope, SocketRates};
    use rxlab_base::units::{CpuId, CpuMask, Fact};
    use rxlab_sys::RecordedHost;

    /// `stat` of a thread with these ticks and threads, on that CPU.
    fn stat(pid: u32, state: char, ticks: u64, threads: u32, began: u64, cpu: u32) -> String {
        let zeros = "0 ".repeat(16);
        format!(
            "{pid} (a) b) {state} 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 5 {threads} 0 {began} {zeros}{cpu} 0 0\n"
        )
    }

    fn machine(at_s: u64, own: &[(u32, String)]) -> RecordedHost {
        let host = RecordedHost::new()
            .with("proc/2/comm", "kthreadd\n")
            .with("proc/2/task/2/children", "3 ")
            .with("proc/3/stat", stat(3, 'R', 9_999 * at_s, 1, 1, 0))
            .with("proc/self/mountinfo", "31 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n")
            .with("cg/cpuset.cpus.effective", "0-7\n")
            .with("cg/web/cpuset.cpus.effective", "0-5\n")
            .at_ns(at_s * 1_000_000_000);
        own.iter().fold(host, |host, (pid, stat)| {
            host.with(&format!("proc/{pid}/stat"), stat)
                .with(&format!("proc/{pid}/comm"), "a\n")
                .with(&format!("proc/{pid}/cgroup"), "0::/web/inner\n")
                .with(&format!("proc/{pid}/status"), "Cpus_allowed_list:\t0-5\n")
                .with(&format!("proc/{pid}/task/{pid}/stat"), stat)
        })
    }

    fn look(host: &RecordedHost) -> Counters {
        Counters::take(host, &Inventory::take(host, Scope::Load))
    }

    fn cpus(list: &str) -> Fact<CpuMask> {
        Fact::Known(list.parse().expect("a list"))
    }

    #[test]
    fn the_busiest_are_told_of_and_the_others_not() {
        let first = [(70, stat(70, 'S', 1_000, 1, 5, 3)), (71, stat(71, 'S', 40, 1, 6, 1))];
        let last = [
            (70, stat(70, 'S', 1_024, 1, 5, 3)),
            (71, stat(71, 'R', 540, 1, 6, 2)),
            (72, stat(72, 'S', 30, 9_000, 7, 1)),
        ];
        let (first, last) = (machine(10, &first), machine(15, &last));
        let found = busiest(&last, &look(&first), &look(&last)).known().expect("seen").clone();
        let shown: Vec<_> = found.iter().map(|busy| (busy.pid, busy.cpu, busy.stays_on)).collect();
        assert_eq!(shown, [(71, 1.0, None), (72, 0.06, None)], "5 % of 5 s are 25 ticks");
        assert_eq!(found[0].command, "a) b");
        assert_eq!(found[0].allowed, cpus("0-5"));
        assert_eq!(found[0].cpuset, cpus("0-5"), "of the group above");
        assert_eq!((found[0].threads, &found[0].runnable), (1, &Fact::Known(1)));
        assert_eq!((&found[0].ran_on, &found[0].each[..]), (&cpus("2"), &[][..]), "not in both samples");
        assert_eq!((&found[1].runnable, &found[1].ran_on), (&Fact::NotAsked, &Fact::NotAsked), "too many");
    }

    #[test]
    fn a_throttled_program_is_told_with_the_group_that_throttles_it() {
        let look_at = |at_s: u64, ticks: u64, throttled: u64| {
            let one = machine(at_s, &[(71, stat(71, 'S', ticks, 1, 6, 2))]);
            let counted = format!("nr_periods {}\nnr_throttled {throttled}\nthrottled_usec 9\n", at_s * 10);
            one.with("cg/web/cpu.stat", counted).with("cg/web/cpu.max", "50000 100000\n")
        };
        let found = |throttled: u64| {
            let (first, last) = (look_at(10, 100, 3), look_at(15, 350, throttled));
            busiest(&last, &look(&first), &look(&last)).known().expect("seen")[0].throttled.clone()
        };
        assert_eq!(found(3), None, "the counter did not rise");
        let throttled = found(40).expect("it rose");
        assert_eq!((throttled.group.as_str(), throttled.throttled, throttled.periods), ("/web", 37, 50));
        assert_eq!((throttled.limit, throttled.waited), (Some((0.5, 100.0)), 0.0));
    }

    /// A thread that is never idle: its times, and its process is then asked for its sockets.
    #[test]
    fn a_thread_that_never_pauses_is_told_with_the_sockets_of_its_process() {
        let look_at = |at_s: u64, ran_ms: u64| {
            let one = machine(at_s, &[(71, stat(71, 'R', ran_ms / 10, 2, 6, 2))]);
            one.with(
                "proc/71/task/71/schedstat",
                format!("{} {} 9\n", ran_ms * 1_000_000, (at_s - 10) * 20_000_000),
            )
            .with("proc/71/task/72/stat", stat(72, 'S', 0, 2, 6, 3))
            .with("proc/net/udp", "  sl  local_address\n 0: 0:0035 0:0 01 0:0\n")
            .with_link("proc/71/fd/3", "socket:[9]")
        };
        let told = |ran_ms: u64| {
            let (first, last) = (look_at(10, 100), look_at(15, 100 + ran_ms));
            busiest(&last, &look(&first), &look(&last)).known().expect("seen")[0].clone()
        };
        let full = told(4_950);
        assert_eq!((full.cpu, full.threads, full.stays_on), (0.99, 2, Some(CpuId(2))));
        assert_eq!((&full.runnable, &full.ran_on), (&Fact::Known(1), &cpus("2-3")));
        assert_eq!(full.each, [ThreadRates { tid: 71, cpu: CpuId(2), ran: 0.99, waited: 0.02 }]);
        assert_eq!(full.sockets, Fact::Known(SocketRates { held: Vec::new(), others: true }));
        assert_eq!(told(4_000).sockets, Fact::NotAsked, "80 % of 5 s");
    }

    #[test]
    fn a_number_used_again_is_another_program() {
        let first = machine(10, &[(70, stat(70, 'S', 90_000, 1, 5, 3))]);
        let last = machine(11, &[(70, stat(70, 'S', 60, 1, 900, 3))]);
        let found = busiest(&last, &look(&first), &look(&last)).known().expect("seen").clone();
        assert_eq!((found[0].cpu, found[0].stays_on), (0.6, None));
    }

    /// Snapshots of earlier versions list processes without their times.
    #[test]
    fn what_was_not_recorded_is_no_idle_machine() {
        let host = RecordedHost::new().with("proc/70/comm", "a\n");
        assert_eq!(look(&host).processes, Fact::Unsupported);
        assert_eq!(busiest(&host, &look(&host), &look(&host)), Fact::Unsupported);
        let broken = machine(1, &[(70, "70 (a) S 1".to_owned())]);
        assert!(matches!(look(&broken).processes, Fact::Broken(why) if why.starts_with("/proc/70/stat: ")));
    }

    /// ksoftirqd is pinned, and busy where packets are: not a program that loses time to them.
    #[test]
    fn threads_of_the_kernel_are_no_programs_even_where_it_does_not_tell_them() {
        let of_kernel = stat(15, 'R', 900, 1, 1, 0).replacen(" -1 0 ", " -1 69238848 ", 1);
        let host = machine(9, &[(15, of_kernel), (70, stat(70, 'S', 1, 1, 5, 0))]);
        let times = look(&host).processes.known().expect("seen").clone();
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [70]);
        let untold =
            (10..3_000).fold(RecordedHost::new(), |host, pid| host.with(&format!("proc/{pid}/comm"), "a"));
        let programs = Inventory::take(&untold, Scope::Load).programs;
        assert_eq!(programs.known().and_then(|pids| pids.last()).copied(), Some(2_999));
    }

    #[test]
    fn there_is_a_limit_to_looking() {
        let many: Vec<(u32, String)> = (10..3_000).map(|pid| (pid, stat(pid, 'S', 1, 1, 5, 0))).collect();
        assert_eq!(look(&machine(1, &many)).processes.known().map(|times| times.len()), Some(LOOKED_AT));
        let counters =
            Counters::take(&machine(1, &many), &Inventory::take(&machine(1, &many), Scope::Counters));
        assert_eq!(counters.processes, Fact::NotAsked, "trials do not pay for it");
    }
}
