//! Files that a container sees instead of the kernel's: their CPUs have numbers of their own (lxcfs).

use super::read;
use rxlab_base::parse::{self, Mount};
use rxlab_base::units::Fact;
use rxlab_sys::Host;

const STAT: &str = "/proc/stat";
const CPUS: [&str; 2] = ["/sys/devices/system/cpu", "/sys/devices/system/cpu/online"];

/// The reasons that CPUs in a file are not those of the kernel; `None` for files of the kernel.
pub(super) struct Masked {
    /// Of `/proc/stat`.
    pub(super) times: Option<String>,
    /// Of `/sys/devices/system/cpu`.
    pub(super) cpus: Option<String>,
}

pub(super) fn take(host: &dyn Host) -> Masked {
    let Fact::Known(mounts) = read::parsed(host, "proc/self/mountinfo", parse::mounts) else {
        return Masked { times: None, cpus: None };
    };
    // Later mounts lie over earlier ones.
    let over = |point: &str| mounts.iter().rev().find(|mount| mount.point == point);
    let why = |mount: &Mount| {
        let Mount { point, kind, .. } = mount;
        let foreign = !matches!(kind.as_str(), "proc" | "sysfs");
        foreign.then(|| format!("{point} is of {kind}, not of the kernel: its CPUs may have other numbers"))
    };
    Masked { times: over(STAT).and_then(why), cpus: CPUS.iter().find_map(|point| over(point).and_then(why)) }
}

#[cfg(test)]
mod tests {
    use super::take;
    use rxlab_sys::RecordedHost;

    fn masked(mounts: &str) -> (Option<String>, Option<String>) {
        let masked = take(&RecordedHost::new().with("proc/self/mountinfo", mounts));
        (masked.times, masked.cpus)
    }

    /// The mounts of lxc/lxcfs issues 628 (LXC) and 406 (Docker, one file each).
    #[test]
    fn files_of_lxcfs() {
        let lxc = "40 22 0:50 /proc/stat /proc/stat rw,nosuid - fuse.lxcfs lxcfs rw,user_id=0\n\
                   42 23 0:50 /sys/devices/system/cpu /sys/devices/system/cpu rw - fuse.lxcfs lxcfs rw\n";
        let (times, cpus) = masked(lxc);
        assert_eq!(
            times.expect("masked"),
            "/proc/stat is of fuse.lxcfs, not of the kernel: its CPUs may have other numbers"
        );
        assert!(cpus.expect("masked").starts_with("/sys/devices/system/cpu is of fuse.lxcfs"));
        let online = "9 2 0:50 /sys/devices/system/cpu/online /sys/devices/system/cpu/online rw - fuse.lxcfs lxcfs rw\n";
        let (times, cpus) = masked(online);
        assert!(times.is_none() && cpus.is_some());
    }

    #[test]
    fn files_of_the_kernel() {
        // A part of proc mounted over itself, a file that counts no CPUs, and lxcfs elsewhere.
        let own = "7 2 0:4 /stat /proc/stat ro - proc proc rw\n8 2 0:50 /proc/meminfo /proc/meminfo rw - fuse.lxcfs lxcfs rw\n\
                   9 2 0:50 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n";
        assert_eq!(masked(own), (None, None));
        assert_eq!(masked("not a mount"), (None, None));
    }
}
