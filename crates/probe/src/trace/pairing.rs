//! From events to pieces of work. For any input in any order, pieces on a CPU are properly nested,
//! and none extends beyond the time in which it was seen.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Event, Kind};
use super::item::{Cause, Item, Poll, Run, Slice, Work};
use super::lane::Lane;
use rxlab_base::parse::NET_RX;
use rxlab_base::units::CpuId;
use rxlab_path::sample::is_napi_thread;

/// Receives the items made from an event.
pub(super) type Out<'a> = dyn FnMut(Item) + 'a;

/// The state of all CPUs and receiving threads.
#[derive(Debug)]
pub struct Pairing {
    lanes: BTreeMap<CpuId, Lane>,
    /// Wake-up time of each thread that was woken and has not run since.
    woken: BTreeMap<u32, u64>,
    running: BTreeSet<u32>,
    began: u64,
}

impl Pairing {
    /// For a timeline that begins at `began`.
    pub fn new(began: u64) -> Self {
        Self { lanes: BTreeMap::new(), woken: BTreeMap::new(), running: BTreeSet::new(), began }
    }

    pub fn push(&mut self, event: Event, out: &mut Out<'_>) {
        let began = self.began;
        let cpu = event.cpu;
        let lane = self.lanes.entry(cpu).or_insert_with(|| Lane::new(cpu, began));
        let count = lane.lost_until(event.lost);
        let from = lane.now;
        let at = lane.advance(event.at);
        if count > 0 {
            self.forget(cpu, from, out);
            out(Item::Lost { cpu, from, at, count });
        }
        let lane = self.lanes.get_mut(&cpu).expect("it was made above");
        match event.kind {
            Kind::IrqEntry(number) => lane.begin(at, from, Work::Irq(number), None, out),
            Kind::IrqExit(number) => lane.end(at, from, |work| *work == Work::Irq(number), out),
            Kind::IpiEntry => lane.begin(at, from, Work::Ipi, None, out),
            Kind::IpiExit => lane.end(at, from, |work| *work == Work::Ipi, out),
            Kind::TimerEntry => lane.begin(at, from, Work::Timer, None, out),
            Kind::TimerExit => lane.end(at, from, |work| *work == Work::Timer, out),
            Kind::Raise { vector, in_interrupt } => {
                let cause = lane.raise(vector, in_interrupt);
                out(Item::Raised { cpu, at, vector, cause });
            }
            Kind::SoftirqEntry { vector, pid, task } => {
                let run = Run {
                    cause: lane.pending.remove(&vector).unwrap_or(Cause::UNKNOWN),
                    task,
                    pid,
                    polls: 0,
                    packets: 0,
                    backlog: 0,
                    full: 0,
                    interrupts_ns: 0,
                };
                lane.begin(at, from, Work::Softirq(vector), Some(run), out);
            }
            Kind::SoftirqExit(vector) => lane.end(at, from, |work| *work == Work::Softirq(vector), out),
            Kind::Poll { napi, work, budget, device } => {
                let poll = Poll { cpu, began: None, ended: at, napi, device, work, budget };
                out(Item::Polled(lane.poll(poll)));
            }
            Kind::ThreadOn { pid, name } => {
                // First the end of earlier work, which was before.
                lane.begin(at, from, Work::Thread { pid, name: name.clone() }, None, out);
                if let Some(woken) = self.woken.remove(&pid) {
                    out(Item::Waited { cpu, woken: woken.min(at), at, pid, name });
                }
                self.running.insert(pid);
            }
            Kind::ThreadOff(pid) => {
                self.woken.remove(&pid);
                self.running.remove(&pid);
                lane.end(at, from, |work| matches!(work, Work::Thread { pid: of, .. } if *of == pid), out);
            }
            // Waking a running thread only keeps it from going to sleep.
            Kind::Waking { pid, name } => {
                if !self.running.contains(&pid) {
                    self.woken.insert(pid, at);
                    out(Item::Woken { cpu, at, pid, name });
                }
            }
        }
    }

    /// The end of the timeline, with the total of lost events of each CPU.
    pub fn finish(&mut self, at: u64, lost: &BTreeMap<CpuId, u32>, out: &mut Out<'_>) {
        for (cpu, lost) in lost {
            let began = self.began;
            let lane = self.lanes.entry(*cpu).or_insert_with(|| Lane::new(*cpu, began));
            let (count, from) = (lane.lost_until(*lost), lane.now);
            if count > 0 {
                let at = lane.advance(at);
                self.forget(*cpu, from, out);
                out(Item::Lost { cpu: *cpu, from, at, count });
            }
        }
        for lane in self.lanes.values_mut() {
            let at = lane.now.max(at);
            lane.cut(0, at, out);
        }
    }

    /// Events are missing: no beginning before the gap may be joined to an end after it.
    fn forget(&mut self, cpu: CpuId, at: u64, out: &mut Out<'_>) {
        let lane = self.lanes.get_mut(&cpu).expect("something of it was lost");
        lane.cut(0, at, out);
        lane.pending.clear();
        // A lost event may be the end of any wait.
        self.woken.clear();
        self.running.clear();
    }
}

/// A piece of work under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) work: Work,
    pub(super) began: u64,
    /// The end of the latest poll, or another time known to be before the next one.
    pub(super) polled: u64,
    pub(super) run: Option<Run>,
}

impl Open {
    pub(super) fn close(self, cpu: CpuId, ended: u64, whole: bool) -> Slice {
        Slice { cpu, began: self.began, ended, work: self.work, run: self.run, whole }
    }

    /// True if NAPIs are polled in it.
    pub(super) fn polls(&self) -> bool {
        match &self.work {
            Work::Softirq(vector) => *vector == NET_RX,
            Work::Thread { name, .. } => is_napi_thread(name),
            _ => false,
        }
    }
}
