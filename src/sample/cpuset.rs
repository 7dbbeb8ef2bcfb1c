//! The CPUs of the root control group, in either version of the cpuset controller.

use super::read;
use crate::host::Host;
use crate::parse::{self, Mount};
use crate::units::{CpuMask, Fact};

/// What the root control group tells.
pub(super) struct Cpuset {
    /// CPUs that it may use.
    pub(super) effective: Fact<CpuMask>,
    /// CPUs of isolated partitions.
    pub(super) isolated: Fact<CpuMask>,
}

/// Where distributions mount the two versions, for hosts whose mounts cannot be read.
const USUAL: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/cpuset"];

/// By version; a controller is in one of them, so the files of the other are missing.
const EFFECTIVE: [&str; 3] = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];

pub(super) fn take(host: &dyn Host) -> Cpuset {
    let mounts = read::parsed(host, "proc/self/mountinfo", parse::mounts);
    let directories: Vec<String> = match mounts {
        Fact::Known(mounts) => mounts.iter().filter_map(directory).collect(),
        _ => USUAL.map(str::to_owned).to_vec(),
    };
    let first = |names: &[&str]| {
        let paths = directories.iter().flat_map(|at| names.iter().map(move |name| format!("{at}/{name}")));
        let mut lists = paths.map(|path| read::cpu_list(host, &path));
        lists.find(|list| *list != Fact::Unsupported).unwrap_or(Fact::Unsupported)
    };
    Cpuset { effective: first(&EFFECTIVE), isolated: first(&["cpuset.cpus.isolated"]) }
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
    use super::take;
    use crate::host::RecordedHost;
    use crate::units::Fact;

    fn list(text: &str) -> Fact<crate::units::CpuMask> {
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

    #[test]
    fn the_usual_places_where_mounts_are_not_told() {
        let host = RecordedHost::new().with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n");
        assert_eq!(take(&host).effective, list("0-7"));
        assert_eq!(take(&RecordedHost::new()).effective, Fact::Unsupported);
    }
}
