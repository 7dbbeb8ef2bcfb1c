//! Finds the server's processes on this machine, and measures their CPU time during a load.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;

use rxlab_base::parse::{ProcessStat, process_stat};
use rxlab_load::{Destination, ServerCpu, ServerProcess, Spec};
use rxlab_path::sample::{Inventory, RawListeners, Scope, Transport};
use rxlab_sys::Host;

/// The server's processes and their CPU time at the start.
#[derive(Debug)]
pub(super) struct ServerWatch {
    begun: Instant,
    at_start: Vec<Server>,
}

/// A process of the server, with the CPU time of its threads by thread id.
#[derive(Debug)]
struct Server {
    pid: u32,
    stat: ProcessStat,
    threads: BTreeMap<u32, ProcessStat>,
}

impl Server {
    fn sample(host: &dyn Host, pid: u32) -> Option<Self> {
        let folder = format!("proc/{pid}/task");
        let numbers = host.list(&folder).unwrap_or_default().into_iter().filter_map(|name| name.parse().ok());
        let threads = numbers.filter_map(|tid: u32| Some((tid, stat(host, &format!("{folder}/{tid}"))?)));
        Some(Self { pid, threads: threads.collect(), stat: stat(host, &format!("proc/{pid}"))? })
    }

    /// Its current state; `None` if it has ended.
    fn again(&self, host: &dyn Host) -> Option<Self> {
        Self::sample(host, self.pid).filter(|now| now.stat.began_ticks == self.stat.began_ticks)
    }

    /// The most CPU time used by one of its threads since `before`, in ticks.
    fn busiest_since(&self, before: &Self) -> Option<u64> {
        let taken = self.threads.iter().filter_map(|(tid, now)| {
            let before = before.threads.get(tid).filter(|before| before.began_ticks == now.began_ticks)?;
            Some(now.cpu_ticks.saturating_sub(before.cpu_ticks))
        });
        taken.max()
    }
}

impl ServerWatch {
    /// Finds the processes that listen at the destination of `spec`; `None` if it is another machine,
    /// another network namespace or a unix socket, or if its processes are not readable.
    pub(super) fn find(host: &dyn Host, spec: &Spec) -> Option<Self> {
        if spec.netns.is_some() {
            return None;
        }
        let inet = |destination| match destination {
            Destination::Inet(address) => Some(address),
            Destination::Unix(_) => None,
        };
        // A name may have several addresses; the load goes to the first with a listener.
        let addresses: Vec<SocketAddr> =
            Destination::resolve(spec).ok()?.into_iter().filter_map(inet).collect();
        if addresses.is_empty() || !addresses.iter().all(|address| is_local(address.ip())) {
            return None;
        }
        let transport = if spec.url.protocol.is_stream() { Transport::Tcp } else { Transport::Udp };
        let inventory = Inventory::take(host, Scope::Environment { nic: None });
        let listeners = inventory.listeners.known()?;
        let owners = |at: &SocketAddr| owners(listeners, transport, at.ip(), at.port());
        let pids = addresses.iter().map(owners).find(|pids| !pids.is_empty())?;
        let at_start: Vec<_> = pids.into_iter().filter_map(|pid| Server::sample(host, pid)).collect();
        (!at_start.is_empty()).then(|| Self { begun: Instant::now(), at_start })
    }

    /// Starts the measurement now instead of at `find`.
    pub(super) fn begin(&mut self, host: &dyn Host) {
        self.begun = Instant::now();
        for server in &mut self.at_start {
            if let Some(now) = server.again(host) {
                *server = now;
            }
        }
    }

    /// CPU time used since the start. Processes that have ended are left out.
    pub(super) fn end(&self, host: &dyn Host) -> Option<ServerCpu> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (mut processes, mut ticks, mut busiest) = (Vec::new(), 0, None);
        for before in &self.at_start {
            let Some(now) = before.again(host) else { continue };
            ticks += now.stat.cpu_ticks.saturating_sub(before.stat.cpu_ticks);
            busiest = busiest.max(now.busiest_since(before));
            processes.push(ServerProcess { pid: now.pid, command: now.stat.command });
        }
        // USER_HZ is 100 on every architecture that Linux still supports.
        let in_seconds = |ticks: u64| ticks as f64 / 100.0;
        let cpu = in_seconds(ticks);
        let there = !processes.is_empty() && seconds > 0.0;
        there.then(|| ServerCpu {
            processes,
            seconds: cpu,
            cpus: cpu / seconds,
            busiest: busiest.map(|ticks| in_seconds(ticks) / seconds),
        })
    }
}

fn stat(host: &dyn Host, folder: &str) -> Option<ProcessStat> {
    process_stat(&host.read_text(&format!("{folder}/stat")).ok()?).ok()
}

/// True if the address belongs to this machine: only then can a socket be bound to it.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Owners of sockets that receive what is sent to `address` and `port`: bound to it or to any address.
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
    use rxlab_sys::LiveHost;

    /// The server is this process itself.
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
        let server = watch.end(&host).expect("still running");
        assert_eq!(server.processes.len(), 1);
        assert_eq!(server.processes[0].pid, std::process::id());
        assert!(server.seconds > 0.0 && server.cpus > 0.0, "{server:?}");
        // Only one thread has spun, so it is at least as busy as its share of the process.
        let busiest = server.busiest.expect("it has threads");
        assert!(busiest > 0.0 && busiest <= server.cpus + 0.1, "{server:?}");
        // No listener there over UDP, and 192.0.2.1 belongs to no machine.
        for url in [format!("udp://127.0.0.1:{port}"), format!("http://192.0.2.1:{port}/")] {
            assert!(ServerWatch::find(&host, &Spec::new(url.parse().expect("a URL"))).is_none(), "{url}");
        }
    }
}
