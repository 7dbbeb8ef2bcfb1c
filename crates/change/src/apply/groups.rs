//! Control groups as targets: which one it is, where it is now, and whether it is gone.

use super::locate::Place;
use crate::journal::GroupId;
use crate::knob::group_directory;
use rxlab_base::parse::{self, Mount};
use rxlab_setting::Target;
use rxlab_sys::{Cause, Host};

/// The control group of a target; `None` for other targets, in recordings, and if there is none.
pub(super) fn group_of(host: &dyn Host, target: &Target) -> Option<GroupId> {
    let (Target::Cgroup(_) | Target::Unit(_)) = target else { return None };
    let directory = group_directory(host, target).ok()?;
    Some(GroupId { inode: host.inode(&directory).ok()?, hierarchy: hierarchy(host) })
}

/// Number of the hierarchy that has the cpuset controller: 0 is version 2. `None` if the kernel does not report it.
fn hierarchy(host: &dyn Host) -> Option<u32> {
    parse::hierarchy(&host.read_text("proc/cgroups").ok()?, "cpuset")
}

/// True on a kernel that can have the controller in version 2 only: since Linux 6.12, `/proc/cgroups` lists it with CONFIG_CPUSETS_V1
/// alone (`proc_cgroupstats_show` of kernel/cgroup/cgroup-v1.c).
fn has_no_version_1(host: &dyn Host, mounts: &[Mount]) -> bool {
    let controllers = host.read_text("proc/cgroups");
    controllers.is_ok_and(|text| parse::hierarchy(&text, "cpuset").is_none())
        && !mounts.iter().any(is_version_1)
}

fn is_version_1(mount: &Mount) -> bool {
    mount.kind == "cgroup" && mount.options.iter().any(|option| option == "cpuset")
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
        Err(error) if error.cause == Cause::Denied => Place::Unknown(
            "its control group is not at its path, and only root with CAP_DAC_READ_SEARCH finds it elsewhere, outside of user \
             namespaces: run `rxlab undo` on the host"
                .to_owned(),
        ),
        Err(error) => Place::Unknown(error.to_string()),
    }
}

/// Where the file system of the group is mounted, relative to the root.
fn mount(host: &dyn Host, group: GroupId) -> Option<String> {
    let mounts = parse::mounts(&host.read_text("proc/self/mountinfo").ok()?).ok()?;
    let is_version_2 = match group.hierarchy.or_else(|| hierarchy(host)) {
        Some(number) => number == 0,
        None if has_no_version_1(host, &mounts) => true,
        None => return None,
    };
    let found = mounts
        .iter()
        .rfind(|mount| if is_version_2 { mount.kind == "cgroup2" } else { is_version_1(mount) })?;
    // A later mount on the same point hides it.
    let visible = mounts.iter().rfind(|mount| mount.point == found.point)?;
    let is_text = !found.point.contains(char::REPLACEMENT_CHARACTER);
    (visible == found && is_text).then(|| found.point.trim_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::locate;
    use crate::apply::locate::Place;
    use crate::journal::GroupId;
    use rxlab_setting::Target;
    use rxlab_sys::RecordedHost;

    /// Linux 6.12 and later without CONFIG_CPUSETS_V1 (published: libcgroup/libcgroup#444): a group that had ended was once not known to be gone, so that its guard never
    /// ended, and no other change was possible.
    #[test]
    fn a_group_has_gone_on_a_kernel_without_version_1() {
        let target = Target::cgroup("/web.slice").expect("a path");
        let place = |controllers: &str, mounts: &str| {
            let host = RecordedHost::new().with("sys/fs/cgroup/other.slice/cpuset.cpus", "");
            let host = host.with("proc/cgroups", controllers).with("proc/self/mountinfo", mounts);
            locate(&host, &target, GroupId { inode: 7402, hierarchy: None })
        };
        let version_2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let version_1 = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let unlisted = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nfreezer\t0\t60\t1\n";
        assert!(matches!(place(unlisted, version_2), Place::Gone));
        for (controllers, mounts) in [(unlisted, [version_2, version_1].concat()), (unlisted, String::new())]
        {
            assert!(matches!(place(controllers, &mounts), Place::Unknown(_)), "{mounts}");
        }
    }
}
