//! The cost of received packets by CPU and task on the real kernel, with and without RPS.

mod compare;
mod replay;

use libbpf_rs::query::ProgInfoIter;
use rustix::process::{Pid, Signal};
use rxlab_base::units::{CpuId, Fact};
use rxlab_probe::{Class, CpuInterference, Interference, Tier};
use rxlab_sys::Host;

use crate::flood::Flood;
use crate::lab::{host_in, inside};
use crate::process::{Running, json, rxlab, wait_for};
use crate::require;

fn look(flood: &Flood, arguments: &[&str]) -> Interference {
    let all = [&["--json", "interference", "--for", "1s"], arguments].concat();
    json(&rxlab(flood.directory.path(), &all).output().expect("rxlab runs"))
}

fn on(sample: &Interference, cpu: u32) -> &CpuInterference {
    sample.cpus.iter().find(|of| of.cpu == CpuId(cpu)).expect("online")
}

fn ns(cpu: &CpuInterference, class: Class) -> u64 {
    *cpu.by_class[&class].known().expect("measured")
}

fn everywhere(sample: &Interference, class: Class) -> u64 {
    sample.cpus.iter().map(|cpu| ns(cpu, class)).sum()
}

fn total(cpu: &CpuInterference) -> u64 {
    *cpu.net_rx_ns.known().expect("measured")
}

fn adds_up(cpu: &CpuInterference) {
    let sum: u64 = cpu.by_class.values().filter_map(|ns| ns.known()).sum();
    assert_eq!(sum, total(cpu), "the classes add up to the total");
}

#[test]
fn packets_from_rps_interrupt_the_running_task() {
    let Some(flood) = Flood::start("1", &[]) else { return };
    let sample = look(&flood, &["--cpu", "0", "--probe", "--tier", "ebpf"]);
    assert_eq!((sample.tier, sample.missing.as_ref()), (Tier::Ebpf, None));
    let cpu = on(&sample, 0);
    assert!(sample.share(total(cpu)) > 0.02, "{cpu:?}");
    // The CPU is never idle: the probe is on it.
    let interfering = ns(cpu, Class::RpsIpi) + ns(cpu, Class::Ksoftirqd);
    assert!(ns(cpu, Class::RpsIpi) > total(cpu) / 2 && interfering > total(cpu) * 9 / 10, "{cpu:?}");
    adds_up(cpu);

    // Victims of every class are part of some CPU's time, and the time lost by the probe is theirs.
    let victims = sample.victims.known().expect("measured");
    let taken: u64 = victims.iter().filter_map(|victim| victim.by_class.get(&Class::RpsIpi)).sum();
    let given = everywhere(&sample, Class::RpsIpi);
    // The two are read one after the other while packets flow.
    assert!(taken < given * 101 / 100 && taken > given * 9 / 10, "{taken} of {given}");

    let [inference] = sample.inference.as_slice() else { panic!("{sample:?}") };
    let exact = *inference.exact.known().expect("measured");
    assert!(exact > 0.0, "{inference:?}");
    // Time that no program sees is added to it: the hypervisor's part of each interrupt, for example. Time that is
    // seen but not missed would be a mistake; other tasks may blur both by a few points.
    assert!(inference.inferred > exact - 0.08, "{inference:?}");
    let Fact::Known(cost) = sample.cost else { panic!("{:?}", sample.cost) };
    assert!(cost.runs > 1_000 && cost.ns > 0, "{cost:?}");
}

#[test]
fn without_rps_the_sender_pays() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let sample = look(&flood, &["--tier", "ebpf"]);
    let (other, sender) = (on(&sample, 0), on(&sample, 1));
    assert!(total(other) < total(sender) / 10, "{other:?} {sender:?}");
    assert!(ns(sender, Class::SelfInflicted) > total(sender) * 9 / 10, "{sender:?}");
    let victims = sample.victims.known().expect("measured");
    let most = victims.iter().max_by_key(|victim| victim.own_ns()).expect("a victim");
    assert_eq!(most.command, "rxlab");
    assert!(most.own_ns() > total(sender) / 2, "{most:?}");
    assert!(most.lost_ns() < most.own_ns() / 4, "{most:?}");
}

#[test]
fn both_tiers_have_the_same_columns() {
    let Some(flood) = Flood::start("1", &[]) else { return };
    let (measured, counted) = (look(&flood, &["--tier", "ebpf"]), look(&flood, &["--tier", "procfs"]));
    assert_eq!((measured.tier, counted.tier), (Tier::Ebpf, Tier::Procfs));
    let columns = |sample: &Interference| -> Vec<(CpuId, Vec<Class>)> {
        sample.cpus.iter().map(|cpu| (cpu.cpu, cpu.by_class.keys().copied().collect())).collect()
    };
    assert_eq!(columns(&measured), columns(&counted));
    assert_eq!(counted.victims, Fact::Unsupported);
    assert!(on(&counted, 1).packets.known().is_some() && on(&counted, 0).runs.known() > Some(&100));
}

#[test]
fn a_threaded_napi_is_in_the_total() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    if !flood.has_napi() {
        return;
    }
    let softirq = look(&flood, &["--tier", "ebpf"]);
    host_in(&flood.range.server).write("sys/class/net/srv0/threaded", b"1").expect("written");
    let threaded = look(&flood, &["--tier", "ebpf"]);
    assert_eq!(everywhere(&softirq, Class::ThreadedNapi), 0);
    let thread = everywhere(&threaded, Class::ThreadedNapi);
    assert!(thread > threaded.cpus.iter().map(total).sum::<u64>() / 2, "{:?}", threaded.cpus);
    assert!(threaded.threads.iter().any(|thread| thread.name.starts_with("napi/srv0") && thread.ns > 0));
    // The scheduler's sum for the thread includes the same time, and its interrupts.
    let scheduled: u64 = threaded
        .threads
        .iter()
        .filter(|thread| thread.name.starts_with("napi/"))
        .map(|thread| thread.ns)
        .sum();
    assert!(thread <= scheduled + scheduled / 10 && thread > scheduled / 4, "{thread} {scheduled}");
}

/// Receives what the flood's source sends to another port, polling up to 200 us at a time (SO_BUSY_POLL, 46).
const POLLER: &str = "
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 46, 200)
receiver.bind(('10.98.0.1', 9100))
print('bound', flush=True)
while True:
    receiver.recv(2048)
";

/// One datagram every two milliseconds, which leaves time to wait for it.
const SENDER: &str = "
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    sender.sendto(b'x', ('10.98.0.1', 9100))
    time.sleep(0.002)
";

/// The first sample with time of `poller`, a program that polls for what [`SENDER`] sends. `None` if skipped.
fn first_polls(flood: &Flood, poller: &str) -> Option<Interference> {
    if !flood.has_napi() {
        return None;
    }
    let _poller = Running::start(inside(&flood.range.server, "python3").args(["-c", poller]));
    let _sender = Running::start(inside(&flood.range.client, "python3").args(["-c", SENDER]));
    let mut sample = None;
    wait_for("polls", || {
        let looked = sample.insert(look(flood, &["--tier", "ebpf"]));
        everywhere(looked, Class::BusyPoll) > 0
    });
    sample
}

#[test]
fn busy_polling_tasks_are_in_the_total() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let Some(sample) = first_polls(&flood, POLLER) else { return };
    let polled = everywhere(&sample, Class::BusyPoll);
    // 500 waits per second, each at most 200 us plus the length of a poll.
    assert!(sample.share(polled) < 0.5, "{:?}", sample.cpus);
    sample.cpus.iter().for_each(adds_up);
}

/// Polls for packets without waiting, and computes for some 40 us in between.
const LOOKS_IN: &str = "
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 46, 200)
receiver.bind(('10.98.0.1', 9100))
while True:
    try:
        receiver.recv(2048, socket.MSG_DONTWAIT)
    except BlockingIOError:
        pass
    for step in range(2000):
        pass
";

#[test]
fn own_work_between_two_polls_of_a_socket_is_not_receive_time() {
    let Some(flood) = Flood::start("0", &["--rate", "500"]) else { return };
    let Some(sample) = first_polls(&flood, LOOKS_IN) else { return };
    let polled = sample.share(everywhere(&sample, Class::BusyPoll));
    // A poll takes one or two microseconds of each 40.
    assert!(polled < 0.3, "{polled} of the time");
}

/// IDs of the BPF programs that a process holds.
fn held_by(pid: Pid) -> Vec<u32> {
    let files = std::fs::read_dir(format!("/proc/{}/fdinfo", pid.as_raw_nonzero())).expect("listed");
    // A descriptor may be closed meanwhile.
    let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let mut ids: Vec<u32> = texts
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn a_kill_leaves_no_bpf_program_behind() {
    require::needs!(bpf);
    for arguments in [&["interference", "--for", "60s", "--tier", "ebpf"][..], &["trace", "--for", "60s"]] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let running = Running::start(&mut rxlab(directory.path(), arguments));
        let loaded =
            |ids: &[u32]| ProgInfoIter::default().filter(|program| ids.contains(&program.id)).count();
        // While it starts, it also loads programs only to see what the kernel knows, and closes them at once.
        let mut ours = Vec::new();
        wait_for("the programs", || {
            ours = held_by(running.pid());
            loaded(&ours) >= 6
        });
        running.signal(Signal::KILL);
        running.output();
        // The kernel frees them shortly after the last descriptor is closed.
        wait_for("their end", || loaded(&ours) == 0);
    }
}
