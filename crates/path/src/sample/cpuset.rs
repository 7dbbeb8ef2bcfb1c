//! The CPUs of the root control group and of those of processes, in either version of the cpuset controller.

use super::read;
use rxlab_base::parse::{self, Mount};
use rxlab_base::units::{CpuMask, Fact};
use rxlab_sys::Host;

/// Facts of the root control group.
pub(super) struct Cpuset {
    /// CPUs it may use.
    pub(super) effective: Fact<CpuMask>,
    /// CPUs of isolated partitions.
    pub(super) isolated: Fact<CpuMask>,
    /// CPUs of exclusive groups of version 1, other than those that the first process is in.
    pub(super) exclusive: Fact<CpuMask>,
}

/// Usual mount points of the two versions, for hosts whose mounts cannot be read.
const USUAL: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/cpuset"];

/// By version; a controller belongs to one of them, so the files of the other are missing.
const EFFECTIVE: [&str; 3] = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];

pub(super) fn take(host: &dyn Host) -> Cpuset {
    let directories = directories(host);
    let first_of = |names: &[&str]| first(host, &directories, names);
    Cpuset {
        effective: first_of(&EFFECTIVE),
        isolated: first_of(&["cpuset.cpus.isolated"]),
        exclusive: exclusive(host, &directories),
    }
}

/// True for an exclusive group of version 1.
fn is_exclusive(host: &dyn Host, group: &str) -> bool {
    read::number::<u32>(host, &format!("{group}/cpuset.cpu_exclusive")).known() == Some(&1)
}

/// CPUs of the exclusive groups, below the first group of the hierarchy, which always is one. The group of the first process
/// is that of the machine's own work, such as cset's `system` next to its shield.
fn exclusive(host: &dyn Host, directories: &[String]) -> Fact<CpuMask> {
    let Some(root) = directories.iter().find(|group| is_exclusive(host, group)) else {
        return Fact::Unsupported;
    };
    let groups = read::parsed(host, "proc/1/cgroup", parse::control_groups);
    groups.and_then(|groups| {
        let own = groups.cpuset.unwrap_or_default();
        of_groups(host, root, &own.split('/').filter(|name| !name.is_empty()).collect::<Vec<_>>())
    })
}

/// CPUs of the exclusive groups in this one; of the group `own` in it, those of the exclusive groups further down.
fn of_groups(host: &dyn Host, group: &str, own: &[&str]) -> Fact<CpuMask> {
    read::list(host, group).and_then(|names| {
        let is_file = |name: &str| ["cpuset.", "cgroup."].iter().any(|start| name.starts_with(start));
        let paths = names.iter().filter(|name| !is_file(name)).map(|name| (name, format!("{group}/{name}")));
        let exclusive = paths.filter(|(_, path)| is_exclusive(host, path));
        exclusive.fold(Fact::Known(CpuMask::new()), |all, (name, path)| {
            let cpus = match own.split_first() {
                Some((first, rest)) if first == name => of_groups(host, &path, rest),
                _ => first(host, &[path], &EFFECTIVE),
            };
            all.and_then(|all| cpus.map(|cpus| all.union(&cpus)))
        })
    })
}

/// Possible locations of control groups, for the CPUs of several processes.
pub(super) struct Groups(Vec<String>);

impl Groups {
    pub(super) fn new(host: &dyn Host) -> Self {
        Self(directories(host))
    }

    /// CPUs that the control group of a process may use: its own, or those of the nearest ancestor with the
    /// controller.
    pub(super) fn cpus_of(&self, host: &dyn Host, pid: u32) -> Fact<CpuMask> {
        let groups = read::parsed(host, &format!("proc/{pid}/cgroup"), parse::control_groups);
        groups.and_then(|groups| {
            // The controller belongs to one version; paths of the other are in none of its directories.
            let own = groups.cpuset.or(groups.unified).unwrap_or_default();
            let mut lists = with_parents(&own).map(|path| {
                let places: Vec<String> = self.0.iter().map(|at| format!("{at}{path}")).collect();
                first(host, &places, &EFFECTIVE)
            });
            lists.find(|list| *list != Fact::Unsupported).unwrap_or(Fact::Unsupported)
        })
    }
}

/// The path of a group and those of the groups above it, of which the root is empty.
pub(super) fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    let own = path.trim_end_matches('/');
    std::iter::once(own).chain(own.rmatch_indices('/').map(|(end, _)| &own[..end]))
}

/// Mount points of the control groups of either version that have CPUs.
pub(super) fn directories(host: &dyn Host) -> Vec<String> {
    match read::parsed(host, "proc/self/mountinfo", parse::mounts) {
        Fact::Known(mounts) => mounts.iter().filter_map(directory).collect(),
        _ => USUAL.map(str::to_owned).to_vec(),
    }
}

/// The list in the first of these files that exists.
fn first(host: &dyn Host, directories: &[String], names: &[&str]) -> Fact<CpuMask> {
    let paths = directories.iter().flat_map(|at| names.iter().map(move |name| format!("{at}/{name}")));
    let mut lists = paths.map(|path| read::cpu_list(host, &path));
    lists.find(|list| *list != Fact::Unsupported).unwrap_or(Fact::Unsupported)
}

fn directory(mount: &Mount) -> Option<String> {
    let cpuset = match mount.kind.as_str() {
        "cgroup2" => true,
        "cgroup" => mount.options.iter().any(|option| option == "cpuset"),
        _ => false,
    };
    cpuset.then(|| mount.point.trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Groups, take};
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn list(text: &str) -> Fact<rxlab_base::units::CpuMask> {
        Fact::Known(text.parse().expect("a list"))
    }

    #[test]
    fn version_2_with_a_partition() {
        let host = RecordedHost::new()
            .with("proc/self/mountinfo", "31 23 0:27 / /cg rw - cgroup2 cgroup2 rw,nsdelegate\n")
            .with("cg/cpuset.cpus.effective", "0-1\n")
            .with("cg/cpuset.cpus.isolated", "2-3\n");
        let found = take(&host);
        assert_eq!((found.effective, found.isolated), (list("0-1"), list("2-3")));
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let host = RecordedHost::new()
            .with(
                "proc/self/mountinfo",
                "31 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                 33 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            )
            .with("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-3\n")
            .with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n");
        let found = take(&host);
        assert_eq!((found.effective, found.isolated), (list("0-3"), Fact::Unsupported));
    }

    /// cset shield: both groups are exclusive, and the first process is in one of them.
    #[test]
    fn exclusive_groups_of_version_1() {
        let at = "sys/fs/cgroup/cpuset";
        let host = |init: &str| {
            let groups = ["system", "user", "machine.slice"].map(str::to_owned);
            let names = groups.into_iter().chain(["cpuset.cpus".to_owned(), "tasks".to_owned()]).collect();
            let group = |host: RecordedHost, name: &str, cpus: &str, flag: &str| {
                host.with(&format!("{at}/{name}/cpuset.cpu_exclusive"), flag)
                    .with(&format!("{at}/{name}/cpuset.effective_cpus"), cpus)
                    .with_list(&format!("{at}/{name}"), vec!["cpuset.cpus".to_owned()])
            };
            let host = RecordedHost::new()
                .with(&format!("{at}/cpuset.cpu_exclusive"), "1\n")
                .with(&format!("{at}/cpuset.effective_cpus"), "0-7\n")
                .with_list(at, names)
                .with("proc/1/cgroup", format!("4:cpuset:{init}\n"));
            let host = group(group(host, "system", "0-1\n", "1\n"), "user", "2-7\n", "1\n");
            group(host, "machine.slice", "0-7\n", "0\n")
        };
        assert_eq!(take(&host("/system")).exclusive, list("2-7"));
        assert_eq!(take(&host("/")).exclusive, list("0-7"));
        let unseen = host("/system").with_failure("proc/1/cgroup", rxlab_sys::Cause::Denied);
        assert!(matches!(take(&unseen).exclusive, Fact::Denied(_)));
        assert_eq!(take(&RecordedHost::new()).exclusive, Fact::Unsupported);
    }

    #[test]
    fn the_usual_places_where_mounts_are_not_told() {
        let host = RecordedHost::new().with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n");
        assert_eq!(take(&host).effective, list("0-7"));
        assert_eq!(take(&RecordedHost::new()).effective, Fact::Unsupported);
    }

    #[test]
    fn a_process_has_the_cpus_of_the_nearest_group() {
        let host = |cgroup: &str| {
            RecordedHost::new()
                .with("proc/7/cgroup", cgroup)
                .with("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
                .with("sys/fs/cgroup/web/cpuset.cpus.effective", "0-5\n")
                .with("sys/fs/cgroup/cpuset/box/cpuset.effective_cpus", "2\n")
        };
        let cpus = |cgroup| {
            let host = host(cgroup);
            Groups::new(&host).cpus_of(&host, 7)
        };
        assert_eq!(cpus("0::/web/a/b\n"), list("0-5"));
        assert_eq!(cpus("0::/\n"), list("0-7"));
        assert_eq!(cpus("4:cpuset:/box\n0::/system.slice\n"), list("2"), "both versions");
        assert_eq!(Groups::new(&RecordedHost::new()).cpus_of(&RecordedHost::new(), 7), Fact::Unsupported);
    }
}
