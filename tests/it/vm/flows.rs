//! The queue of a flow, computed from key, fields and table of a device that hashes, compared with the interrupts of
//! the queue where its packets arrive.

use std::collections::BTreeSet;

use rxlab_path::model::{Certainty, FlowPath};

use super::guest;
use super::interrupts::irq;
use crate::process::Ended;

/// Local ports of the guest, a flow each. Wrong queues would be right by chance once in 4^12 runs. Each port differs from
/// 49152 in another bit: the device's key is random, and one in some hundred keys sends twelve neighbouring ports to one
/// queue.
fn ports() -> impl Iterator<Item = u16> {
    (0..12).map(|bit| 49_152 | 1 << bit)
}

/// Requests on the connection of each port, one by one; most responses cause an interrupt each.
const REQUESTS: u64 = 50;

/// The peer is a web server: packets of a flow come from its port 80.
fn job() -> String {
    let asks = format!(
        "ask() {{ printf 'GET /simple HTTP/1.1\\r\\nHost: peer\\r\\n%s\\r\\n' \"$1\"; }}\n\
         asks() {{\n\
             for n in $(seq {REQUESTS}); do ask ''; usleep 10000; done\n\
             ask 'Connection: close\r\n'\n\
         }}\n"
    );
    let flows: String = ports()
        .map(|port| {
            format!(
                "echo {port} {port} > /proc/sys/net/ipv4/ip_local_port_range\n\
             ran 'flow {port}' rxlab flow --json 'tcp 10.98.0.2:{port} 10.98.0.1:80' --nic eth0\n\
             counts 'before {port}'\n\
             asks | timeout 20 nc 10.98.0.1 80 >&2\n\
             counts 'after {port}'\n"
            )
        })
        .collect();
    // This kernel passes the table to the device only when it is set.
    format!(
        "ran apply rxlab apply --setting 'rss eth0 = weights 1,2,1,3'\n\
         ping -c 1 10.98.0.1 >&2\nran show rxlab show --nic eth0 --json\n{asks}{flows}"
    )
}

#[test]
fn flows_arrive_on_their_queues() {
    let peer = format!("exec '{}' target --http 10.98.0.1:80 --for 400s", env!("CARGO_BIN_EXE_rxlab"));
    let Some(answer) = guest::run("4cpu-knobs", &job(), Some(&peer)) else { return };
    answer.ran("apply").exits(0);
    let model = answer.model("show");
    let queues = &model.nics[0].rx;
    assert_eq!(queues.len(), 4);
    let mut used = BTreeSet::new();
    for port in ports() {
        let path: FlowPath = answer.ran(&format!("flow {port}")).json(0);
        assert_eq!((path.hash.certainty, path.queue.certainty), (Certainty::Computed, Certainty::Assumed));
        let own = path.queue.only().expect("one queue") as usize;
        let counted = answer.interrupts(&format!("before {port}"), &format!("after {port}"));
        let counts: Vec<u64> = queues.iter().map(|queue| counted.all(irq(queue))).collect();
        println!("port {port}: rx-{own} of {counts:?}");
        let others = counts.iter().sum::<u64>() - counts[own];
        assert!(counts[own] >= REQUESTS / 4 && others <= REQUESTS / 10, "rx-{own} of {counts:?}: {path:?}");
        assert_eq!(path.irq.only(), Some(irq(&queues[own]).number));
        let cpu = path.cpu.only().expect("one CPU").0 as usize;
        // The first may still be where the interrupt was before the table was set.
        assert!(counted.on(irq(&queues[own]), cpu) + 1 >= counts[own], "not on CPU {cpu}: {path:?}");
        used.insert(own);
    }
    assert!(used.len() > 1, "all flows on one queue");
}
