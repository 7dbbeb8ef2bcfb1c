//! Threads of NAPIs that a write ends. The kernel creates others, and not all that a thread can have is set again
//! (`napi_affinity`, `napi_priority` of receive queues): what would be lost is refused before the write.

use super::affinity::{ALL, thread_cpus};
use super::priority::{KTHREADD, NAPI_THREAD, NEW, is_kernel_thread, is_thread_of};
use super::queue_napi::is_down;
use super::{KnobError, Result, Site};
use rxlab_base::parse::{self, NetdevNapi, ThreadAttributes};
use rxlab_base::units::CpuMask;
use rxlab_path::model::Nic;
use rxlab_sys::{Cause, HostError, INITIAL_USER_NAMESPACE, Query};

/// What a new thread has from the one that creates all threads of the kernel, and what no knob sets.
struct Inherited {
    /// Content of `cgroup`, where names may be any bytes; `None` on a kernel without control groups, and of a thread that has
    /// ended.
    groups: Option<Vec<u8>>,
    attributes: Option<ThreadAttributes>,
}

/// Refuses a write that ends the threads of the NAPIs of an interface if one has what a new one would not have, or if that cannot
/// be told. NAPIs without a number, as tunnels have, are found by the name that the interface had when they were created.
pub(crate) fn check_threads(site: Site<'_>, nic: &Nic) -> Result {
    let listed = match site.query(&Query::Napis, parse::netdev_napis, "a list of NAPIs") {
        Err(KnobError::Unsupported { .. }) => None,
        listed => Some(listed?),
    };
    let own = |napi: &&NetdevNapi| Some(napi.ifindex) == nic.ifindex;
    let has_thread = listed.iter().flatten().filter(own).any(|napi| napi.pid.is_some());
    let saved: Vec<u32> = nic.rx.iter().filter_map(|queue| queue.napi.as_ref()?.thread).collect();
    let is_threaded = has_thread || !saved.is_empty() || is_threaded(site, nic)?;
    // Before Linux 6.17, threads stay when `threaded` is switched off, until their NAPI goes or it is switched on again.
    if !is_threaded && ["threaded", "queue_threaded"].contains(&site.knob) {
        return Ok(());
    }
    if !is_thread_of(site, KTHREADD, 0, |name| name == "kthreadd")? {
        let unseen = || site.unknown("NAPIs", "threads of the kernel are not visible from here");
        return if is_threaded { Err(unseen()) } else { Ok(()) };
    }
    let new = inherited(site, KTHREADD)?;
    let cannot_schedule = cannot_schedule(site)?;
    let threads = named(site)?;
    let is_own = |pid: u32, name: &str| is_of(site, nic, listed.as_deref(), pid, name);
    let is_by_another_name = is_threaded
        && !has_thread
        && saved.is_empty()
        && !threads.iter().any(|(pid, name)| is_own(*pid, name));
    for (pid, name) in threads {
        let is_saved = saved.contains(&pid);
        let may_be_own = || is_by_another_name && (listed.is_none() || has_no_number(&name));
        if !is_saved && !is_own(pid, &name) && !may_be_own() {
            continue;
        }
        let lost = match lost(site, pid)? {
            Some(_) if is_saved => cannot_schedule,
            lost => lost,
        };
        if let Some(what) = lost.map_or_else(|| not_inherited(site, pid, &new), |what| Ok(Some(what)))? {
            if is_by_another_name {
                let may_be = format!(
                    "it was renamed, {name} (process {pid}) may be one of its threads, and rxlab could not restore the \
                     {what} of that; set the default first"
                );
                return Err(site.unknown("NAPIs", &may_be));
            }
            let (knob, target) = (site.knob, site.target.clone());
            return Err(KnobError::UnrestorableThread { knob, target, pid, name, what });
        }
    }
    Ok(())
}

/// Why this process may not set CPUs and scheduling of the kernel's threads: that takes CAP_SYS_NICE in the initial user
/// namespace (`sched_setaffinity` of kernel/sched/syscalls.c, `cap_safe_nice`). The capabilities of a process say nothing about
/// any namespace but its own.
fn cannot_schedule(site: Site<'_>) -> Result<Option<&'static str>> {
    const CAP_SYS_NICE: u32 = 23;
    let absent = |error: HostError| match error.cause {
        // A kernel without user namespaces, or a recording.
        Cause::Missing => Ok(None),
        _ => Err(site.unreadable(&error)),
    };
    let namespace = site.host.link("proc/self/ns/user").map_or_else(absent, |found| Ok(Some(found)))?;
    if namespace.is_some_and(|namespace| namespace != format!("user:[{INITIAL_USER_NAMESPACE}]")) {
        return Ok(Some("CPUs and scheduling from another user namespace than the first"));
    }
    let status = site.host.read_text("proc/self/status").map_or_else(absent, |found| Ok(Some(found)))?;
    let own = status.and_then(|status| parse::capabilities(&status));
    let may = own.is_none_or(|own| own >> CAP_SYS_NICE & 1 == 1);
    Ok((!may).then_some("CPUs and scheduling without CAP_SYS_NICE"))
}

/// True if the NAPIs of an interface, as a whole, have threads.
fn is_threaded(site: Site<'_>, nic: &Nic) -> Result<bool> {
    match site.host.read_text(&format!("sys/class/net/{}/threaded", nic.name)) {
        Ok(text) => Ok(text.trim() != "0"),
        Err(error) if error.cause == Cause::Missing => Ok(false),
        Err(error) => Err(site.unreadable(&error)),
    }
}

/// Threads with names of NAPIs.
fn named(site: Site<'_>) -> Result<Vec<(u32, String)>> {
    let all = site.host.list("proc").map_err(|error| site.unreadable(&error))?;
    let mut found = Vec::new();
    for pid in all.iter().filter_map(|name| name.parse().ok()) {
        let name = match site.host.read_text(&format!("proc/{pid}/comm")) {
            Ok(text) => parse::thread_name(&text).to_owned(),
            Err(error) if error.cause == Cause::Missing => continue,
            Err(error) => return Err(site.unreadable(&error)),
        };
        // Any process can take the name.
        if name.starts_with(NAPI_THREAD) && is_kernel_thread(site, pid, |_| true)? {
            found.push((pid, name));
        }
    }
    Ok(found)
}

/// Longest name of a thread before Linux 5.17.
const OLD_NAME: usize = 15;

/// True if a thread may poll a NAPI without a number.
fn has_no_number(name: &str) -> bool {
    name.ends_with("-0") || name.len() == OLD_NAME
}

/// True if a thread may poll a NAPI of the interface.
fn is_of(site: Site<'_>, nic: &Nic, listed: Option<&[NetdevNapi]>, pid: u32, name: &str) -> bool {
    if let Some(napi) = listed.unwrap_or_default().iter().find(|napi| napi.pid == Some(pid)) {
        return Some(napi.ifindex) == nic.ifindex;
    }
    let own = format!("{NAPI_THREAD}{}-", nic.name);
    let Some(number) = name.strip_prefix(&own) else {
        return name.len() == OLD_NAME && own.starts_with(name);
    };
    let is_it = |napi: &&NetdevNapi| number.parse() == Ok(napi.id);
    if let Some(napi) = listed.unwrap_or_default().iter().find(is_it) {
        return Some(napi.ifindex) == nic.ifindex;
    }
    // One with a number is listed with the interface, which is then one of another namespace.
    let is_elsewhere = listed.is_some() && number != "0" && !is_down(site, nic);
    !is_elsewhere
}

/// What a thread has that a new one has not, and that is set again only for a receive queue.
fn lost(site: Site<'_>, pid: u32) -> Result<Option<&'static str>> {
    let Some(cpus) = thread_cpus(site, pid, pid)? else { return Err(ended(site, pid)) };
    if !is_default(site, &cpus)? {
        return Ok(Some("CPUs"));
    }
    let path = format!("proc/{pid}/stat");
    let now = parse::scheduling(&site.read_text(&path)?)
        .map_err(|error| KnobError::broken(&path, error, "a stat file"))?;
    Ok((now != NEW).then_some("scheduling"))
}

/// True if a new thread may run on these CPUs: all but those of `nohz_full` (`HK_TYPE_KTHREAD` of kernel/sched/isolation.c).
fn is_default(site: Site<'_>, cpus: &str) -> Result<bool> {
    let left_out = match site.host.read_text("sys/devices/system/cpu/nohz_full") {
        // `(null)` without any.
        Ok(text) => text.trim().parse().unwrap_or_default(),
        Err(error) if error.cause == Cause::Missing => CpuMask::default(),
        Err(error) => return Err(site.unreadable(&error)),
    };
    let online = site.model.online();
    let usual = online.difference(&left_out);
    let allowed = match cpus.parse::<CpuMask>() {
        Ok(cpus) => cpus,
        Err(_) if cpus == ALL => online.clone(),
        Err(error) => return Err(KnobError::broken("proc/PID/status", error, "a list of CPUs")),
    };
    // Those that are offline do not matter.
    Ok(usual.difference(&allowed).is_empty() && online.intersection(&allowed).difference(&usual).is_empty())
}

fn inherited(site: Site<'_>, pid: u32) -> Result<Inherited> {
    let groups = match site.host.read(&format!("proc/{pid}/cgroup")) {
        Ok(groups) => Some(groups),
        Err(error) if error.cause == Cause::Missing => None,
        Err(error) => return Err(site.unreadable(&error)),
    };
    let attributes = match site.query(
        &Query::ThreadAttributes { pid },
        parse::thread_attributes,
        "attributes of a thread",
    ) {
        Err(KnobError::Unsupported { .. }) => None,
        attributes => Some(attributes?),
    };
    Ok(Inherited { groups, attributes })
}

/// What of a thread a new one does not have.
fn not_inherited(site: Site<'_>, pid: u32, new: &Inherited) -> Result<Option<&'static str>> {
    let now = inherited(site, pid)?;
    Ok(match (now.attributes, new.attributes) {
        _ if now.groups.is_none() != new.groups.is_none() => return Err(ended(site, pid)),
        _ if now.groups != new.groups => Some("control groups"),
        (Some(now), Some(new)) if now.resets_on_fork != new.resets_on_fork => Some("reset-on-fork flag"),
        // Not shown under a realtime policy.
        (Some(now), Some(new)) if now.slice.is_some() && now.slice != new.slice => Some("slice"),
        (Some(_), Some(_)) | (None, None) => None,
        _ => return Err(ended(site, pid)),
    })
}

fn ended(site: Site<'_>, pid: u32) -> KnobError {
    site.unknown("NAPIs", &format!("thread {pid} has ended meanwhile; try again"))
}

#[cfg(test)]
mod tests {
    use super::{NEW, check_threads};
    use crate::knob;
    use crate::knob::testbed::model;
    use rxlab_base::parse::{Scheduling, attribute, one_message, with_scheduling};
    use rxlab_sys::RecordedHost;

    const SLICE: u64 = 1_400_000;

    fn add(
        host: RecordedHost,
        (pid, parent, name): (u32, u32, &str),
        scheduling: &Scheduling,
    ) -> RecordedHost {
        let stat = format!("{pid} ({name}) S {parent} 0{}\n", " 0".repeat(47));
        let stat = with_scheduling(&stat, scheduling).expect("whole");
        attributes(host, pid, 0, SLICE)
            .with(&format!("proc/{pid}/comm"), format!("{name}\n"))
            .with(&format!("proc/{pid}/stat"), stat)
            .with(&format!("proc/{pid}/cgroup"), "0::/\n")
            .with(&format!("proc/{pid}/task/{pid}/status"), "Name:\tnapi\nCpus_allowed_list:\t0-15\n")
    }

    fn attributes(host: RecordedHost, pid: u32, flags: u64, slice: u64) -> RecordedHost {
        let path = format!("syscall/sched_getattr/{pid}");
        host.with(&path, [flags, slice].map(u64::to_ne_bytes).concat())
    }

    /// eth0 with threads: 500 polls its first queue, 700 a NAPI without a number.
    fn host() -> RecordedHost {
        let ids = [attribute(1, 4u32.to_ne_bytes()), attribute(2, 8193u32.to_ne_bytes())];
        let napi = one_message(&[&ids.concat()[..], &attribute(4, 500u32.to_ne_bytes())].concat());
        let host = RecordedHost::new()
            .with("netlink/netdev/napi-get", napi)
            .with("sys/class/net/eth0/threaded", "1\n");
        let host = add(host, (2, 0, "kthreadd"), &NEW);
        // What `napi_affinity` and `napi_priority` restore is not looked at.
        let host = add(host, (500, 2, "napi/eth0-8193"), &Scheduling { nice: -7, ..NEW });
        add(host, (700, 2, "napi/eth0-0"), &NEW)
    }

    fn check(host: &RecordedHost) -> Result<(), String> {
        check_before("threaded", host, Some(500))
    }

    /// `thread` polls the first queue.
    fn check_before(knob: &str, host: &RecordedHost, thread: Option<u32>) -> Result<(), String> {
        let (knob, target) = (knob::find(knob).expect("a knob"), "eth0".parse().expect("a target"));
        let mut model = model();
        model.nics[0].ifindex = Some(4);
        model.nics[0]
            .rx
            .iter_mut()
            .filter_map(|queue| queue.napi.as_mut())
            .for_each(|napi| napi.thread = None);
        model.nics[0].rx[0].napi.as_mut().expect("polled").thread = thread;
        check_threads(knob.site(host, &model, &target), &model.nics[0]).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_new_thread_would_not_have_is_refused() {
        assert_eq!(check(&host()), Ok(()));
        let status = |pid: u32| format!("proc/{pid}/task/{pid}/status");
        let pinned = "Name:\tnapi\nCpus_allowed_list:\t1\n";
        assert_eq!(check(&host().with(&status(500), pinned)), Ok(()), "it is set again");
        let nice = Scheduling { nice: -7, ..NEW };
        for (host, pid, what) in [
            (host().with(&status(700), pinned), 700, "CPUs"),
            (add(host(), (700, 2, "napi/eth0-0"), &nice), 700, "scheduling"),
            (host().with("proc/700/cgroup", "0::/a\n"), 700, "control groups"),
            (host().with("proc/500/cgroup", "0::/a\n"), 500, "control groups"),
            (attributes(host(), 500, 0, 10_000_000), 500, "slice"),
            (attributes(host(), 500, 1, SLICE), 500, "reset-on-fork flag"),
            (host().with("sys/devices/system/cpu/nohz_full", "1\n"), 700, "CPUs"),
        ] {
            let name = if pid == 500 { "napi/eth0-8193" } else { "napi/eth0-0" };
            let expected = format!(
                "threaded eth0 would end the thread {name} (process {pid}), and rxlab could not restore its {what}; \
                 set the default first"
            );
            assert_eq!(check(&host), Err(expected));
        }
        let restricted = host().with("proc/self/status", "Name:\trxlab\nCapEff:\t000001ffff7fffff\n");
        let expected = "threaded eth0 would end the thread napi/eth0-8193 (process 500), and rxlab could not restore its \
                        CPUs and scheduling without CAP_SYS_NICE; set the default first";
        assert_eq!(check(&restricted), Err(expected.to_owned()));
        let allowed = || host().with("proc/self/status", "Name:\trxlab\nCapEff:\t000001ffffffffff\n");
        assert_eq!(check(&allowed()), Ok(()));
        let user = |inode: u32| allowed().with_link("proc/self/ns/user", &format!("user:[{inode}]"));
        assert_eq!(check(&user(4_026_531_837)), Ok(()));
        let expected = "threaded eth0 would end the thread napi/eth0-8193 (process 500), and rxlab could not restore its \
                        CPUs and scheduling from another user namespace than the first; set the default first";
        assert_eq!(check(&user(4_026_532_500)), Err(expected.to_owned()));
        let realtime =
            add(host(), (500, 2, "napi/eth0-8193"), &Scheduling { policy: 1, priority: 5, nice: 0 });
        assert_eq!(check(&attributes(realtime, 500, 0, 0)), Ok(()), "its slice is not shown");
    }

    #[test]
    fn threads_of_others_do_not_matter() {
        let nice = Scheduling { nice: -7, ..NEW };
        for (parent, name, is_own) in [
            (2, "napi/eth0-0", true),
            (2, "napi/eth1-0", false),
            (2, "napi/eth0.5-0", false),
            (1, "napi/eth0-0", false),
            // Listed nowhere here: of an interface of that name in another namespace.
            (2, "napi/eth0-8200", false),
        ] {
            assert_eq!(check(&add(host(), (701, parent, name), &nice)).is_err(), is_own, "{name}");
        }
        let old = RecordedHost::new().with("sys/class/net/eth0/threaded", "1\n");
        let old = add(add(old, (2, 0, "kthreadd"), &NEW), (701, 2, "napi/eth0-8200"), &nice);
        assert!(check(&old).is_err(), "this kernel lists no NAPIs");
    }

    /// A thread that polls nothing any more ends with its NAPI: its CPUs were once lost.
    #[test]
    fn threads_that_are_left_over_are_not_ended() {
        let nice = Scheduling { nice: -7, ..NEW };
        let ids = [attribute(1, 4u32.to_ne_bytes()), attribute(2, 8193u32.to_ne_bytes())];
        let listed = || {
            let host = RecordedHost::new().with("sys/class/net/eth0/threaded", "0\n");
            host.with("netlink/netdev/napi-get", one_message(&ids.concat()))
        };
        let left_over = |scheduling: &Scheduling| {
            let host = add(listed(), (2, 0, "kthreadd"), &NEW);
            add(host, (701, 2, "napi/eth0-8193"), scheduling)
        };
        assert!(check_before("gro", &left_over(&nice), None).is_err());
        assert_eq!(check_before("threaded", &left_over(&nice), None), Ok(()), "it gets them back");
        assert_eq!(check_before("gro", &left_over(&NEW), None), Ok(()));
        assert_eq!(
            check_before("gro", &listed(), None),
            Ok(()),
            "no thread is visible from here, and none polls"
        );
    }

    /// The CPUs of the thread were once lost.
    #[test]
    fn threads_of_a_renamed_interface_are_not_ended() {
        let pinned = Scheduling { nice: -7, ..NEW };
        let renamed = |name: &str, number: &str, scheduling: &Scheduling| {
            let host = RecordedHost::new().with("sys/class/net/eth0/threaded", "1\n");
            let other = [attribute(1, 5u32.to_ne_bytes()), attribute(2, 8193u32.to_ne_bytes())];
            let host = host.with("netlink/netdev/napi-get", one_message(&other.concat()));
            let host = add(host, (2, 0, "kthreadd"), &NEW);
            add(host, (701, 2, &format!("napi/{name}-{number}")), scheduling)
        };
        let expected = "the NAPIs of eth0 are unknown: it was renamed, napi/vx7-0 (process 701) may be one of its threads, \
                        and rxlab could not restore the scheduling of that; set the default first";
        assert_eq!(check_before("gro", &renamed("vx7", "0", &pinned), None), Err(expected.to_owned()));
        assert_eq!(check_before("gro", &renamed("vx7", "0", &NEW), None), Ok(()));
        assert_eq!(check_before("gro", &renamed("vx7", "8200", &pinned), None), Ok(()), "it would be listed");
        let both = add(renamed("vx7", "0", &pinned), (702, 2, "napi/eth0-0"), &NEW);
        assert_eq!(check_before("gro", &both, None), Ok(()), "its threads have its name");
    }

    #[test]
    fn threads_that_are_not_visible_are_not_ended() {
        let hidden = RecordedHost::new().with("sys/class/net/eth0/threaded", "1\n");
        let expected = "the NAPIs of eth0 are unknown: threads of the kernel are not visible from here";
        assert_eq!(check(&hidden), Err(expected.to_owned()));
    }
}
