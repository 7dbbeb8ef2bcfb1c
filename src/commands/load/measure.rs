//! A load from its start to its last response, offered from here or from the clients of `--client`.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use super::Args;
use super::server_watch::ServerWatch;
use super::watch::Watch;
use crate::commands::place;
use crate::error::Result;
use rxlab_load::{Clients, Joint, Second, ServerCpu, Session, Spec};
use rxlab_sys::LiveHost;

/// What a load did.
pub(super) struct Measured {
    pub(super) joint: Joint,
    pub(super) begun: SystemTime,
    /// Its seconds; none of clients.
    pub(super) series: Vec<Second>,
    pub(super) server: Option<ServerCpu>,
}

/// Offers `spec` from here or from the clients.
pub(super) fn measure(args: &Args, spec: &Spec, duration: Duration, stop: &AtomicBool) -> Result<Measured> {
    let mut watch = Watch::new(spec, duration, args.hdr_log.as_deref())?;
    let host = LiveHost::open("/".as_ref()).ok();
    let mut server = host.as_ref().and_then(|host| ServerWatch::find(host, spec));
    let warm_up = args.warm_up.unwrap_or_default();
    // The rate starts to change when the measurement starts.
    let rate = spec.rate.clone().map(|rate| if warm_up.is_zero() { rate } else { rate.held_for(warm_up) });
    let mut load = Load::start(&args.client, &Spec { rate, ..spec.clone() })?;
    if !warm_up.is_zero() {
        place::sleep(warm_up, stop);
        load.forget()?;
    }
    host.iter().zip(&mut server).for_each(|(host, server)| server.begin(host));
    let begun = SystemTime::now();
    let mut server_cpu = None;
    let at_end = || server_cpu = host.as_ref().zip(server).and_then(|(host, server)| server.end(host));
    let joint = match load {
        Load::Here(session) => {
            Joint { spec: spec.clone(), interval: watch.run(*session, stop, at_end)?, limit: None }
        }
        Load::Clients(clients) => watch.run_clients(clients, stop, at_end)?,
    };
    Ok(Measured { joint, begun, series: watch.series, server: server_cpu })
}

/// A load that runs.
enum Load {
    Here(Box<Session>),
    Clients(Clients),
}

impl Load {
    fn start(clients: &[String], spec: &Spec) -> Result<Self> {
        if clients.is_empty() {
            return Ok(Self::Here(Box::new(Session::start(spec)?)));
        }
        let mut clients = Clients::start(clients.iter().map(String::as_str), spec)?;
        clients.begin()?;
        Ok(Self::Clients(clients))
    }

    /// The measurement begins now.
    fn forget(&mut self) -> Result {
        match self {
            Self::Here(session) => session.forget(),
            Self::Clients(clients) => clients.begin()?,
        }
        Ok(())
    }
}
