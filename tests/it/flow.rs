//! The CPU where the kernel processes the packets of a flow, compared with those that `rxlab flow` names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;

use rustix::net::sockopt::socket_incoming_cpu;
use rxlab::lab::Range;
use rxlab_base::units::CpuId;
use rxlab_path::model::{Certainty, Flow, FlowPath};
use rxlab_path::sample::Scope;
use rxlab_sys::{Host, enter_netns, pin_thread};

use crate::lab::{host_in, range};
use crate::packets::{Sender, random_flows};
use crate::process::{Ended, PATIENCE, rxlab, wait_for};
use crate::tree::look;
use crate::{quiet, require};

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

/// CPUs that processed the packets of each flow, sent from CPU 0.
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
    let Some(range) = range(1) else { return };
    let host = host_in(&range.server);
    let servers = sockets(range.server.path(), Range::SERVER, Range::CLIENT);
    let clients = sockets(range.client.path(), Range::CLIENT, Range::SERVER);
    let state = tempfile::tempdir().expect("a temporary directory");
    let netns = range.server.path();
    let named = || -> FlowPath {
        let flow = format!("udp {}:20000 {}:20000", Range::SERVER, Range::CLIENT);
        rxlab(state.path(), &["flow", "--json", &flow, "--netns"]).arg(&netns).json(0)
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

const RANDOM_FLOWS: usize = 10_000;

/// Fewer packets than the backlog of a CPU has room for.
const BATCH: usize = 500;

/// Counts the packets of flows by the CPU that takes them up the stack.
const COUNTERS: &str = "table inet flows {
    counter cpu0 {}
    counter cpu1 {}
    chain taken {
        type filter hook prerouting priority -400;
        meta l4proto { tcp, udp } meta cpu 0 counter name cpu0
        meta l4proto { tcp, udp } meta cpu 1 counter name cpu1
    }
}";

/// Runs `nft` in the namespace of this thread.
fn nft(arguments: &[&str]) -> String {
    let out = Command::new("nft").args(arguments).output().expect("nft runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// Packets by CPU since the last call, once all of them have been counted.
fn taken(packets: usize) -> BTreeMap<CpuId, usize> {
    let mut taken = BTreeMap::new();
    wait_for("every packet is counted", || {
        let text = nft(&["reset", "counters"]);
        let words: Vec<&str> = text.split_whitespace().collect();
        for (cpu, name) in [(CpuId(0), "cpu0"), (CpuId(1), "cpu1")] {
            let at = words.iter().position(|word| *word == name).expect("listed");
            // `counter cpu0 { packets 5 bytes 300 }`
            *taken.entry(cpu).or_default() += words[at + 3].parse::<usize>().expect("a number");
        }
        taken.values().sum::<usize>() >= packets
    });
    taken.retain(|_, count| *count > 0);
    taken
}

/// A veth does not hash: RPS takes the kernel's own hash, whose key is random, and only the set of CPUs is computed. With
/// a mask of one CPU, that is one CPU for each flow.
#[test]
fn random_flows_land_on_the_cpus_that_are_named() {
    require::needs!(nft);
    let _noise = quiet::noisy();
    let Some(range) = range(1) else { return };
    let host = host_in(&range.server);
    let mac = host.read_text("sys/class/net/srv0/address").expect("readable");
    range.client.ip("-6 address add fd98::1/128 dev lo").expect("added");
    for via in [Range::SERVER.to_string(), "fe80::2".to_owned()] {
        let neighbour = format!("neigh add {via} lladdr {} dev cli0 nud permanent", mac.trim());
        range.client.ip(&neighbour).expect("added");
        range.client.ip(&format!("route add default via {via} dev cli0")).expect("added");
    }
    let flows = random_flows(RANDOM_FLOWS);
    for (mask, cpus) in [("1", 1), ("2", 1), ("3", 2)] {
        host.write("sys/class/net/srv0/queues/rx-0/rps_cpus", mask.as_bytes()).expect("written");
        let model = look(&host, Scope::Path);
        let nic = model.nic(&Range::server_nic()).expect("there");
        let named = |flow: &Flow| FlowPath::new(&model, nic, flow, false).rps_cpu.among;
        let among: BTreeSet<Vec<CpuId>> = flows.iter().map(named).collect();
        let among = among.into_iter().next().filter(|cpus| !cpus.is_empty()).expect("the same for all");
        assert_eq!(among.len(), cpus, "mask {mask}");
        let counted = sent(&range, &flows);
        println!("mask {mask}: {among:?}, taken by CPU: {counted:?}");
        assert_eq!(counted.values().sum::<usize>(), RANDOM_FLOWS, "{counted:?}");
        assert_eq!(counted.into_keys().collect::<Vec<_>>(), among);
    }
}

/// Sends the packets of all flows from CPU 0, and returns how many each CPU of the server took.
fn sent(range: &Range, flows: &[Flow]) -> BTreeMap<CpuId, usize> {
    let (client, server) = (range.client.path(), range.server.path());
    let (ask, asked) = std::sync::mpsc::channel::<&[Flow]>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            enter_netns(&client).expect("entered");
            pin_thread(CpuId(0)).expect("CPU 0 is there");
            let sender = Sender::new();
            asked.into_iter().flatten().for_each(|flow| sender.send(flow));
        });
        let count = scope.spawn(move || {
            enter_netns(&server).expect("entered");
            nft(&[COUNTERS]);
            let mut all = BTreeMap::new();
            for batch in flows.chunks(BATCH) {
                ask.send(batch).expect("the sender is there");
                taken(batch.len()).into_iter().for_each(|(cpu, count)| *all.entry(cpu).or_default() += count);
            }
            nft(&["flush", "ruleset"]);
            all
        });
        count.join().expect("counted")
    })
}
