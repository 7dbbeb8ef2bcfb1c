//! The processes of the machine, those that matter to steering, and the description of one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::read;
use rxlab_base::parse;
use rxlab_base::units::{CpuId, Fact, Need};
use rxlab_sys::Host;

/// The processes that `/proc` shows.
pub(super) struct Seen {
    /// All of them, by number.
    pub(super) pids: Vec<u32>,
    /// Those that are not kernel threads, as far as the kernel reports: kernel threads have no files and no
    /// namespaces of their own, and a large machine has thousands.
    pub(super) programs: Vec<u32>,
    /// Known if these are all processes; otherwise the reason.
    pub(super) everybody: Fact<()>,
    /// Cache of names: several callers need the same ones, and each costs a file.
    pub(super) names: RefCell<BTreeMap<u32, Option<String>>>,
}

impl Seen {
    /// A process's name, `None` if it ended.
    pub(super) fn command(&self, host: &dyn Host, pid: u32) -> Option<String> {
        self.names.borrow_mut().entry(pid).or_insert_with(|| command(host, pid)).clone()
    }
}

/// Lists processes. On every machine process 2 is `kthreadd`: if it is not visible, only a part of the
/// machine is, because of a PID namespace or a `/proc` that hides processes of other users.
pub(super) fn see(host: &dyn Host) -> Seen {
    let pids = pids(host);
    let kthreadd = command(host, 2).filter(|name| name == "kthreadd");
    let everybody = match (&pids, &kthreadd) {
        (Fact::Known(_), Some(_)) => Fact::Known(()),
        (Fact::Known(_), None) => Fact::Denied(Need::AllProcesses),
        (absent, _) => absent.clone().map(|_| ()),
    };
    let threads =
        kthreadd.map_or(Fact::Unsupported, |_| read::parsed(host, "proc/2/task/2/children", parse::children));
    let threads: BTreeSet<u32> = threads.known().into_iter().flatten().copied().collect();
    let pids = pids.known().cloned().unwrap_or_default();
    let is_program = |pid: &u32| threads.is_empty() || (*pid != 2 && !threads.contains(pid));
    let programs = pids.iter().copied().filter(is_program).collect();
    Seen { programs, pids, everybody, names: RefCell::default() }
}

fn pids(host: &dyn Host) -> Fact<Vec<u32>> {
    read::list(host, "proc").map(|names| {
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort();
        pids
    })
}

/// False for a process that an ordinary user started: it may have any name. One that is not root's and has capabilities is
/// taken for such a process.
pub fn may_be_of_root(host: &dyn Host, pid: u32) -> bool {
    let user = real_user(host, pid);
    // In a user namespace the number of the machine's root may be that of any user who has none there.
    let is_root = |user: &str| user == "0" || kernel_user(host).is_some_and(|kernel| kernel == user);
    user.is_none_or(|user| is_root(&user))
}

/// The user of process 2, which is `kthreadd`; in a PID namespace it is an ordinary process, of any name.
fn kernel_user(host: &dyn Host) -> Option<String> {
    let stat = parse::process_stat(&host.read_text("proc/2/stat").ok()?).ok()?;
    if stat.of_kernel { real_user(host, 2) } else { None }
}

/// The user who started a process: a program that is setuid changes the effective user only.
fn real_user(host: &dyn Host, pid: u32) -> Option<String> {
    let status = host.read_text(&format!("proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next().map(str::to_owned)
}

/// irqbalance, if it runs: root's with the lowest number. Its absence is known only if all processes are
/// visible.
pub(super) fn irqbalance(host: &dyn Host, seen: &Seen) -> Fact<Option<u32>> {
    let is_irqbalance = |pid: &u32| {
        seen.command(host, *pid).is_some_and(|name| name == "irqbalance") && may_be_of_root(host, *pid)
    };
    match seen.programs.iter().copied().find(is_irqbalance) {
        Some(pid) => Fact::Known(Some(pid)),
        None => seen.everybody.clone().map(|()| None),
    }
}

/// `ksoftirqd/N` by CPU. Searched among all processes: the kernel may omit one from its list of threads
/// while another ends.
pub(super) fn ksoftirqd(host: &dyn Host, seen: &Seen) -> Fact<BTreeMap<CpuId, u32>> {
    // A process may end between listing and reading: that is not an error.
    let found = seen.pids.iter().filter_map(|pid| {
        let cpu = seen.command(host, *pid)?.strip_prefix("ksoftirqd/")?.parse().ok()?;
        Some((CpuId(cpu), *pid))
    });
    let found: BTreeMap<CpuId, u32> = found.collect();
    if found.is_empty() { seen.everybody.clone().map(|()| found) } else { Fact::Known(found) }
}

/// True for the name of a kernel thread that polls queues instead of softirqs: `napi/NIC-ID` of an
/// interface's NAPI, or `backlog_napi/N` of a CPU's backlog (since 6.10).
pub fn is_napi_thread(name: &str) -> bool {
    name.starts_with("napi/") || name.starts_with("backlog_napi/")
}

/// True for the name of a kernel thread that takes what an XDP program redirects to a CPU up the stack: `cpumap/CPU/map:ID`
/// (kernel/bpf/cpumap.c, `cpu_map_kthread_run`).
pub(super) fn is_cpumap_thread(name: &str) -> bool {
    name.starts_with("cpumap/")
}

/// The kernel threads that receive packets instead of softirqs: they poll queues, or take what XDP programs redirect. Only those
/// with a known run time.
pub(super) fn napi_threads(host: &dyn Host, seen: &Seen) -> Fact<Vec<u32>> {
    let is_one = |name: &str| is_napi_thread(name) || is_cpumap_thread(name);
    let receives = |pid: &u32| seen.command(host, *pid).is_some_and(|name| is_one(&name));
    let receiving = seen.pids.iter().copied().filter(receives);
    let found: Vec<u32> = receiving.filter(|pid| ran_ns(host, *pid).is_some()).collect();
    if found.is_empty() { seen.everybody.clone().map(|()| found) } else { Fact::Known(found) }
}

/// Run time of a process's main thread, if the kernel counts it.
pub(super) fn ran_ns(host: &dyn Host, pid: u32) -> Option<u64> {
    read::parsed(host, &format!("proc/{pid}/schedstat"), parse::on_cpu_ns).known().copied()
}

fn command(host: &dyn Host, pid: u32) -> Option<String> {
    let comm = host.read(&format!("proc/{pid}/comm")).ok()?;
    Some(parse::thread_name(&String::from_utf8_lossy(&comm)).to_owned())
}

/// The control group with most information on a process.
pub fn control_group(host: &dyn Host, pid: u32) -> Fact<String> {
    read::parsed(host, &format!("proc/{pid}/cgroup"), parse::control_groups)
        .and_then(|groups| groups.telling().map_or(Fact::Unsupported, |path| Fact::Known(path.to_owned())))
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Seen, irqbalance, ksoftirqd, napi_threads, see};
    use rxlab_base::units::{CpuId, Fact, Need};
    use rxlab_sys::{Cause, RecordedHost};

    /// Only these programs on the machine.
    pub(in crate::sample) fn seen(programs: &[u32]) -> Seen {
        let everybody = Fact::Known(());
        Seen { pids: programs.to_vec(), programs: programs.to_vec(), everybody, names: Default::default() }
    }

    fn host() -> RecordedHost {
        RecordedHost::new()
            .with("proc/1/comm", "systemd\n")
            .with("proc/15/comm", "ksoftirqd/0\n")
            .with("proc/23/comm", "ksoftirqd/11\n")
            .with("proc/701/comm", "irqbalance-ui\n")
            .with("proc/self/comm", "irqbalance\n")
            .with("proc/2/task/2/children", "15 23 \n")
    }

    #[test]
    fn roles_by_name() {
        let host = host().with("proc/2/comm", "kthreadd\n");
        let seen = see(&host);
        assert_eq!(irqbalance(&host, &seen), Fact::Known(None));
        assert_eq!(ksoftirqd(&host, &seen), Fact::Known([(CpuId(0), 15), (CpuId(11), 23)].into()));
        let host = host.with("proc/700/comm", "irqbalance\n").with("proc/702/comm", "irqbalance\n");
        assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(Some(700)));
        // Any user can give a process this name.
        let of = |host: RecordedHost, pid: u32, users: &str| {
            host.with(&format!("proc/{pid}/status"), format!("Name:\tirqbalance\nUid:\t{users}\n"))
        };
        let host = of(host, 700, "1000\t0\t0\t0");
        assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(Some(702)), "a link to a setuid program");
        let host = of(host, 702, "0\t1000\t1000\t1000");
        assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(Some(702)));
        // Seen from a user namespace that has no root of the machine.
        let host = of(of(host, 2, "65534\t65534\t65534\t65534"), 702, "65534\t65534\t65534\t65534");
        let second = |host: RecordedHost, flags: u64| {
            let zeros = "0 ".repeat(13);
            host.with("proc/2/stat", format!("2 (kthreadd) S 0 0 0 0 -1 {flags} {zeros}\n"))
        };
        let host = second(host, 0x0020_8040);
        assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(Some(702)));
        // In a PID namespace the second process is anybody's, and may have that name.
        let host = second(host, 0x0040_0040);
        assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(None));
    }

    #[test]
    fn threads_that_poll_by_name() {
        let host = host()
            .with("proc/2/comm", "kthreadd\n")
            .with("proc/90/comm", "napi/eth0-8193\n")
            .with("proc/91/comm", "backlog_napi/3\n")
            .with("proc/92/comm", "napi/eth0-8194\n")
            .with("proc/93/comm", "cpumap/2/map:5\n")
            .with("proc/90/schedstat", "9 9 9\n")
            .with("proc/91/schedstat", "9 9 9\n")
            .with("proc/93/schedstat", "9 9 9\n");
        assert_eq!(napi_threads(&host, &see(&host)), Fact::Known(vec![90, 91, 93]));
        let none = self::host().with("proc/2/comm", "kthreadd\n");
        assert_eq!(napi_threads(&none, &see(&none)), Fact::Known(vec![]));
        assert_eq!(napi_threads(&self::host(), &see(&self::host())), Fact::Denied(Need::AllProcesses));
    }

    #[test]
    fn a_name_is_read_once() {
        let host = host().with("proc/2/comm", "kthreadd\n");
        let seen = see(&host);
        let names = |host: &RecordedHost| [1, 99].map(|pid| seen.command(host, pid));
        let expected = [Some("systemd".to_owned()), None];
        assert_eq!(names(&host), expected);
        assert_eq!(names(&RecordedHost::new().with("proc/99/comm", "late\n")), expected);
    }

    #[test]
    fn the_kernel_s_own_threads_are_no_programs() {
        // In a container, 2 is an ordinary process.
        let inside = see(&host().with("proc/2/comm", "sh\n"));
        assert_eq!(inside.programs, [1, 2, 15, 23, 701]);
        assert_eq!(see(&host().with("proc/2/comm", "kthreadd\n")).programs, [1, 701]);
    }

    /// `irqbalance not running` was once printed in every container of a machine on which it runs.
    #[test]
    fn who_does_not_see_everybody_does_not_know_who_is_absent() {
        let closed = host().with_failure("proc/2/comm", Cause::Denied);
        for host in [host(), host().with("proc/2/comm", "sh\n"), closed] {
            let seen = see(&host);
            assert_eq!(seen.everybody, Fact::Denied(Need::AllProcesses));
            assert_eq!(irqbalance(&host, &seen), Fact::Denied(Need::AllProcesses));
            assert!(ksoftirqd(&host, &seen).known().is_some(), "visible ones are known");
            let host = host.with("proc/700/comm", "irqbalance\n");
            assert_eq!(irqbalance(&host, &see(&host)), Fact::Known(Some(700)));
        }
        let hidden = RecordedHost::new();
        assert_eq!(irqbalance(&hidden, &see(&hidden)), Fact::Unsupported);
    }
}
