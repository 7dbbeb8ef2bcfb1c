//! The practice range and other network namespaces on the real kernel.

use std::path::Path;
use std::process::{Command, Stdio};

use rxlab::lab::{Namespace, Range, RangeSpec};
use rxlab_path::model::{Fact, NicKind};
use rxlab_path::sample::Scope;
use rxlab_sys::{Host, LiveHost};

use crate::process::wait_for;
use crate::require;
use crate::tree::look;

/// A range with this number of queues; `None` if skipped.
pub(crate) fn range(queues: u32) -> Option<Range> {
    require::netns().then(|| Range::build(&RangeSpec { queues, ..RangeSpec::default() }).expect("built"))
}

/// The machine as seen from a network namespace.
pub(crate) fn host_in(namespace: &Namespace) -> LiveHost {
    LiveHost::open_in_namespace(Path::new("/"), &namespace.path()).expect("opened")
}

/// A program in a network namespace.
pub(crate) fn inside(namespace: &Namespace, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.path().display())).arg(program).stdin(Stdio::null());
    command
}

#[test]
fn the_server_host_is_visible_from_outside() {
    let Some(range) = range(2) else { return };
    let host = host_in(&range.server);
    let model = || look(&host, Scope::All);
    // The kernel reports the carrier a little later.
    wait_for("the carrier", || model().nic(&Range::server_nic()).is_some_and(|nic| nic.up));
    let model = model();
    let names: Vec<&str> = model.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["lo", "srv0"]);
    let nic = model.nic(&Range::server_nic()).expect("there");
    assert_eq!((nic.kind, nic.rx.len()), (NicKind::Virtual, 2));
    assert!(nic.rx.iter().all(|queue| queue.irqs.is_empty()));
    // Its driver is queried in the namespace: outside there is no such interface.
    assert_eq!(nic.hardware.driver.known().map(|info| info.driver.as_str()), Some("veth"));

    let rps = "sys/class/net/srv0/queues/rx-1/rps_cpus";
    host.write(rps, b"1").expect("written");
    let model = look(&host, Scope::All);
    let nic = model.nic(&Range::server_nic()).expect("there");
    assert_eq!(nic.rx[1].rps_cpus, Fact::Known("0".parse().expect("a list")));
    assert_eq!(nic.rx[0].rps_cpus, Fact::Known("".parse().expect("a list")));
}

#[test]
fn a_range_leaves_nothing_behind() {
    let Some(range) = range(1) else { return };
    // Namespaces are distinguished by inode: the number of a closed descriptor is soon reused.
    let inode = |path: &Path| std::fs::metadata(path).map(|file| std::os::unix::fs::MetadataExt::ino(&file));
    let path = range.server.path();
    let before = inode(&path).expect("the namespace exists");
    drop(range);
    assert!(inode(&path).map_or(true, |after| after != before));
}
