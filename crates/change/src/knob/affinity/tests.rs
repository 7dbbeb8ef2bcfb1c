use std::sync::atomic::{AtomicBool, Ordering};

use super::{Affinity, Knob, has_napi_thread, is_in_group};
use crate::journal::GroupId;
use crate::knob::KnobError;
use crate::knob::testbed::{self, armed_for, check, model, refusal, target, write};
use rxlab_base::units::CpuMask;
use rxlab_sys::{
    Action, Cause, Failpoint, Fault, FlakyHost, Host, HostError, INITIAL_PID_NAMESPACE, LiveHost,
    OtherNumbers, OwnNumbering, RecordedHost, Rule,
};

fn status(list: &str) -> String {
    format!("Name:\tweb\nCpus_allowed_list:\t{list}\nMems_allowed_list:\t0\n")
}

/// The main thread may run everywhere: CPU 7 of the test machine is offline.
fn host() -> RecordedHost {
    RecordedHost::new()
        .with("proc/812/task/812/status", status("0-15"))
        .with("proc/812/task/813/status", status("2"))
        .with("proc/812/task/814/status", status("0-6"))
}

fn checked(host: &dyn Host, kernel: &str, at: &str, value: &str) -> Result<String, String> {
    let (target, mut model) = (target(at), model());
    model.identity.kernel = kernel.to_owned();
    Affinity.check(Affinity.site(host, &model, &target), value).map_err(|error| error.to_string())
}

/// A machine before Linux 6.2: no thread is given CPU 7, which is offline, and a group gives all threads its CPUs.
struct OldHost(RecordedHost);

impl Host for OldHost {
    rxlab_sys::pass_on!([0] read, list, link, query, now_ns, inode, namespaces);

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.0.write(path, value)?;
        let list = String::from_utf8_lossy(value).into_owned();
        for thread in ["proc/812/task/812/status", "proc/812/status"] {
            if path.ends_with("cpuset.cpus") && self.0.read(thread).is_ok() {
                self.0.write(thread, status(&list).as_bytes())?;
            }
        }
        Ok(())
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        let Action::ThreadCpus { pid, tid, cpus } = action else { return self.0.act(action) };
        let online: CpuMask = "0-6".parse().expect("a list");
        self.0.act(&Action::ThreadCpus { pid: *pid, tid: *tid, cpus: cpus.intersection(&online) })
    }
}

/// Thread 813 is listed once: it starts 815, which has its CPUs, and ends.
struct Chain(RecordedHost, AtomicBool);

impl Host for Chain {
    rxlab_sys::pass_on!([0] read, write, link, query, act, now_ns);

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let successor = if self.1.swap(true, Ordering::SeqCst) { "815" } else { "813" };
        if path == "proc/812/task" { Ok(vec!["812".into(), successor.into()]) } else { self.0.list(path) }
    }
}

/// Undo said that every thread was back while one still had CPUs of ours.
#[test]
fn a_thread_started_by_one_that_ended_meanwhile_is_read() {
    let host = RecordedHost::new().with("proc/812/task/812/status", status("0-15"));
    let host = Chain(host.with("proc/812/task/815/status", status("2")), AtomicBool::new(false));
    assert_eq!(read(&host, "pid:812").as_deref(), Ok("all@812;2@815"));
}

/// A machine seen from a PID namespace, where `tasks` has only threads that are in it.
struct Elsewhere(RecordedHost);

impl Host for Elsewhere {
    rxlab_sys::pass_on!([0] read, write, list, link, query, act, now_ns);

    fn numbering(&self) -> Result<Option<OwnNumbering>, OtherNumbers> {
        Ok(Some(OwnNumbering::new(INITIAL_PID_NAMESPACE + 1, 0)))
    }
}

#[test]
fn version_1_does_not_say_that_a_group_has_threads_of_other_pid_namespaces() {
    let group = |tasks: &str| {
        RecordedHost::new()
            .with("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-3\n")
            .with("sys/fs/cgroup/cpuset/a/tasks", tasks)
            .with("proc/812/comm", "web\n")
    };
    let emptied = |host: &dyn Host| checked(host, "6.18.0", "cgroup:/a", "inherit");
    assert_eq!(emptied(&group("")).as_deref(), Ok("inherit"));
    let unknown = emptied(&Elsewhere(group(""))).expect_err("it may have some");
    assert!(unknown.contains("the processes of cgroup:/a are unknown"), "{unknown}");
    let (model, target) = (model(), target("cgroup:/a"));
    let has_napi_thread = |host: &dyn Host| has_napi_thread(Affinity.site(host, &model, &target));
    assert_eq!(has_napi_thread(&group("812\n")), Ok(false));
    assert_eq!(has_napi_thread(&Elsewhere(group("812\n"))), Ok(true), "it may have one");
}

/// Every process was taken for one that may be in it, and not set.
#[test]
fn a_group_that_has_lost_its_controller_gives_no_cpus() {
    let target = target("cgroup:/system.slice/plain.service");
    assert_eq!(is_in_group(&version_2(), &model(), &target, 7), Ok(false));
}

fn read(host: &dyn Host, at: &str) -> Result<String, String> {
    testbed::read(&Affinity, host, at).map_err(|error| error.to_string())
}

#[test]
fn each_thread_goes_and_goes_back() {
    let host = host();
    let before = read(&host, "pid:812").expect("it runs");
    assert_eq!(before, "all@812,814;2@813");
    write(&Affinity, &host, "pid:812", "4-5").expect("moved");
    let after = read(&host, "pid:812").expect("it runs");
    assert_eq!(after, "4-5@812-814");
    assert!(Affinity.same("4-5", &after) && !Affinity.same(&before, &after));
    assert!(Affinity.left_by(&[before.clone(), "4-5".to_owned()], &[], "4-5@812,814;2@813"));
    write(&Affinity, &host, "pid:812", &before).expect("moved back");
    assert_eq!(read(&host, "pid:812").as_ref(), Ok(&before));
}

/// Its CPUs outlived the thread: undo found another one, to which rxlab itself had given them.
#[test]
fn a_thread_that_ends_with_its_napi_or_follows_its_interrupt_is_refused() {
    let of = |pid: u32, parent: u32, name: &str| {
        let stat = format!("{pid} ({name}) S {parent} 0{}", " 0".repeat(47));
        RecordedHost::new()
            .with(&format!("proc/{pid}/task/{pid}/status"), status("0-15"))
            .with(&format!("proc/{pid}/comm"), format!("{name}\n"))
            .with(&format!("proc/{pid}/stat"), stat)
    };
    let lost = "undo could not restore the CPUs of a NAPI's thread, which ends with the NAPI (`threaded`, `gro`, `channels`, a \
                link that goes down and up): ";
    let follows = "undo could not restore the CPUs of an interrupt's thread, which the kernel moves with the interrupt: use \
                   `irq_affinity`";
    let tunnel = "`napi_affinity NIC/rx-N` is for that of a receive queue, which it restores; the NAPIs of a tunnel have no queue";
    for (pid, name, why) in [
        (501, "napi/eth0-8194", format!("{lost}use `napi_affinity eth0/rx-1`, which it restores")),
        (700, "napi/vxlan0-0", format!("{lost}{tunnel}")),
        (701, "irq/24-eth0", follows.to_owned()),
    ] {
        let at = format!("pid:{pid}");
        for value in ["1", "all"] {
            let refused = checked(&of(pid, 2, name), "6.18.0", &at, value);
            assert_eq!(refused, Err(format!("affinity {at}: {why}")), "{name}");
        }
        assert_eq!(
            checked(&of(pid, 1, name), "6.18.0", &at, "1").as_deref(),
            Ok("1"),
            "a process of that name"
        );
        assert_eq!(checked(&of(pid, 2, "kswapd0"), "6.18.0", &at, "1").as_deref(), Ok("1"), "it stays");
    }
}

/// One number, two threads: the list of the one that has ended is not for the other.
#[test]
fn a_thread_that_took_over_a_number_goes_where_the_main_one_goes() {
    let stat = |start: u64| format!("813 (web) S 1{} {start}{}", " 0".repeat(17), " 0".repeat(30));
    let main = "proc/812/task/812/stat";
    let host = host().with(main, stat(50)).with("proc/812/task/813/stat", stat(60));
    let before = read(&host, "pid:812").expect("it runs");
    assert_eq!(before, "all@812:50,814;2@813:60");
    write(&Affinity, &host, "pid:812", "4").expect("moved");
    host.write("proc/812/task/813/stat", stat(70).as_bytes()).expect("written");
    write(&Affinity, &host, "pid:812", &before).expect("moved back");
    let after = read(&host, "pid:812").expect("it runs");
    assert_eq!(after, "all@812:50,813:70,814");
    assert!(Affinity.same(&before, &after));
}

/// For the kernel `all` means every possible CPU: one that comes online later is included again.
#[test]
fn going_back_to_all_names_no_cpus() {
    let host = host();
    write(&Affinity, &host, "pid:812", "1").expect("moved");
    write(&Affinity, &host, "pid:812", "all").expect("moved back");
    let text = host.read_text("proc/812/task/812/status").expect("there");
    assert!(text.contains("Cpus_allowed_list:\t0-1023\n"), "{text}");
    assert_eq!(read(&host, "pid:812").as_deref(), Ok("all@812-814"));
    assert_eq!(check(&Affinity, &host, "pid:812", "0-6").as_deref(), Ok("all"));
    assert_eq!(check(&Affinity, &host, "pid:812", "all").as_deref(), Ok("all"));
}

/// Before Linux 6.2 it is not: the process once kept fewer CPUs than it had, and undo said that it has all again.
#[test]
fn an_old_kernel_takes_cpus_that_are_offline_for_good() {
    let of = |cpus: &str| {
        let host = RecordedHost::new().with("proc/812/task/812/status", status(cpus));
        host.with("sys/devices/system/cpu/possible", "0-7\n")
    };
    let refused = "affinity pid:812: undo could not restore CPU 7 of thread 812: Linux before 6.2 gives no process CPUs \
                   that are offline. Bring them online, or give them up first (`taskset -a -p -c 0-6 812`)";
    for old in ["6.1.0-13-amd64", "unknown"] {
        assert_eq!(checked(&of("0-7"), old, "pid:812", "1"), Err(refused.to_owned()));
        assert_eq!(checked(&of("0-7"), old, "pid:812", "all").as_deref(), Ok("all"), "it has them");
        assert_eq!(checked(&of("0-6"), old, "pid:812", "1").as_deref(), Ok("1"));
        assert_eq!(checked(&of("2"), old, "pid:812", "0-6").as_deref(), Ok("0-6"));
        let all = checked(&of("0-6"), old, "pid:812", "all").expect_err("not without CPU 7");
        assert!(all.contains("Linux before 6.2 gives no process CPU 7, offline now; use 0-6"), "{all}");
    }
    assert_eq!(checked(&of("0-7"), "6.2.0", "pid:812", "1").as_deref(), Ok("1"));
    // The CPU went offline after the change.
    let host = OldHost(of("1"));
    write(&Affinity, &host, "pid:812", "all").expect("moved back");
    let back = read(&host, "pid:812").expect("it runs");
    assert!(back == "0-6" && !Affinity.same("all", &back), "{back}");
}

#[test]
fn refusals_of_one_thread_name_the_reason() {
    let rule = |cause| Rule { suffix: "813/status".into(), fault: Fault::Refuse(cause) };
    let moved = |cause| {
        let host = FlakyHost::new(host(), vec![rule(cause)], Failpoint::new(None, || ()));
        let result = write(&Affinity, &host, "pid:812", "4").map_err(|error| error.to_string());
        (result, read(&host, "pid:812").expect("it runs"))
    };
    let (result, _) = moved(Cause::Errno(22));
    let text = result.expect_err("refused");
    assert!(text.starts_with("affinity pid:812 = 4: the kernel rejected it: its cpuset has none"), "{text}");
    assert!(moved(Cause::Denied).0.expect_err("refused").contains("CAP_SYS_NICE"));
    // A thread that has ended in the meantime does not stop the write.
    assert_eq!(moved(Cause::Missing), (Ok(()), "4@812,814;2@813".to_owned()));
}

#[test]
fn who_is_not_there_is_told_so() {
    let error = check(&Affinity, &host(), "pid:9", "1").expect_err("no such process");
    assert!(matches!(error, KnobError::NotThere { .. }));
    assert_eq!(error.to_string(), "pid:9: no such process");
    assert_eq!(read(&host(), "cgroup:/x"), Err("cgroup:/x: no such control group".to_owned()));
    let unit = read(&host(), "unit:web.service").expect_err("no unit");
    assert!(unit.starts_with("unit:web.service: no control group has this unit's name"), "{unit}");
    let unlisted = host().with_failure("sys/fs/cgroup", Cause::Errno(24));
    let unit = testbed::read(&Affinity, &unlisted, "unit:web.service").expect_err("not listed");
    assert!(!matches!(unit, KnobError::NotThere { .. }), "{unit}");
    let says = |at: &str, value: &str| refusal(&Affinity, &host(), at, value);
    assert!(says("eth0", "1").starts_with("affinity acts on a process (pid:N), a control group"));
    assert_eq!(says("pid:812", "6-7"), "affinity pid:812: CPU 7 is offline (online: 0-6)");
    assert!(says("pid:812", "1@812").contains("invalid value"));
    assert!(says("pid:812", "inherit").contains("invalid value"));
}

const GROUP: &str = "sys/fs/cgroup/system.slice/web.service";

fn version_2() -> RecordedHost {
    RecordedHost::new()
        .with("proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .with(&format!("{GROUP}/cpuset.cpus"), "\n")
        .with(&format!("{GROUP}/cpuset.cpus.effective"), "0-3\n")
        .with(&format!("{GROUP}/cgroup.events"), "populated 0\nfrozen 0\n")
        .with("sys/fs/cgroup/system.slice/plain.service/cgroup.procs", "7\n")
        .with("sys/fs/cgroup/user.slice/user@0.service/app.slice/web.service/cgroup.procs", "8\n")
        .with("sys/fs/cgroup/user.slice/user@0.service/app.slice/own.service/cpuset.cpus", "1,0\n")
}

#[test]
fn a_group_without_cpus_of_its_own_inherits() {
    let host = version_2();
    let at = "cgroup:/system.slice/web.service";
    assert_eq!(read(&host, at).as_deref(), Ok("inherit"));
    assert_eq!(checked(&host, "7.0.0", at, "5,2").as_deref(), Ok("2,5"));
    write(&Affinity, &host, at, "2,5").expect("written");
    assert_eq!(read(&host, at).as_deref(), Ok("2,5"));
    let (model, target) = (model(), target(at));
    let remark = |value: &str| Affinity.remark(Affinity.site(&host, &model, &target), value);
    assert_eq!(remark("2,5").as_deref(), Some("its parent groups or other partitions withhold CPU 5"));
    assert_eq!(remark("2-3"), None);
    write(&Affinity, &host, at, "inherit").expect("written");
    assert_eq!(host.read_text(&format!("{GROUP}/cpuset.cpus")).as_deref(), Ok("\n"));
    assert_eq!(read(&host, at).as_deref(), Ok("inherit"));
    assert!(Affinity.same("inherit", "inherit") && !Affinity.same("inherit", "2-5"));
    assert!(Affinity.left_by(&["inherit".to_owned(), "2".to_owned()], &[], "2"));
}

/// Once it had CPUs of its own, undo was refused until its last process ended, also if that came after the change.
#[test]
fn a_group_does_not_get_a_list_that_the_kernel_keeps() {
    let host = |populated: u8| {
        let events = format!("populated {populated}\nfrozen 0\n");
        version_2().with(&format!("{GROUP}/cgroup.events"), events)
    };
    let path = "cgroup:/system.slice/web.service";
    let kept = "this kernel empties the list only of a group without processes (version 2: since Linux 7.0 of any group)";
    let refused = |target: &str, first: &str| {
        Err(format!(
            "affinity {target}: undo could not restore that it has no CPUs of its own once it has processes: {kept}. Give \
             it all that it may use first (`{first}`), which undo restores; or set its processes by pid:N"
        ))
    };
    for old in ["6.18.44", "5.15.0-86-generic", "unknown"] {
        let by_hand = format!("echo 0-3 >/{GROUP}/cpuset.cpus");
        assert_eq!(checked(&host(1), old, path, "2"), refused(path, &by_hand));
        assert_eq!(checked(&host(0), old, path, "2"), refused(path, &by_hand));
        assert_eq!(checked(&host(1), old, path, "inherit").as_deref(), Ok("inherit"), "it does");
        let own = host(1).with(&format!("{GROUP}/cpuset.cpus"), "0-3\n");
        assert_eq!(checked(&own, old, path, "2").as_deref(), Ok("2"));
        let emptied = checked(&own, old, path, "inherit").expect_err("it would be refused");
        assert_eq!(emptied, format!("invalid value `inherit` for affinity: {kept}; name CPUs"));
        let empty = host(0).with(&format!("{GROUP}/cpuset.cpus"), "0-3\n");
        assert_eq!(checked(&empty, old, path, "inherit").as_deref(), Ok("inherit"), "the list comes back");
    }
    let unit = "user@0.service/app.slice/own.service";
    let of_unit = version_2()
        .with(&format!("sys/fs/cgroup/user.slice/{unit}/cpuset.cpus"), "\n")
        .with(&format!("sys/fs/cgroup/user.slice/{unit}/cgroup.events"), "populated 1\n")
        .with("sys/fs/cgroup/cpuset.cpus.effective", "0-6\n");
    let first = "systemctl set-property --runtime own.service AllowedCPUs=0-6";
    assert_eq!(checked(&of_unit, "6.1.0", "unit:own", "2"), refused("unit:own.service", first));
    assert_eq!(checked(&host(1), "7.0.0", path, "2").as_deref(), Ok("2"));
    assert_eq!(checked(&host(1), "7.0.0", path, "inherit").as_deref(), Ok("inherit"));
    // Version 1 has no such file, and counts the groups below as well.
    let version_1 = RecordedHost::new().with("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-3\n");
    let version_1 = version_1.with("sys/fs/cgroup/cpuset/a/tasks", "");
    assert_eq!(checked(&version_1, "7.0.0", "cgroup:/a", "inherit").as_deref(), Ok("inherit"));
    let version_1 = version_1.with("sys/fs/cgroup/cpuset/a/b/tasks", "812\n");
    assert!(checked(&version_1, "7.0.0", "cgroup:/a", "inherit").is_err());
    let first = RecordedHost::new().with("sys/fs/cgroup/cpuset/a/cpuset.cpus", "\n");
    let first = first.with("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "0-3\n");
    let by_hand = "echo 0-3 >/sys/fs/cgroup/cpuset/a/cpuset.cpus";
    assert_eq!(checked(&first, "7.0.0", "cgroup:/a", "2"), refused("cgroup:/a", by_hand));
    // A new one may use no CPUs yet.
    let new = first
        .with("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "\n")
        .with("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-3\n");
    assert_eq!(checked(&new, "7.0.0", "cgroup:/a", "2"), refused("cgroup:/a", by_hand));
}

/// A version 1 group of CPUs 0 to 3, and thread 812 in a group below it that has no list.
fn pinned(cpus: &str) -> RecordedHost {
    RecordedHost::new()
        .with("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-3\n")
        .with("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "0-3\n")
        .with("sys/fs/cgroup/cpuset/a/tasks", "")
        .with("sys/fs/cgroup/cpuset/a/b/tasks", "812\n813\n")
        .with("proc/812/status", status(cpus))
        .with("proc/812/task/812/status", status(cpus))
}

/// What taskset(1) had set was lost with the first write.
#[test]
fn an_old_kernel_does_not_keep_the_affinity_of_threads_in_a_group() {
    let refused = "affinity cgroup:/a: undo could not restore the affinity of thread 812 (CPU 2): Linux before 6.2 \
                   replaces it by the CPUs of the group. Give it those first (`taskset -p -c 0-3 812`), or set the \
                   processes of the group by pid:N";
    for old in ["6.1.0", "unknown"] {
        assert_eq!(checked(&pinned("2"), old, "cgroup:/a", "1-2"), Err(refused.to_owned()));
        assert_eq!(
            checked(&pinned("2"), old, "cgroup:/a", "0-3").as_deref(),
            Ok("0-3"),
            "nothing is written"
        );
        assert_eq!(checked(&pinned("0-3,7"), old, "cgroup:/a", "1").as_deref(), Ok("1"), "CPU 7 is offline");
    }
    assert_eq!(checked(&pinned("2"), "6.2.0", "cgroup:/a", "1").as_deref(), Ok("1"));
    let elsewhere = Elsewhere(pinned("0-3"));
    let unknown = checked(&elsewhere, "6.1.0", "cgroup:/a", "1").expect_err("one may be pinned");
    assert!(unknown.contains("the processes of cgroup:/a are unknown"), "{unknown}");
    // Thread 813 has ended, unless the kernel has it, as where procfs hides it.
    let hidden = pinned("0-3").with("syscall/sched_getattr/813", [0; 16]);
    let unknown = checked(&hidden, "6.1.0", "cgroup:/a", "1").expect_err("it may be pinned");
    assert!(unknown.contains("/proc does not show this process"), "{unknown}");
}

/// A program may pin its threads after the change, and undo writes the list of the group again.
#[test]
fn threads_that_were_pinned_since_are_pinned_again() {
    let host = OldHost(pinned("2"));
    write(&Affinity, &host, "cgroup:/a", "1-3").expect("written");
    assert_eq!(read(&host, "cgroup:/a").as_deref(), Ok("1-3"));
    assert_eq!(read(&host, "pid:812").as_deref(), Ok("2"));
}

/// Looking for a unit's group takes time, in which systemd may make another one at its path.
#[test]
#[allow(clippy::disallowed_methods)] // A directory stands for the group.
fn a_group_that_was_made_again_is_not_written_to() {
    let live = tempfile::tempdir().expect("a directory");
    let group = live.path().join("sys/fs/cgroup/system.slice/web.service");
    std::fs::create_dir_all(&group)
        .and_then(|()| std::fs::write(group.join("cpuset.cpus"), "\n"))
        .expect("made");
    let host = LiveHost::open(live.path()).expect("a root");
    let (model, target) = (model(), target("unit:web.service"));
    let site = || Affinity.site(&host, &model, &target);
    let inode = host.inode("sys/fs/cgroup/system.slice/web.service").expect("there");
    let of = |inode: u64| armed_for(Some(GroupId { inode, hierarchy: None }));
    let error = Affinity.write(site(), "2", &of(inode + 1)).expect_err("another");
    assert!(error.to_string().contains("is another control group now"), "{error}");
    assert_eq!(Affinity.read(site()).as_deref(), Ok("inherit"));
    Affinity.write(site(), "2", &of(inode)).expect("written");
    assert_eq!(Affinity.read(site()).as_deref(), Ok("2"));
}

#[test]
fn a_unit_is_found_by_the_name_of_its_group() {
    let host = version_2();
    assert_eq!(read(&host, "unit:own").as_deref(), Ok("0-1"));
    let several = read(&host, "unit:web.service").expect_err("two");
    assert!(
        several.contains("use one of cgroup:/system.slice/web.service, cgroup:/user.slice/"),
        "{several}"
    );
    let plain = read(&host, "unit:plain.service").expect_err("no cpuset");
    assert!(plain.starts_with("unit:plain.service has no affinity: the cpuset controller is not"), "{plain}");
}

#[test]
fn version_1_is_looked_at_first_and_the_usual_places_last() {
    let host = RecordedHost::new()
        .with(
            "proc/self/mountinfo",
            "41 31 0:38 / /cg2 rw - cgroup2 cgroup2 rw\n33 31 0:29 / /cg1 rw - cgroup cgroup rw,cpuset\n",
        )
        .with("cg1/web/cpuset.cpus", "0-3\n")
        .with("cg2/web/cgroup.procs", "7\n");
    assert_eq!(read(&host, "cgroup:/web").as_deref(), Ok("0-3"));
    let usual = RecordedHost::new().with("sys/fs/cgroup/cpuset/web/cpuset.cpus", "x\n");
    let broken = read(&usual, "cgroup:/web").expect_err("no list");
    assert_eq!(broken, "/sys/fs/cgroup/cpuset/web/cpuset.cpus contains `x`, expected a CPU list");
}
