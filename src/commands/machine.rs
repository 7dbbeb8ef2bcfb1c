//! The machine that the command line names, opened and described.

use std::path::PathBuf;

use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::host::{Host, LiveHost};
use crate::journal::Namespace;
use crate::model::{Cpu, DeviceAddress, Fact, Identity, Model, Nic, NicKind, RxQueue};
use crate::units::{CpuMask, QueueId};

/// An open machine.
pub(super) struct Machine {
    /// Its files.
    pub(super) host: Box<dyn Host>,
    /// Its receive path.
    pub(super) model: Model,
    /// The network namespace looked at, when it is not our own.
    pub(super) netns: Option<Namespace>,
}

/// Opens the machine and network namespace of the command line.
pub(super) fn open(global: &Global) -> Result<Machine, CommandError> {
    let path = global.netns.as_ref().map(|name| match name {
        pid if pid.bytes().all(|b| b.is_ascii_digit()) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        path if path.contains('/') => PathBuf::from(path),
        name => PathBuf::from(format!("/run/netns/{name}")),
    });
    let opened = match &path {
        Some(path) => LiveHost::open_in_namespace(&global.root, path),
        None => LiveHost::open(&global.root),
    };
    let host = opened.map_err(|error| {
        let kind = if error.is_denied() { Kind::Denied } else { Kind::Usage };
        CommandError::new(kind, error)
    })?;
    let netns = path.and_then(|path| Namespace::of(&path).ok());
    let model = model(&host);
    Ok(Machine { host: Box::new(host), model, netns })
}

fn model(host: &dyn Host) -> Model {
    let text = |path: &str| host.read_text(path).map(|t| t.trim().to_owned()).unwrap_or_default();
    let cpus = |file: &str| -> CpuMask {
        text(&format!("sys/devices/system/cpu/{file}")).parse().unwrap_or_default()
    };
    let (online, isolated) = (cpus("online"), cpus("isolated"));
    let cpu = |id| Cpu {
        id,
        online: online.contains(id),
        isolated: isolated.contains(id),
        core: None,
        package: None,
        siblings: CpuMask::new(),
        l3: CpuMask::new(),
        node: None,
    };
    let nic = |name: String| {
        let path = format!("sys/class/net/{name}");
        let bus = host.link(&format!("{path}/device")).ok();
        let bus = bus.and_then(|link| link.rsplit('/').next().map(str::to_owned));
        let queues = host.list(&format!("{path}/queues")).unwrap_or_default();
        let queues = queues.iter().filter_map(|queue| queue.parse::<QueueId>().ok());
        let rx = |queue: QueueId| RxQueue {
            index: queue.index,
            rps_cpus: Fact::Unsupported,
            rps_flow_cnt: Fact::Unsupported,
            irqs: Vec::new(),
        };
        Some(Nic {
            name: name.parse().ok()?,
            kind: if bus.is_some() { NicKind::Device } else { NicKind::Virtual },
            address: DeviceAddress(bus.map_or(format!("virtual:{name}"), |bus| format!("pci:{bus}"))),
            driver: None,
            node: None,
            up: true,
            rx: queues.filter(|queue| *queue == QueueId::rx(queue.index)).map(rx).collect(),
            tx: Vec::new(),
            other_irqs: Vec::new(),
        })
    };
    Model {
        schema: "rxlab.model/1".to_owned(),
        identity: Identity {
            hostname: text("proc/sys/kernel/hostname"),
            kernel: text("proc/sys/kernel/osrelease"),
            boot_id: text("proc/sys/kernel/random/boot_id"),
        },
        cpus: cpus("present").iter().map(cpu).collect(),
        nics: host.list("sys/class/net").unwrap_or_default().into_iter().filter_map(nic).collect(),
        rps_sock_flow_entries: Fact::Unsupported,
        irqbalance: None,
    }
}
