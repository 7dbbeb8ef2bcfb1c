//! A driver for the machine of plain files: told to have other queues, it makes all of them anew and
//! forgets what was set for them, as virtio_net does; and it forgets its flow rules when `ntuple` goes off.

use std::path::{Path, PathBuf};

use rxlab::host::{Action, EthtoolGet, Host, HostError, Question};
use rxlab::parse::ethtool;

use crate::tree::PCI;

/// A host whose `eth0` is driven.
pub(crate) struct Driver<H> {
    inner: H,
    root: PathBuf,
}

impl<H: Host> Driver<H> {
    /// `inner` looks at the tree at `root`.
    pub(crate) fn new(inner: H, root: &Path) -> Self {
        Self { inner, root: root.to_owned() }
    }

    /// Whether `rx-ntuple-filter` is on.
    fn follows_rules(&self) -> bool {
        let answer = std::fs::read(self.path(EthtoolGet::Features)).expect("it is there");
        let features = ethtool::features(&answer).expect("an answer");
        features.iter().any(|feature| feature.name == "rx-ntuple-filter" && feature.on)
    }

    /// Where an answer of `eth0` is.
    fn path(&self, get: EthtoolGet) -> PathBuf {
        self.root.join(Question::Ethtool(get, "eth0".parse().expect("a name")).path())
    }

    /// What the driver does by itself is no operation of the program: it never stops in the middle.
    fn make_queues(&self, count: u32) {
        let write = |path: &str, text: &str| {
            let path = self.root.join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        };
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

/// Receive queue 1 has two, each transmit queue its own.
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
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.inner.read(path)
    }
    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.inner.write(path, value)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.inner.list(path)
    }
    fn link(&self, path: &str) -> Result<String, HostError> {
        self.inner.link(path)
    }
    fn ask(&self, question: &Question) -> Result<Vec<u8>, HostError> {
        self.inner.ask(question)
    }
    fn act(&self, action: &Action) -> Result<(), HostError> {
        let followed = self.follows_rules();
        self.inner.act(action)?;
        if followed && !self.follows_rules() {
            std::fs::write(self.path(EthtoolGet::Rules), b"").expect("written");
        }
        if let Action::Ethtool { get: EthtoolGet::Channels, .. } = action {
            let path = self.root.join(action.path());
            let answer = std::fs::read(path).expect("it was just written");
            let channels = ethtool::channels(&answer).expect("an answer");
            self.make_queues(channels.combined.expect("it has combined ones").now);
        }
        Ok(())
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}
