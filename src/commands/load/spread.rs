//! `--spread-queues`: source ports of flows that land on the target's queues as wanted.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::Args;
use crate::commands::{files, flow};
use crate::error::{CommandError, Result};
use rxlab_base::units::NicName;
use rxlab_path::model::{Flow, Landing, Model, Transport, source_ends};

/// Placement of flows on the target's receive queues.
#[derive(Debug, clap::Args)]
pub(super) struct Spread {
    /// Choose source ports so that flows land evenly on the target's receive queues (even), or all on one of them
    /// (rx-3) or on one CPU (cpu:2). With --source and --receiver
    ///
    /// With even, every receive queue of the RSS table gets the same number; with one queue, every CPU of RPS. A CPU gets flows
    /// by RPS or by the interrupt. One address allows 22,768 flows (ports 10000 to 32767).
    #[arg(long, value_name = "WHERE", requires = "source", requires = "receiver")]
    spread_queues: Option<Landing>,
    /// The target's machine for --spread-queues: what `rxlab show --json` prints there, as root
    #[arg(long, value_name = "FILE", requires = "spread_queues")]
    receiver: Option<PathBuf>,
    /// The target's interface that receives the flows; needed if there are several
    #[arg(long, value_name = "NIC", requires = "spread_queues")]
    receiver_nic: Option<NicName>,
}

impl Spread {
    /// Source addresses, and a port for each connection if they are chosen.
    pub(super) fn sources(&self, args: &Args) -> Result<(Vec<IpAddr>, Vec<u16>)> {
        let (Some(landing), Some(file)) = (self.spread_queues, &self.receiver) else {
            return Ok((args.source.clone(), Vec::new()));
        };
        let text = files::read("receiver", file)?;
        let model: Model = serde_json::from_str(&text).map_err(|error| {
            CommandError::usage(format!("{}: {error}", file.display()))
                .hint("write it on the target's machine with `rxlab show --json`")
        })?;
        let transport = if args.url.protocol.is_stream() { Transport::Tcp } else { Transport::Udp };
        let local = self.local(args)?;
        let nic = flow::receiving(&model, self.receiver_nic.as_ref(), &local)?;
        let ends = source_ends(&model, nic, (transport, local), &args.source, args.connections, landing);
        let ends = ends.map_err(|error| {
            let flow = args.source.first().map(|source| Flow {
                transport,
                local,
                remote: SocketAddr::new(*source, 40_000),
            });
            let hint =
                flow.map(|flow| format!("see each step there with: rxlab flow '{flow}' --nic {}", nic.name));
            CommandError::usage(error).hint_all(hint)
        })?;
        Ok(ends.into_iter().map(|end| (end.ip(), end.port())).unzip())
    }

    /// The target's address, of the family of the sources.
    fn local(&self, args: &Args) -> Result<SocketAddr> {
        let host = (args.url.host.as_str(), args.url.port);
        let mut found = host
            .to_socket_addrs()
            .map_err(|error| CommandError::failed(format!("cannot resolve {}: {error}", args.url.host)))?;
        let is_v4 = args.source.first().is_some_and(IpAddr::is_ipv4);
        let suiting = found.find(|address| address.is_ipv4() == is_v4);
        let family = if is_v4 { "IPv4" } else { "IPv6" };
        suiting.ok_or_else(|| CommandError::usage(format!("{} has no {family} address", args.url.host)))
    }
}
