//! The CPU where the kernel processes the packets of a flow, compared with those that `rxlab flow` names.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_incoming_cpu;
use rxlab::host::{Host, LiveHost, enter_netns, pin_thread};
use rxlab::lab::{Range, RangeSpec};
use rxlab::model::{Certainty, FlowPath};
use rxlab::units::CpuId;

use crate::process::{PATIENCE, rxlab};
use crate::require;

/// So many flows miss one of two CPUs by chance once in 2^63 runs.
const FLOWS: u16 = 64;

/// Sockets in a network namespace, each connected to the same port of the other host.
fn sockets(namespace: PathBuf, own: Ipv4Addr, other: Ipv4Addr) -> Vec<UdpSocket> {
    // A separate thread: only it moves into the namespace, and it ends here.
    std::thread::spawn(move || {
        enter_netns(&namespace).expect("entered");
        (20_000..20_000 + FLOWS)
            .map(move |port| {
                let socket = UdpSocket::bind((own, port)).expect("a free port");
                socket.connect((other, port)).expect("connected");
                socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                socket
            })
            .collect()
    })
    .join()
    .expect("the sockets are there")
}

/// Where the packets of each flow were processed, sent from CPU 0.
fn processed(servers: &[UdpSocket], clients: &[UdpSocket]) -> BTreeSet<CpuId> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_thread(CpuId(0)).expect("CPU 0 is there");
            for client in clients {
                client.send(b"flow").expect("sent");
            }
        });
        let cpu = |server: &UdpSocket| {
            server.recv(&mut [0; 8]).expect("received");
            CpuId(socket_incoming_cpu(server).expect("reported"))
        };
        servers.iter().map(cpu).collect()
    })
}

#[test]
fn packets_land_on_the_cpus_that_are_named() {
    require::needs!(netns);
    let range = Range::build(&RangeSpec::default()).expect("built");
    let host = LiveHost::open_in_namespace(Path::new("/"), &range.server.path()).expect("opened");
    let servers = sockets(range.server.path(), Range::SERVER, Range::CLIENT);
    let clients = sockets(range.client.path(), Range::CLIENT, Range::SERVER);
    let state = tempfile::tempdir().expect("a temporary directory");
    let netns = range.server.path();
    let named = || -> FlowPath {
        let flow = format!("udp {}:20000 {}:20000", Range::SERVER, Range::CLIENT);
        let mut command = rxlab(state.path(), &["flow", "--json", &flow, "--netns"]);
        let out = command.arg(&netns).output().expect("rxlab runs");
        serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out:?}"))
    };
    // Without RPS the sender's CPU receives: a flow does not say which that is.
    let path = named();
    assert_eq!((path.nic, path.queue.only()), (Range::server_nic(), Some(0)));
    assert_eq!((path.rps_cpu.among, path.rps_cpu.certainty), (vec![], Certainty::NotKnown));
    for (mask, certainty) in [("2", Certainty::Certain), ("3", Certainty::NotKnown)] {
        host.write("sys/class/net/srv0/queues/rx-0/rps_cpus", mask.as_bytes()).expect("written");
        let step = named().rps_cpu;
        let among: BTreeSet<CpuId> = step.among.iter().copied().collect();
        assert_eq!(
            (processed(&servers, &clients), step.certainty),
            (among, certainty),
            "mask {mask}: {step:?}"
        );
    }
}
