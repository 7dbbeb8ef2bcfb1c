//! A driver for the machine made of plain files. A change of the number of queues recreates all of them without their
//! values, as in virtio_net; flow rules are lost when `ntuple` is turned off. An RSS table set by a user is kept, and
//! rules out fewer queues than it uses: the kernel enforces that.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rxlab_base::parse::ethtool;
use rxlab_sys::{Action, EthtoolChange, EthtoolGet, Host, HostError, Operation, Query};

use crate::answers;
use crate::tree::PCI;

/// Exists while the RSS table is set by a user.
const TABLE_IS_SET: &str = "driver/table-is-set";

/// Fate of a default RSS table when the number of queues changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Table {
    /// Replaced by the kernel's default.
    Default,
    /// Each queue gets a block of it, as in igb.
    Blocks,
    /// Unchanged, as in virtio_net of 6.1.
    Stays,
}

/// A host with a driver for its `eth0`.
pub(crate) struct Driver<H> {
    inner: H,
    root: PathBuf,
    table: Table,
}

impl<H: Host> Driver<H> {
    /// `inner` reads the tree at `root`.
    pub(crate) fn new(inner: H, root: &Path) -> Self {
        Self { inner, root: root.to_owned(), table: Table::Default }
    }

    /// The same with another behavior of the RSS table.
    pub(crate) fn with_table(self, table: Table) -> Self {
        Self { table, ..self }
    }

    /// Sets this RSS table as a user would.
    pub(crate) fn set_table(&self, queues: &[u32]) {
        std::fs::write(self.path(EthtoolGet::Rss), answers::rss(queues)).expect("written");
        self.put(TABLE_IS_SET, "");
    }

    /// The RSS table, entry by entry.
    pub(crate) fn table(&self) -> Vec<u32> {
        self.asked(EthtoolGet::Rss, ethtool::rss).table
    }

    fn asked<T>(&self, get: EthtoolGet, parse: fn(&[u8]) -> Result<T, rxlab_base::parse::WireError>) -> T {
        parse(&std::fs::read(self.path(get)).expect("it is there")).expect("an answer")
    }

    fn channels(&self) -> u32 {
        self.asked(EthtoolGet::Channels, ethtool::channels).combined.expect("it has combined ones").now
    }

    fn table_is_set(&self) -> bool {
        self.root.join(TABLE_IS_SET).exists()
    }

    /// True if the kernel refuses a change because the RSS table refers to a queue that would not exist.
    fn refuses(&self, change: &EthtoolChange) -> bool {
        let now = self.channels();
        matches!(change, EthtoolChange::Table { queues, reset: false, .. } if queues.iter().any(|q| *q >= now))
    }

    /// Writes the table for this number of queues.
    fn make_table(&self, count: u32) {
        std::fs::write(self.path(EthtoolGet::RxRings), answers::rings(count)).expect("written");
        if self.table_is_set() {
            return;
        }
        let size = u32::try_from(self.table().len()).expect("a short table");
        if self.table != Table::Stays {
            let table: Vec<u32> = (0..size)
                .map(|at| match self.table {
                    Table::Blocks => at * count / size,
                    _ => at % count,
                })
                .collect();
            std::fs::write(self.path(EthtoolGet::Rss), answers::rss(&table)).expect("written");
        }
    }

    /// True if `rx-ntuple-filter` is on.
    fn follows_rules(&self) -> bool {
        let features = self.asked(EthtoolGet::Features, ethtool::features);
        features.iter().any(|feature| feature.name == "rx-ntuple-filter" && feature.on)
    }

    /// Path of a response of `eth0`.
    fn path(&self, get: EthtoolGet) -> PathBuf {
        self.root.join(Query::Ethtool(get, "eth0".parse().expect("a name")).path())
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// The driver's own actions are not operations of the program: it never stops in the middle.
    pub(crate) fn make_queues(&self, count: u32) {
        self.make_table(count);
        let write = |path: &str, text: &str| self.put(path, text);
        let mut interrupts = "           CPU0       CPU1\n 39:  0  1  PCI-MSI 0-edge  eth0\n".to_owned();
        write("proc/irq/39/smp_affinity", "7f\n");
        for queue in 0..4 {
            let base = format!("{PCI}/net/eth0/queues");
            if queue < count {
                write(&format!("{base}/rx-{queue}/rps_cpus"), "00\n");
                write(&format!("{base}/rx-{queue}/rps_flow_cnt"), "0\n");
                write(&format!("{base}/tx-{queue}/xps_cpus"), "7f\n");
                write(&format!("{base}/tx-{queue}/xps_rxqs"), "0\n");
            } else {
                for kind in ["rx", "tx"] {
                    let _ = std::fs::remove_dir_all(self.root.join(format!("{base}/{kind}-{queue}")));
                }
            }
            for (irq, name) in irqs(queue).iter().filter(|_| queue < count) {
                interrupts += &format!(" {irq}:  1  2  PCI-MSI {irq}-edge  {name}\n");
                write(&format!("proc/irq/{irq}/smp_affinity"), "7f\n");
            }
        }
        write("proc/interrupts", &interrupts);
    }
}

/// Receive queue 1 has two interrupts, each transmit queue has its own.
fn irqs(queue: u32) -> Vec<(u32, String)> {
    let mut irqs = match queue {
        0 => vec![(24, "eth0-TxRx-0".to_owned())],
        1 => vec![(25, "eth0-TxRx-1".to_owned()), (26, "eth0-rx-1".to_owned())],
        _ => vec![(25 + queue, format!("eth0-TxRx-{queue}"))],
    };
    irqs.push((40 + queue, format!("eth0-tx-{queue}")));
    irqs
}

impl<H: Host> Host for Driver<H> {
    fn act(&self, action: &Action) -> Result<(), HostError> {
        let refused = || Err(HostError::new(Operation::Act, &action.path(), Errno::INVAL));
        let (followed, before) = (self.follows_rules(), std::fs::read(self.path(EthtoolGet::Channels)));
        if matches!(action, Action::EthtoolIoctl { change, .. } if self.refuses(change)) {
            return refused();
        }
        self.inner.act(action)?;
        if followed && !self.follows_rules() {
            std::fs::write(self.path(EthtoolGet::Rules), b"").expect("written");
        }
        match action {
            Action::EthtoolIoctl { change: EthtoolChange::Table { reset: true, .. }, .. } => {
                let _ = std::fs::remove_file(self.root.join(TABLE_IS_SET));
            }
            Action::EthtoolIoctl { change: EthtoolChange::Table { .. }, .. } => {
                self.put(TABLE_IS_SET, "");
            }
            Action::Ethtool { get: EthtoolGet::Channels, .. } => {
                let count = self.channels();
                if self.table_is_set() && self.table().iter().any(|queue| *queue >= count) {
                    std::fs::write(self.path(EthtoolGet::Channels), before.expect("it is there"))
                        .expect("written");
                    return refused();
                }
                self.make_queues(count);
            }
            _ => {}
        }
        Ok(())
    }

    rxlab_sys::pass_on!([inner] read, write, list, link, query, now_ns, inode);
}
