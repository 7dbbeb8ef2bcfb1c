//! Scope of one sample.

use rxlab_base::units::{Fact, NicName};

/// Purpose of a sample. Facts beyond it are not read: they may require reading thousands of processes, or
/// asking hundreds of virtual interfaces everything.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The receive path: interfaces, queues, interrupts, CPUs, and their settings.
    Path,
    /// Also the kernel threads that [`super::Counters`] read.
    Counters,
    /// Also the programs whose CPU time [`super::Counters`] then contain.
    Load,
    /// The receive path and its environment: listeners and namespaces.
    Environment {
        /// The interface to show in full, if any.
        nic: Option<&'a NicName>,
    },
    /// Everything, of every interface: for recordings.
    All,
}

impl Scope<'_> {
    /// True if this interface is asked everything, even if it is virtual.
    pub(super) fn in_full(self, nic: &NicName) -> bool {
        match self {
            Scope::Path | Scope::Counters | Scope::Load => false,
            Scope::Environment { nic: wanted } => wanted == Some(nic),
            Scope::All => true,
        }
    }

    /// Facts from kernel threads.
    pub(super) fn threads<T>(self, ask: impl FnOnce() -> Fact<T>) -> Fact<T> {
        if matches!(self, Scope::Counters | Scope::Load | Scope::All) { ask() } else { Fact::NotAsked }
    }

    /// Facts that need one file of every program.
    pub(super) fn programs<T>(self, ask: impl FnOnce() -> Fact<T>) -> Fact<T> {
        if matches!(self, Scope::Load | Scope::All) { ask() } else { Fact::NotAsked }
    }

    /// Facts that need several files of every process.
    pub(super) fn everybody<T>(self, ask: impl FnOnce() -> Fact<T>) -> Fact<T> {
        if matches!(self, Scope::Environment { .. } | Scope::All) { ask() } else { Fact::NotAsked }
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;
    use crate::sample::{Inventory, Sample};
    use rxlab_base::units::{CpuId, Fact, NicName};
    use rxlab_sys::{Cause, RecordedHost, RecordingHost};

    /// Only the driver's answer to `ethtool -i`, without offloads.
    fn veth() -> RecordedHost {
        let mut host = RecordedHost::new()
            .with_link("sys/class/net/veth0", "../../devices/virtual/net/veth0")
            .with("sys/class/net/veth0/ifindex", "3\n")
            .with("sys/class/net/veth0/threaded", "0\n")
            .with("sys/class/net/veth0/queues/rx-0/rps_cpus", "0\n")
            .with("netlink/netdev/queue-get", "")
            .with_failure("ioctl/ethtool/gdrvinfo/veth0", Cause::Denied)
            .with("proc/2/comm", "kthreadd\n")
            .with("proc/2/task/2/children", "15 16 ")
            .with("proc/15/comm", "ksoftirqd/0\n")
            .with("proc/16/comm", "kworker/0:0\n")
            .with("proc/70/comm", "irqbalance\n")
            .with("proc/net/tcp", "  sl  local_address rem_address st\n");
        for (process, inode) in [("self", 1), ("70", 9)] {
            host = host.with_link(&format!("proc/{process}/ns/net"), &format!("net:[{inode}]"));
        }
        host
    }

    #[test]
    fn what_is_beyond_was_not_asked() {
        let host = veth();
        let taken = |scope| Inventory::take(&host, scope);
        for scope in [Scope::Path, Scope::Counters, Scope::Load] {
            let found = taken(scope);
            assert_eq!((&found.listeners, &found.namespaces), (&Fact::NotAsked, &Fact::NotAsked));
            let irqbalance = found.irqbalance.known().and_then(Option::as_ref);
            assert_eq!(irqbalance.map(|found| found.pid), Some(70));
            let nic = &found.nics.known().expect("listed")[0];
            assert_eq!((&nic.hardware.channels, &nic.napi.threaded), (&Fact::NotAsked, &Fact::NotAsked));
        }
        assert_eq!(taken(Scope::Path).ksoftirqd, Fact::NotAsked);
        assert_eq!(taken(Scope::Counters).programs, Fact::NotAsked);
        assert_eq!(taken(Scope::Load).programs, Fact::Known(vec![70]));
        assert_eq!(taken(Scope::Counters).ksoftirqd, Fact::Known([(CpuId(0), 15)].into()));
        let name: NicName = "veth0".parse().expect("a name");
        let shown = taken(Scope::Environment { nic: Some(&name) });
        assert_eq!(shown.ksoftirqd, Fact::NotAsked);
        assert_eq!(shown.namespaces.known().map(|seen| seen.others.len()), Some(1));
        assert!(shown.listeners.known().is_some());
        let nic = &shown.nics.known().expect("listed")[0];
        assert_eq!((&nic.hardware.channels, &nic.napi.threaded), (&Fact::Unsupported, &Fact::Known(false)));
        let overview = taken(Scope::Environment { nic: None });
        assert_eq!(overview.nics.known().expect("listed")[0].hardware.channels, Fact::NotAsked);
    }

    /// A machine of 1,024 CPUs has 5,000 of them: their names alone took longer than everything else in
    /// `show`.
    #[test]
    fn showing_does_not_read_the_names_of_kernel_threads() {
        let host = veth();
        let recording = RecordingHost::new(&host);
        Inventory::take(&recording, Scope::Environment { nic: None });
        let (read, _) = recording.finish().into_parts();
        assert!(read.contains_key("proc/70/comm"), "{:?}", read.keys());
        assert!(!read.contains_key("proc/15/comm") && !read.contains_key("proc/16/comm"));
    }

    #[test]
    fn everything_holds_what_every_other_look_reads() {
        let host = veth();
        let recording = RecordingHost::new(&host);
        Sample::take(&recording);
        let recorded = recording.finish();
        let name: NicName = "veth0".parse().expect("a name");
        let environment = [None, Some(&name)].map(|nic| Scope::Environment { nic });
        let others = [Scope::Path, Scope::Counters, Scope::Load, Scope::All];
        for scope in environment.into_iter().chain(others) {
            assert_eq!(Inventory::take(&recorded, scope), Inventory::take(&host, scope), "{scope:?}");
        }
    }
}
