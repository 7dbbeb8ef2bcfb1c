//! The scene of the demo: the range, a sink on one CPU, a pinned sender on another, and traffic
//! that fits this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::commands::machine::{Machine, privilege};
use crate::commands::{load, progress};
use crate::error::{self, CommandError};
use crate::host::{Host, LiveHost, Namespace, allowed_cpus};
use crate::lab::{LabError, Range, RangeSpec};
use crate::load::{Rate, Session, Spec};
use crate::model::Model;
use crate::report::number::grouped;
use crate::sample::{Inventory, Scope};
use crate::target::{self, Target};
use crate::units::{CpuId, CpuMask};

/// Flows of the load, so that their hashes spread.
const FLOWS: usize = 16;

/// What packets cost on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each walks through rules, as with a firewall or policy routing, and more are offered than arrive: the CPU that
    /// sends and receives is full.
    Costly,
    /// Next to nothing, and fewer are offered than could arrive.
    Cheap,
}

impl Kind {
    /// For the names of trials.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Costly => "costly",
            Kind::Cheap => "cheap",
        }
    }

    /// Policy routing rules of the server.
    fn rules(self) -> u32 {
        match self {
            Kind::Costly => 300,
            Kind::Cheap => 0,
        }
    }
}

/// Part of the highest rate of arrivals that is offered of cheap packets: enough for a hotspot, and room for the cost of
/// RPS on the other CPU.
const CHEAP: f64 = 0.6;
/// Of costly ones more is offered than arrives without a change: the first of these of which all but [`LOST`] arrives
/// with RPS. Far above that, the CPU that reads would drown in softirq. The last ones are for machines on which RPS does
/// not win.
const COSTLY: [f64; 6] = [1.6, 1.45, 1.3, 1.15, 1.0, 0.85];
const LOST: f64 = 0.03;

/// Everything that stands during the demo. Dropping it takes it away.
pub(super) struct Scene {
    // Order matters: what sends stops before what receives, and the namespaces go last.
    session: Option<Session>,
    _target: Target,
    pub(super) machine: Machine,
    pub(super) load: Spec,
    sender: CpuId,
    receiver: CpuId,
    kind: Kind,
    _range: Range,
}

impl Scene {
    /// Builds the range and starts the traffic.
    pub(super) fn set(kind: Kind, stop: &AtomicBool) -> Result<Self, CommandError> {
        let cpus: Vec<CpuId> = allowed_cpus().iter().collect();
        let &[sender, receiver, ..] = cpus.as_slice() else {
            return Err(explain(LabError::Cpus(cpus.len())));
        };
        let range =
            Range::build(&RangeSpec { rules: kind.rules(), ..RangeSpec::default() }).map_err(explain)?;
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
        let machine = machine(&range)?;
        let most = arrivals(&load, Duration::from_millis(1200), stop)?;
        let part = match kind {
            Kind::Cheap => CHEAP,
            Kind::Costly => winning_part(&machine.host, receiver, (&load, most), stop)?,
        };
        load.rate = Some(steady(part * most));
        let session = Session::start(&load).map_err(load::explain)?;
        Ok(Self {
            session: Some(session),
            _target: target,
            machine,
            load,
            sender,
            receiver,
            kind,
            _range: range,
        })
    }

    /// What stands, for people.
    pub(super) fn in_words(&self) -> String {
        let rate = self.load.rate.as_ref().and_then(Rate::is_steady).unwrap_or_default();
        let packets = match self.kind {
            Kind::Costly => {
                format!("costly packets ({} policy routing rules), more than arrive", self.kind.rules())
            }
            Kind::Cheap => "cheap packets, and room for more".to_owned(),
        };
        format!(
            "practice range: client host -> one-queue veth -> server host, on this kernel\n\
             traffic: {packets}\n\
             {FLOWS} UDP flows, {} packets/s offered, sender on CPU {}, sink on CPU {}\n",
            grouped(rate as u64),
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

/// A round figure reads better and is as good.
fn steady(rate: f64) -> Rate {
    Rate::steady((rate / 1000.0).round().max(1.0) * 1000.0)
}

/// How many packets a second arrive, sent flat out or at the rate of `load`.
fn arrivals(load: &Spec, length: Duration, stop: &AtomicBool) -> Result<f64, CommandError> {
    let mut session = Session::start(load).map_err(load::explain)?;
    session.mark();
    progress::wait("finding out what this machine can send", length, stop);
    session.mark().arrival_rate().ok_or_else(|| {
        CommandError::failed("the sink does not answer under full load").hint("try again when it is quiet")
    })
}

/// The part of `most` to offer so that RPS can win, found with RPS on: a mask on the interface that the range was just
/// built with, off again before anything else sees it.
fn winning_part(
    host: &LiveHost,
    receiver: CpuId,
    (load, most): (&Spec, f64),
    stop: &AtomicBool,
) -> Result<f64, CommandError> {
    let path = format!("sys/class/net/{}/queues/rx-0/rps_cpus", Range::server_nic());
    let steer = |mask: &CpuMask| {
        host.write(&path, mask.to_hex().as_bytes())
            .map_err(|error| CommandError::new(error::Kind::Failed, error))
    };
    steer(&CpuMask::from_iter([receiver]))?;
    let arrives = |part: &f64| {
        let offered = Spec { rate: Some(steady(part * most)), ..load.clone() };
        // A sink that drowns does not answer in time.
        arrivals(&offered, Duration::from_millis(400), stop)
            .is_ok_and(|rate| rate >= (1.0 - LOST) * part * most)
    };
    let part = COSTLY.iter().copied().find(|part| arrives(part)).unwrap_or(COSTLY[COSTLY.len() - 1]);
    steer(&CpuMask::new())?;
    Ok(part)
}

fn machine(range: &Range) -> Result<Machine, CommandError> {
    let namespace = range.server.path();
    let host = LiveHost::open_in_namespace(Path::new("/"), &namespace)
        .map_err(|error| CommandError::new(error::Kind::Denied, error))?;
    let inventory = Inventory::take(&host, Scope::Counters);
    let model = Model::new(&inventory);
    let netns = Namespace::of(&namespace).map_err(CommandError::failed)?;
    Ok(Machine { host, inventory, model, netns: Some(netns) })
}

fn explain(error: LabError) -> CommandError {
    let kind = if error.is_denied() { error::Kind::Denied } else { error::Kind::Failed };
    let told = CommandError::new(kind, &error);
    match error {
        _ if kind == error::Kind::Denied => told.hint(privilege("the practice range")),
        LabError::Start(_) => told.hint("install iproute2"),
        _ => told,
    }
}
