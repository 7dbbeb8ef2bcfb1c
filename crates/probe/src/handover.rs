//! Receive work that RPS could hand over, and the cost of handing it over, both measured on this machine.
//!
//! A packet has a cost before the point where RPS chooses a CPU (taking it off the queue, GRO) and after it
//! (protocols, firewall, routing rules, waking its reader). Only the second part can go to another CPU. The
//! kernel has a tracepoint right after that point, so the part is measured on the current traffic.
//!
//! The cost of a hand-over is measured with RPS itself, on `lo` of a network namespace made for it: no
//! setting of this host changes, and no other program sees a packet.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use rustix::time::ClockId;

use super::loaded::{self, Missing};
use super::raw::{Record, record};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::model::{HandOver, StackWork};
use rxlab_sys::{Host, LiveHost, clock_ns, loopback_up, new_netns, pin_thread};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/handover.bpf.o"));

/// Missing in older kernels: `ipi_send_cpu` came with 6.4.
const OPTIONAL: &str = "interrupted";

/// NET_RX work of one CPU since the programs were attached.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    run_ns: u64,
    runs: u64,
    stack_ns: u64,
    ways: u64,
    sent_ns: u64,
    sent_ways: u64,
    packets: u64,
}

/// Filter of the runs: those on top of a thread, and those with a packet of a network namespace. Zero: all
/// runs.
#[derive(Debug, Clone, Copy, Default)]
struct Whose {
    thread: u32,
    /// Inode of the namespace's file.
    namespace: u32,
}

/// The programs, attached while this value lives.
struct Attached {
    _links: Vec<Link>,
    object: Object,
    sees_interrupts: bool,
}

impl Attached {
    fn new(host: &dyn Host, whose: Whose) -> Result<Self, Missing> {
        loaded::refuse_real_time(host)?;
        let first = match Self::load(whose, true) {
            Ok(attached) => return Ok(attached),
            Err(error) => error,
        };
        Self::load(whose, false).map_err(|_| loaded::refusal(host, &first))
    }

    fn load(whose: Whose, sees_interrupts: bool) -> Result<Self, libbpf_rs::Error> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
        loaded::set_constants(&mut open, &[whose.thread, whose.namespace]);
        for mut program in open.progs_mut() {
            let is_optional = program.name() == OPTIONAL;
            program.set_autoload(sees_interrupts || !is_optional);
        }
        let object = open.load()?;
        let loaded = object.progs_mut().filter(|program| sees_interrupts || program.name() != OPTIONAL);
        let links = loaded.map(|program| program.attach()).collect::<Result<_, _>>()?;
        Ok(Self { _links: links, object, sees_interrupts })
    }

    fn read(&self) -> Option<BTreeMap<CpuId, Work>> {
        let works = loaded::map(&self.object, "works");
        let cpus = works.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?;
        Some((0..).map(CpuId).zip(cpus.iter().flatten().map(|bytes| record(bytes))).collect())
    }
}

/// `struct work` of the source.
impl Record for Work {
    const STATE: usize = 4 * size_of::<u64>();

    fn counters(&mut self) -> Vec<&mut u64> {
        vec![
            &mut self.run_ns,
            &mut self.runs,
            &mut self.stack_ns,
            &mut self.ways,
            &mut self.sent_ns,
            &mut self.sent_ways,
            &mut self.packets,
        ]
    }
}

/// Minimum for a meaningful mean.
const FEW: u64 = 20;

/// Receive work of each CPU that RPS could hand over, measured for `wait`. Meanwhile the programs cost a few
/// hundred nanoseconds per packet.
///
/// # Errors
/// One line that names what is missing.
pub fn stack_work(host: &dyn Host, wait: Duration) -> Result<BTreeMap<CpuId, StackWork>, Missing> {
    let attached = Attached::new(host, Whose::default())?;
    std::thread::sleep(wait);
    let works = attached.read().unwrap_or_default();
    Ok(works
        .into_iter()
        .filter(|(_, work)| work.ways >= FEW)
        .map(|(cpu, work)| (cpu, part(&work, attached.sees_interrupts)))
        .collect())
}

fn part(work: &Work, sees_interrupts: bool) -> StackWork {
    let others = work.ways - work.sent_ways;
    // The cost of sending an interrupt: the difference between the two kinds, if there are enough of both.
    let waking = match sees_interrupts {
        _ if work.sent_ways >= FEW && others >= FEW => {
            let mean = |ns: u64, ways: u64| ns as f64 / ways as f64;
            let more = mean(work.sent_ns, work.sent_ways) - mean(work.stack_ns - work.sent_ns, others);
            Some((more * work.sent_ways as f64).max(0.0) / work.run_ns as f64)
        }
        true if work.sent_ways < FEW => Some(0.0),
        _ => None,
    };
    StackWork {
        part: work.stack_ns as f64 / work.run_ns as f64,
        interrupts: sees_interrupts.then(|| work.sent_ways as f64 / work.ways as f64),
        waking,
    }
}

/// Rounds; each cost is the median over them.
const ROUNDS: usize = 9;
/// Packets of a round that are handed over one at a time, and the pause after each.
const SINGLE: u32 = 20;
const PAUSE: Duration = Duration::from_micros(80);
/// Packets of a round without a pause: few enough for the buffer of a socket.
const STREAM: u32 = 128;

/// Cost of handing packets from one CPU to another, using some 50 ms of both.
///
/// # Errors
/// One line that names what is missing.
pub fn hand_over(host: &dyn Host, from: CpuId, to: CpuId) -> Result<HandOver, String> {
    std::thread::scope(|scope| {
        // In its own thread, which moves into the new namespace and ends with it.
        scope.spawn(|| rounds(host, from, to)).join().expect("the thread does not panic")
    })
}

fn rounds(host: &dyn Host, from: CpuId, to: CpuId) -> Result<HandOver, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let namespace = new_netns().map_err(|error| failed("cannot create a network namespace", &error))?;
    loopback_up().map_err(|error| failed("cannot bring up lo in a new network namespace", &error))?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()));
    let inside = LiveHost::open_in_namespace(Path::new("/"), &path)
        .map_err(|error| failed("cannot open a new network namespace", &error))?;
    let mask = CpuMask::from_iter([to]).to_hex();
    inside
        .write("sys/class/net/lo/queues/rx-0/rps_cpus", mask.as_bytes())
        .map_err(|error| failed("cannot set RPS in a new network namespace", &error))?;
    pin_thread(from).map_err(|error| failed("cannot run on the CPU", &error))?;
    let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| failed("no socket", &error));
    let (receiver, sender) = (socket()?, socket()?);
    let address = receiver.local_addr().map_err(|error| failed("no socket", &error))?;
    sender.connect(address).map_err(|error| failed("no socket", &error))?;
    receiver.set_nonblocking(true).map_err(|error| failed("no socket", &error))?;
    let inode = namespace.metadata().map_err(|error| failed("a new network namespace", &error))?.ino();
    let whose = Whose {
        thread: rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(),
        namespace: u32::try_from(inode).map_err(|error| failed("a new network namespace", &error))?,
    };
    let attached = Attached::new(host, whose).map_err(|missing| missing.to_string())?;
    let costs: Vec<[f64; 4]> =
        (0..ROUNDS).filter_map(|_| round(&attached, (from, to), &sender, &receiver)).collect();
    if costs.len() < ROUNDS.div_ceil(2) {
        return Err(format!("no packets that CPU {from} handed to CPU {to} arrived there"));
    }
    let [send_ns, take_ns, packet_ns, cycle_ns] = [0, 1, 2, 3].map(|at| {
        let mut values: Vec<f64> = costs.iter().map(|costs| costs[at]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    });
    Ok(HandOver { send_ns, take_ns, packet_ns, cycle_ns })
}

/// One round: costs of sending, taking, one packet and one cycle.
fn round(
    attached: &Attached,
    (from, to): (CpuId, CpuId),
    sender: &UdpSocket,
    receiver: &UdpSocket,
) -> Option<[f64; 4]> {
    let between = |act: &dyn Fn()| {
        let before = attached.read()?;
        let begun = cpu_ns();
        act();
        let ns = cpu_ns() - begun;
        std::thread::sleep(2 * PAUSE);
        let after = attached.read()?;
        while receiver.recv(&mut [0; 64]).is_ok() {}
        let spent = |cpu| Some(after.get(&cpu)?.since(before.get(&cpu)?));
        Some((spent(from)?, spent(to)?, ns))
    };
    let (single, taken, _) = between(&|| {
        for _ in 0..SINGLE {
            let _ = sender.send(&[0; 64]);
            let paused = Instant::now();
            while paused.elapsed() < PAUSE {
                std::hint::spin_loop();
            }
        }
    })?;
    let (stream, streamed, ns) = between(&|| {
        for _ in 0..STREAM {
            let _ = sender.send(&[0; 64]);
        }
    })?;
    let seen = single.runs >= u64::from(SINGLE) / 2 && taken.runs >= u64::from(SINGLE) / 2 && stream.runs > 0;
    if !seen || streamed.packets == 0 {
        return None;
    }
    let packet = streamed.run_ns as f64 / streamed.packets as f64;
    let take = (taken.run_ns as f64 - packet * taken.packets as f64) / taken.runs as f64;
    Some([single.run_ns as f64 / single.runs as f64, take.max(0.0), packet, ns as f64 / stream.runs as f64])
}

/// CPU time of this thread: excludes time in which another task has the CPU.
fn cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

#[cfg(test)]
mod tests {
    use super::{Record, Work, part};

    #[test]
    fn the_layout_of_the_source() {
        let bytes: Vec<u8> = (0u64..11).flat_map(u64::to_ne_bytes).collect();
        let work = Work::parse(&bytes).expect("long enough");
        assert_eq!((work.run_ns, work.runs, work.stack_ns), (4, 5, 6));
        assert_eq!((work.ways, work.sent_ns, work.sent_ways, work.packets), (7, 8, 9, 10));
    }

    /// 100 ways of 1 us and 100 of 11: the interrupts take 10 us each.
    #[test]
    fn waking_is_what_ways_with_an_interrupt_take_more() {
        let seen = Work {
            run_ns: 2_000_000,
            runs: 200,
            stack_ns: 1_200_000,
            ways: 200,
            sent_ns: 1_100_000,
            sent_ways: 100,
            packets: 200,
        };
        let stack = part(&seen, true);
        assert_eq!((stack.part, stack.interrupts, stack.waking), (0.6, Some(0.5), Some(0.5)));
        let always = Work { sent_ways: 200, sent_ns: 1_200_000, ..seen };
        assert_eq!(part(&always, true).waking, None, "nothing to compare with");
        assert_eq!(part(&Work { sent_ways: 0, sent_ns: 0, ..seen }, true).waking, Some(0.0));
        let blind = part(&Work { sent_ways: 0, sent_ns: 0, ..seen }, false);
        assert_eq!((blind.interrupts, blind.waking), (None, None));
    }
}
