//! What the protocol work of a packet costs on a CPU of this machine: that of a small UDP packet which this process
//! sends to itself over `lo`, as the programs measure it.
//!
//! It is what RPS moves: from the backlog of a CPU through IP and UDP into the queue of a socket that nobody sleeps
//! on. TCP costs more. A few thousand packets take some milliseconds of one CPU.

use std::net::{Ipv4Addr, UdpSocket};

use super::{Class, Programs};
use crate::host::pin_thread;
use crate::units::CpuId;

/// Rounds; the cost is the median of theirs.
const ROUNDS: usize = 9;
/// Packets of a round: few enough for a socket's buffer.
const PACKETS: u64 = 64;
/// Bursts of a round.
const BURSTS: u64 = 8;
/// Less is no measurement: the softirq ran elsewhere, as with RPS on `lo`.
const LEAST_NS: f64 = 50.0;

/// Nanoseconds of NET_RX for each packet on this CPU; `None` where it cannot be had.
pub fn protocol_ns(programs: &Programs, cpu: CpuId) -> Option<f64> {
    // A thread of its own: the others stay where they may be.
    std::thread::scope(|scope| {
        scope.spawn(|| rounds(programs, cpu)).join().expect("the thread does not panic")
    })
}

fn rounds(programs: &Programs, cpu: CpuId) -> Option<f64> {
    pin_thread(cpu).ok()?;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    sender.connect(receiver.local_addr().ok()?).ok()?;
    receiver.set_nonblocking(true).ok()?;
    let mut costs: Vec<f64> = (0..ROUNDS).filter_map(|_| round(programs, cpu, &sender, &receiver)).collect();
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().filter(|ns| *ns >= LEAST_NS)
}

/// One round, without what the program at the end of each poll takes of it where it ran.
fn round(programs: &Programs, cpu: CpuId, sender: &UdpSocket, receiver: &UdpSocket) -> Option<f64> {
    let own = |reading: &super::Reading| {
        let class = Class::OF_RUNS.iter().position(|class| *class == Class::SelfInflicted);
        let class = class.expect("it is one of them");
        reading.lost(cpu, std::process::id()).map_or(0, |victim| victim.ns[class])
    };
    let before = programs.read().ok()?;
    let mut sent = 0;
    let mut bytes = [0; 128];
    for _ in 0..BURSTS {
        for _ in 0..PACKETS {
            sent += u64::from(sender.send(&bytes[..64]).is_ok());
        }
        while receiver.recv(&mut bytes).is_ok() {}
    }
    let after = programs.read().ok()?;
    let each = programs.cost().known().and_then(|cost| cost.ns.checked_div(cost.runs)).unwrap_or_default();
    let on = |reading: &super::Reading| {
        reading.cpus.get(&cpu).map_or((0, 0), |cpu| (cpu.polled_runs, cpu.all_runs()))
    };
    let ((polled, runs), (polled_before, runs_before)) = (on(&after), on(&before));
    let polled = (polled - polled_before) as f64 / (runs - runs_before).max(1) as f64;
    (sent > 0).then(|| own(&after).saturating_sub(own(&before)) as f64 / sent as f64 - each as f64 * polled)
}
