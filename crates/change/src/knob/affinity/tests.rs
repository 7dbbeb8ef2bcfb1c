use super::{Affinity, Knob};
use crate::journal::GroupId;
use crate::knob::KnobError;
use crate::knob::testbed::{self, armed_for, check, model, refusal, target, write};
use rxlab_sys::{Cause, Failpoint, Fault, FlakyHost, Host, LiveHost, RecordedHost, Rule};

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
        .with("sys/fs/cgroup/system.slice/plain.service/cgroup.procs", "7\n")
        .with("sys/fs/cgroup/user.slice/user@0.service/app.slice/web.service/cgroup.procs", "8\n")
        .with("sys/fs/cgroup/user.slice/user@0.service/app.slice/own.service/cpuset.cpus", "1,0\n")
}

#[test]
fn a_group_without_cpus_of_its_own_inherits() {
    let host = version_2();
    let at = "cgroup:/system.slice/web.service";
    assert_eq!(read(&host, at).as_deref(), Ok("inherit"));
    assert_eq!(check(&Affinity, &host, at, "5,2").as_deref(), Ok("2,5"));
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
