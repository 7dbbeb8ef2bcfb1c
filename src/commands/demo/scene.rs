//! A scene of the demo: the range, a sink on one CPU, a pinned sender on another, and traffic
//! scaled to this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::commands::machine::{Machine, privilege};
use crate::commands::progress;
use crate::error::{self, CommandError, Result};
use crate::lab::{Flood, LabError, Range, RangeSpec};
use rxlab_base::number::grouped;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_load::servers::{self as target, Target};
use rxlab_load::{Rate, Session, Spec};
use rxlab_path::model::Model;
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::{LiveHost, Namespace, allowed_cpus};
use rxlab_trial::spec::Workload;
use rxlab_trial::workload::Driver;

/// Flows of the load: enough for their hashes to spread.
const FLOWS: usize = 16;

/// Cost of packets on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each walks through rules, as with a firewall or policy routing.
    Costly,
    /// A packet costs next to nothing.
    Cheap,
}

impl Kind {
    /// Name, for trials and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Costly => "costly",
            Kind::Cheap => "cheap",
        }
    }

    /// Number of policy routing rules on the server.
    fn rules(self) -> u32 {
        match self {
            Kind::Costly => 200,
            Kind::Cheap => 0,
        }
    }
}

/// Rate of cheap packets as a fraction of the highest arrival rate: enough for a hotspot, with room for the cost of RPS
/// on the other CPU.
const CHEAP: f64 = 0.6;

/// Everything that exists during a scene. Dropping it removes it.
pub(super) struct Scene {
    // Order matters: senders stop before receivers, and the namespaces go last.
    traffic: Traffic,
    pub(super) machine: Machine,
    sender: CpuId,
    receiver: CpuId,
    _range: Range,
}

enum Traffic {
    /// Costly packets at the sender's full rate. No program reads them: with RPS, receive work would starve it.
    Flood { _flood: Flood },
    /// Cheap packets at a rate, to a sink.
    Load { session: Option<Box<Session>>, load: Box<Spec>, _target: Target },
}

impl Scene {
    /// Builds the range and starts the traffic.
    pub(super) fn set(kind: Kind, stop: &AtomicBool) -> Result<Self> {
        let cpus: Vec<CpuId> = allowed_cpus().iter().collect();
        let &[sender, receiver, ..] = cpus.as_slice() else {
            return Err(LabError::Cpus(cpus.len()).into());
        };
        let range = Range::build(&RangeSpec { rules: kind.rules(), ..RangeSpec::default() })?;
        let traffic = match kind {
            Kind::Costly => Traffic::Flood { _flood: Flood::start(&range, sender, FLOWS)? },
            Kind::Cheap => load(&range, sender, receiver, stop)?,
        };
        Ok(Self { traffic, machine: machine(&range)?, sender, receiver, _range: range })
    }

    /// Description of the range and its traffic.
    pub(super) fn in_words(&self) -> String {
        let packets = match &self.traffic {
            Traffic::Flood { .. } => {
                let rules = Kind::Costly.rules();
                format!(
                    "costly packets ({rules} policy routing rules), as many as CPU {} can send",
                    self.sender
                )
            }
            Traffic::Load { load, .. } => {
                let rate = load.rate.as_ref().and_then(Rate::is_steady).unwrap_or_default();
                let rate = grouped(rate as u64);
                format!(
                    "cheap packets, {rate}/s, sender on CPU {}, sink on CPU {}",
                    self.sender, self.receiver
                )
            }
        };
        format!(
            "test network: client host -> one-queue veth -> server host, on this kernel\n\
             traffic: {packets}\n"
        )
    }

    /// Workload and driver of a trial: the load if there is one, else the packets that get up the stack.
    pub(super) fn workload(&mut self) -> Result<(Workload, Driver)> {
        let nic = Some(Range::server_nic());
        match &mut self.traffic {
            Traffic::Flood { .. } => Ok((
                Workload { live: true, nic, ..Workload::default() },
                Driver::Live { drops_counted: false },
            )),
            Traffic::Load { session, load, .. } => {
                let session = match session.take() {
                    Some(session) => *session,
                    None => Session::start(load)?,
                };
                let workload = Workload { load: Some((**load).clone()), nic, ..Workload::default() };
                Ok((workload, Driver::Load(session)))
            }
        }
    }
}

/// Starts a sink on one CPU and a pinned sender on another, at a rate that fits this machine.
fn load(range: &Range, sender: CpuId, receiver: CpuId, stop: &AtomicBool) -> Result<Traffic> {
    let address = SocketAddr::from((Range::SERVER, 9000));
    let target = Target::start(&target::Spec {
        udp_sink: Some(address),
        cpus: CpuMask::from_iter([receiver]),
        netns: Some(range.server.path()),
        ..target::Spec::default()
    })
    .map_err(CommandError::failed)?;
    let url = format!("udp-sink://{address}").parse().expect("an address makes a valid URL");
    let mut load = Spec {
        connections: FLOWS,
        cpus: CpuMask::from_iter([sender]),
        netns: Some(range.client.path()),
        ..Spec::new(url)
    };
    load.rate = Some(calibrated(&load, stop)?);
    let session = Session::start(&load)?;
    Ok(Traffic::Load { session: Some(Box::new(session)), load: Box::new(load), _target: target })
}

/// Sends at full rate for a moment, and returns a fraction of the arrival rate.
fn calibrated(load: &Spec, stop: &AtomicBool) -> Result<Rate> {
    let mut session = Session::start(load)?;
    session.mark();
    progress::wait("calibrating the load", Duration::from_millis(1500), stop);
    let arrived = session.mark().arrival_rate().ok_or_else(|| {
        CommandError::failed("the sink does not answer under full load").hint("try again when it is quiet")
    })?;
    // A round figure reads better and works as well.
    Ok(Rate::steady((CHEAP * arrived / 1000.0).round().max(1.0) * 1000.0))
}

fn machine(range: &Range) -> Result<Machine> {
    let namespace = range.server.path();
    let host = LiveHost::open_in_namespace(Path::new("/"), &namespace)
        .map_err(|error| CommandError::new(error::Kind::Denied, error))?;
    let inventory = Inventory::take(&host, Scope::Counters);
    let model = Model::new(&inventory);
    let netns = Namespace::open(&namespace).map_err(CommandError::failed)?;
    Ok(Machine { host, inventory, model, netns: Some(netns) })
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        let kind = if error.is_denied() { error::Kind::Denied } else { error::Kind::Failed };
        let told = CommandError::new(kind, &error);
        match error {
            _ if kind == error::Kind::Denied => told.hint(privilege("the demo")),
            LabError::Start(_) => told.hint("install iproute2"),
            _ => told,
        }
    }
}
