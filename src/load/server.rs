//! The CPU time of the server, where it runs on this machine: of the processes that listen where the
//! load goes.

use std::net::{IpAddr, UdpSocket};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::destination::Destination;
use super::spec::Spec;
use super::url::Protocol;
use crate::host::Host;
use crate::parse::{ProcessStat, process_stat};
use crate::sample::{Inventory, RawListeners, Scope, Transport};

/// CPU time of the server while the load ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerCpu {
    /// The processes that listen there.
    pub processes: Vec<ServerProcess>,
    /// User and system time of all their threads in seconds, to a hundredth. What the kernel received
    /// for them in softirqs is in it only where it was done in their context.
    pub seconds: f64,
    /// The same as a number of CPUs (0.22 = 22 % of one).
    pub cpus: f64,
}

/// A process of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerProcess {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub command: String,
}

/// The server and what it had taken at the beginning.
#[derive(Debug)]
pub struct ServerWatch {
    begun: Instant,
    at_start: Vec<(u32, ProcessStat)>,
}

impl ServerWatch {
    /// Finds the processes behind the destination of `spec`; `None` when it is another machine, another
    /// network namespace or a unix socket, or when its processes are not ours to look at.
    pub fn find(host: &dyn Host, spec: &Spec) -> Option<Self> {
        if spec.netns.is_some() {
            return None;
        }
        let Destination::Inet(address) = Destination::of(spec).ok()? else { return None };
        if !is_local(address.ip()) {
            return None;
        }
        let transport = if spec.url.protocol == Protocol::Http { Transport::Tcp } else { Transport::Udp };
        let inventory = Inventory::take(host, Scope::Surroundings { nic: None });
        let pids = owners(inventory.listeners.known()?, transport, address.ip(), address.port());
        let at_start: Vec<_> = pids.into_iter().filter_map(|pid| Some((pid, stat(host, pid)?))).collect();
        (!at_start.is_empty()).then(|| Self { begun: Instant::now(), at_start })
    }

    /// The time to measure begins now, and not when the server was found.
    pub fn begin(&mut self, host: &dyn Host) {
        self.begun = Instant::now();
        for (pid, at_start) in &mut self.at_start {
            if let Some(now) = stat(host, *pid).filter(|now| now.began_ticks == at_start.began_ticks) {
                *at_start = now;
            }
        }
    }

    /// What they took since then. A process that has ended meanwhile is left out.
    pub fn end(&self, host: &dyn Host) -> Option<ServerCpu> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (mut processes, mut ticks) = (Vec::new(), 0);
        for (pid, before) in &self.at_start {
            let now = stat(host, *pid).filter(|now| now.began_ticks == before.began_ticks);
            let Some(now) = now else { continue };
            ticks += now.cpu_ticks.saturating_sub(before.cpu_ticks);
            processes.push(ServerProcess { pid: *pid, command: now.command });
        }
        // USER_HZ is 100 on every architecture of Linux that is still there.
        let cpu = ticks as f64 / 100.0;
        let there = !processes.is_empty() && seconds > 0.0;
        there.then(|| ServerCpu { processes, seconds: cpu, cpus: cpu / seconds })
    }
}

fn stat(host: &dyn Host, pid: u32) -> Option<ProcessStat> {
    process_stat(&host.read_text(&format!("proc/{pid}/stat")).ok()?).ok()
}

/// Whether the address is one of this machine: only then can a socket be bound to it.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Who holds a socket that takes what is sent to `address` and `port`: bound to it, or to any.
fn owners(listeners: &RawListeners, transport: Transport, address: IpAddr, port: u16) -> Vec<u32> {
    let takes = |bound: IpAddr| {
        let any = bound.is_unspecified() && (bound.is_ipv6() || address.is_ipv4());
        bound.to_canonical() == address.to_canonical() || any
    };
    let there =
        listeners.sockets.iter().filter(|s| s.transport == transport && s.port == port && takes(s.address));
    let mut pids: Vec<u32> = there.flat_map(|socket| socket.owners.iter().copied()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{ServerWatch, Spec};
    use crate::host::LiveHost;

    /// The server is this very process.
    #[test]
    fn the_process_that_listens_is_found_with_its_time() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let spec = Spec::new(format!("http://127.0.0.1:{port}/").parse().expect("a URL"));
        let mut watch = ServerWatch::find(&host, &spec).expect("found");
        watch.begin(&host);
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let server = watch.end(&host).expect("it is still there");
        assert_eq!(server.processes.len(), 1);
        assert_eq!(server.processes[0].pid, std::process::id());
        assert!(server.seconds > 0.0 && server.cpus > 0.0, "{server:?}");
        // Nobody listens there over UDP, and 192.0.2.1 is nobody's.
        for url in [format!("udp://127.0.0.1:{port}"), format!("http://192.0.2.1:{port}/")] {
            assert!(ServerWatch::find(&host, &Spec::new(url.parse().expect("a URL"))).is_none(), "{url}");
        }
    }
}
