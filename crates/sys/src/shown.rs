//! Processes that `/proc` does not show: procfs may be mounted with `hidepid` (`ProtectProc=` of systemd). What it does not
//! show has not ended.

#![allow(clippy::disallowed_methods)] // procfs of this machine; recordings hide nothing.

use std::path::Path;

use rustix::process::{getegid, getgroups};
use rustix::thread::{CapabilitySet, capabilities};

use super::{Cause, Hidden, Host, HostError, Query};
use rxlab_base::parse;

/// What is known of a thread; `None` if it has ended. An error if a file of it is missing, and the kernel does not say that
/// there is no such thread (ESRCH).
pub fn unless_ended<T>(
    host: &dyn Host,
    thread: u32,
    found: Result<T, HostError>,
) -> Result<Option<T>, HostError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(missing) if missing.cause == Cause::Missing => {
            match host.query(&Query::ThreadAttributes { pid: thread }) {
                Err(error) if error.cause == Cause::Missing => Ok(None),
                Err(error) => Err(error),
                Ok(_) => Err(HostError { cause: Cause::NotInProc, ..missing }),
            }
        }
        Err(error) => Err(error),
    }
}

/// An error unless `/proc` lists every process of its PID namespace, which must be that of the machine.
pub(super) fn all_are_listed() -> Result<(), Hidden> {
    let unread =
        |error: &dyn std::fmt::Display| Hidden(format!("cannot tell if /proc hides processes: {error}"));
    let mounts = std::fs::read("/proc/self/mountinfo").map_err(|error| unread(&error))?;
    let mounts = parse::mounts(&String::from_utf8_lossy(&mounts)).map_err(|error| unread(&error))?;
    let proc = mounts.iter().rfind(|mount| mount.point == "/proc");
    let Some(proc) = proc.filter(|mount| mount.kind == "proc") else {
        return Err(unread(&"it is not a mount point of procfs"));
    };
    let Some(rule) = Rule::of(&proc.options) else { return Ok(()) };
    let has_privilege = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_PTRACE));
    let groups = getgroups().unwrap_or_default();
    let is_in = |group: u32| getegid().as_raw() == group || groups.iter().any(|own| own.as_raw() == group);
    // Both count only in the user namespace of process 1, and a security module may deny what they allow.
    if (has_privilege || rule.group.is_some_and(is_in)) && Path::new("/proc/1").exists() {
        return Ok(());
    }
    Err(Hidden(format!(
        "/proc hides processes, and what only they have (hidepid={}): run rxlab as root with CAP_SYS_PTRACE, or with another \
         /proc",
        rule.option
    )))
}

/// Whom a procfs hides processes from.
#[derive(Debug, PartialEq, Eq)]
struct Rule<'a> {
    option: &'a str,
    /// Who is in this group sees them all.
    group: Option<u32>,
}

impl<'a> Rule<'a> {
    /// By the options of its mount; `None` if it lists all (`proc_show_options` of fs/proc/root.c).
    fn of(options: &'a [String]) -> Option<Self> {
        let value =
            |name: &str| options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
        let option = value("hidepid").filter(|option| !["0", "off", "1", "noaccess"].contains(option))?;
        let is_by_group = ["2", "invisible"].contains(&option);
        let group = value("gid").map_or(Some(0), |gid| gid.parse().ok());
        Some(Self { option, group: group.filter(|_| is_by_group) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, unless_ended};
    use crate::{Cause, Host, RecordedHost};

    #[test]
    fn what_proc_does_not_show_has_ended_only_if_the_kernel_says_so() {
        let host =
            RecordedHost::new().with("proc/7/comm", b"x\xff\n").with("syscall/sched_getattr/8", [0; 16]);
        let host = host.with_failure("syscall/sched_getattr/10", Cause::Denied);
        let found = |thread: u32| {
            let name = unless_ended(&host, thread, host.read_text(&format!("proc/{thread}/comm")));
            name.map_err(|error| (error.path, error.cause))
        };
        assert_eq!(found(7), Ok(Some("x\u{fffd}\n".to_owned())));
        assert_eq!(found(8), Err(("proc/8/comm".to_owned(), Cause::NotInProc)));
        assert_eq!(found(9), Ok(None));
        assert_eq!(found(10), Err(("syscall/sched_getattr/10".to_owned(), Cause::Denied)));
    }

    #[test]
    fn a_procfs_that_hides_processes_says_so() {
        let rule = |options: &str| {
            let options: Vec<String> = options.split(',').map(str::to_owned).collect();
            Rule::of(&options).map(|Rule { option, group }| (option.to_owned(), group))
        };
        for shown in
            ["rw", "rw,gid=5", "rw,hidepid=1", "rw,hidepid=noaccess", "rw,hidepid=off", "rw,subset=pid"]
        {
            assert_eq!(rule(shown), None, "{shown}");
        }
        for (options, option, group) in [
            ("rw,hidepid=2", "2", Some(0)),
            ("rw,gid=12,hidepid=invisible", "invisible", Some(12)),
            ("rw,gid=x,hidepid=invisible", "invisible", None),
            ("rw,gid=12,hidepid=ptraceable", "ptraceable", None),
            ("rw,hidepid=4", "4", None),
            ("rw,hidepid=new", "new", None),
        ] {
            assert_eq!(rule(options), Some((option.to_owned(), group)), "{options}");
        }
    }
}
