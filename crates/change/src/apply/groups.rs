//! Control groups as targets: which one it is, where it is now, and whether it is gone.

use std::collections::BTreeSet;

use super::locate::Place;
use crate::journal::GroupId;
use crate::knob::group_directory;
use rxlab_base::parse;
use rxlab_setting::Target;
use rxlab_sys::{Cause, Host, HostError, Operation};

/// The control group of a target; `None` for other targets, in recordings, and if there is none.
pub(super) fn group_of(host: &dyn Host, target: &Target) -> Option<GroupId> {
    let (Target::Cgroup(_) | Target::Unit(_)) = target else { return None };
    let directory = group_directory(host, target).ok()?;
    Some(GroupId { inode: host.inode(&directory).ok()?, hierarchy: hierarchy(host) })
}

/// The control groups that a process, or one of its threads, is in, and those above, as far as they have a list of CPUs.
pub(super) fn groups_of_process(host: &dyn Host, pid: u32) -> Result<Vec<GroupId>, HostError> {
    let tasks = format!("proc/{pid}/task");
    let tids = match host.list(&tasks) {
        Err(error) if error.cause == Cause::Missing => return Ok(Vec::new()),
        tids => tids?,
    };
    let mut paths = BTreeSet::new();
    for tid in tids {
        let path = format!("{tasks}/{tid}/cgroup");
        let text = match host.read_text(&path) {
            Err(error) if error.cause == Cause::Missing => continue,
            text => text?,
        };
        let groups = parse::control_groups(&text)
            .map_err(|_| HostError::new(Operation::Read, &path, Cause::NotText))?;
        paths.extend(groups.cpuset.or(groups.unified));
    }
    let targets = paths.iter().flat_map(|path| {
        std::iter::successors(Some(path.as_str()), |path| path.rsplit_once('/').map(|(above, _)| above))
            .filter_map(Target::cgroup)
    });
    Ok(targets.filter_map(|target| group_of(host, &target)).collect())
}

/// Number of the hierarchy that has the cpuset controller: 0 is version 2. `None` if the kernel does not report it.
fn hierarchy(host: &dyn Host) -> Option<u32> {
    parse::hierarchy(&host.read_text("proc/cgroups").ok()?, "cpuset")
}

/// Finds the group of a target again: at its path, or wherever it was renamed to.
pub(super) fn locate(host: &dyn Host, target: &Target, group: GroupId) -> Place {
    if group_of(host, target).is_some_and(|now| now.is_same(group)) {
        return Place::Here(target.clone());
    }
    // A hierarchy exists as long as it has groups, and the controller is in none but its own.
    if group.hierarchy.zip(hierarchy(host)).is_some_and(|(then, now)| then != now) {
        return Place::Gone;
    }
    let Some(mount) = mount(host, group) else {
        return Place::Unknown("its control group file system is not mounted here".to_owned());
    };
    match host.find_group(&mount, group.inode) {
        Ok(None) => Place::Gone,
        Ok(Some(path)) => match Target::cgroup(&format!("/{path}")) {
            Some(target) => Place::Here(target),
            None => Place::Unknown(format!(
                "its control group is now at {path}, which is not a target: rename it"
            )),
        },
        Err(error) => Place::Unknown(error.to_string()),
    }
}

/// Where the file system of the group is mounted, relative to the root.
fn mount(host: &dyn Host, group: GroupId) -> Option<String> {
    let mounts = parse::mounts(&host.read_text("proc/self/mountinfo").ok()?).ok()?;
    let is_version_2 = group.hierarchy.or_else(|| hierarchy(host))? == 0;
    let found = mounts.iter().rfind(|mount| {
        if is_version_2 {
            mount.kind == "cgroup2"
        } else {
            mount.kind == "cgroup" && mount.options.iter().any(|option| option == "cpuset")
        }
    })?;
    // A later mount on the same point hides it.
    let visible = mounts.iter().rfind(|mount| mount.point == found.point)?;
    (visible == found).then(|| found.point.trim_matches('/').to_owned())
}
