//! The scene of the demo: the range, a sink on one CPU, a pinned sender on another, and traffic
//! that fits this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::commands::machine::{Machine, privilege};
use crate::commands::{load, progress};
use crate::error::{CommandError, Kind};
use crate::host::{LiveHost, Namespace, allowed_cpus};
use crate::lab::{LabError, Range, RangeSpec};
use crate::load::{Rate, Session, Spec};
use crate::model::Model;
use crate::report::number::grouped;
use crate::sample::{Inventory, Scope};
use crate::target::{self, Target};
use crate::units::{CpuId, CpuMask};

/// Flows of the load, so that their hashes spread.
const FLOWS: usize = 16;
/// Part of the highest rate at which everything still arrives that the demo drives: enough for a
/// hotspot, and room for the cost of RPS on the other CPU.
const PART: f64 = 0.6;

/// Everything that stands during the demo. Dropping it takes it away.
pub(super) struct Scene {
    // Order matters: what sends stops before what receives, and the namespaces go last.
    session: Option<Session>,
    _target: Target,
    pub(super) machine: Machine,
    pub(super) load: Spec,
    sender: CpuId,
    receiver: CpuId,
    _range: Range,
}

impl Scene {
    /// Builds the range and starts the traffic.
    pub(super) fn set(stop: &AtomicBool) -> Result<Self, CommandError> {
        let cpus: Vec<CpuId> = allowed_cpus().iter().collect();
        let &[sender, receiver, ..] = cpus.as_slice() else {
            return Err(explain(LabError::Cpus(cpus.len())));
        };
        let range = Range::build(&RangeSpec::default()).map_err(explain)?;
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
        load.rate = Some(Rate::steady(calibrated_rate(&load, stop)?));
        let session = Session::start(&load).map_err(load::explain)?;
        Ok(Self {
            session: Some(session),
            _target: target,
            machine: machine(&range)?,
            load,
            sender,
            receiver,
            _range: range,
        })
    }

    /// What stands, for people.
    pub(super) fn in_words(&self) -> String {
        format!(
            "practice range: client host -> one-queue veth -> server host, on this kernel\n\
             traffic: {FLOWS} UDP flows, {} packets/s, sender on CPU {}, sink on CPU {}\n",
            grouped(self.load.rate.as_ref().and_then(Rate::is_steady).unwrap_or_default() as u64),
            self.sender,
            self.receiver,
        )
    }

    /// The running load, or a fresh one when it was taken before.
    pub(super) fn start_load(&mut self) -> Result<Session, CommandError> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => Session::start(&self.load).map_err(load::explain),
        }
    }
}

/// Sends flat out for a moment and takes a part of what arrived.
fn calibrated_rate(load: &Spec, stop: &AtomicBool) -> Result<f64, CommandError> {
    let mut session = Session::start(load).map_err(load::explain)?;
    session.mark();
    progress::wait("finding out what this machine can send", Duration::from_millis(1500), stop);
    let interval = session.mark();
    let arrived = interval.arrival_rate().ok_or_else(|| {
        CommandError::failed("the sink does not answer under full load").hint("try again when it is quiet")
    })?;
    // A round figure reads better and is as good.
    Ok((PART * arrived / 1000.0).round().max(1.0) * 1000.0)
}

fn machine(range: &Range) -> Result<Machine, CommandError> {
    let namespace = range.server.path();
    let host = LiveHost::open_in_namespace(Path::new("/"), &namespace)
        .map_err(|error| CommandError::new(Kind::Denied, error))?;
    let inventory = Inventory::take(&host, Scope::Counters);
    let model = Model::new(&inventory);
    let netns = Namespace::of(&namespace).map_err(CommandError::failed)?;
    Ok(Machine { host, inventory, model, netns: Some(netns) })
}

fn explain(error: LabError) -> CommandError {
    let kind = if error.is_denied() { Kind::Denied } else { Kind::Failed };
    let told = CommandError::new(kind, &error);
    match error {
        _ if kind == Kind::Denied => told.hint(privilege("the practice range")),
        LabError::Start(_) => told.hint("install iproute2"),
        _ => told,
    }
}
