//! One CPU of a timeline: the nested pieces of work under way.

use std::collections::BTreeMap;

use super::item::{Cause, Item, Poll, Run, Work};
use super::pairing::{Open, Out};
use crate::Class;
use rxlab_base::units::CpuId;

/// State of one CPU between two events.
#[derive(Debug)]
pub(super) struct Lane {
    cpu: CpuId,
    /// The time of the latest event.
    pub(super) now: u64,
    lost: u32,
    /// Each inside the one before: its level is higher, and it began later.
    stack: Vec<Open>,
    /// Cause of each pending softirq: the first raise since it last ran.
    pub(super) pending: BTreeMap<u32, Cause>,
}

impl Lane {
    pub(super) fn new(cpu: CpuId, now: u64) -> Self {
        Self { cpu, now, lost: 0, stack: Vec::new(), pending: BTreeMap::new() }
    }

    /// Events lost since the last call. The number wraps, and may come out of order.
    pub(super) fn lost_until(&mut self, lost: u32) -> u32 {
        let more = lost.wrapping_sub(self.lost);
        if more > u32::MAX / 2 {
            return 0;
        }
        self.lost = lost;
        more
    }

    /// Goes on to `at`, at least by a nanosecond: no two events of a CPU have the same time.
    pub(super) fn advance(&mut self, at: u64) -> u64 {
        self.now = at.max(self.now.saturating_add(1));
        self.now
    }

    /// A piece of work begins; `before` is the time of the lane's previous event.
    pub(super) fn begin(&mut self, at: u64, before: u64, work: Work, run: Option<Run>, out: &mut Out<'_>) {
        // Work of this level cannot interrupt the one under way, whose end was therefore not seen.
        self.cut(work.level(), before, out);
        out(Item::Began { cpu: self.cpu, at, work: work.clone() });
        self.stack.push(Open { work, began: at, polled: at, run });
    }

    /// A piece of work ends.
    pub(super) fn end(&mut self, at: u64, before: u64, is: impl Fn(&Work) -> bool, out: &mut Out<'_>) {
        let Some(place) = self.stack.iter().rposition(|open| is(&open.work)) else {
            out(Item::Stray { cpu: self.cpu, at });
            return;
        };
        while self.stack.len() > place + 1 {
            self.close(before, false, out);
        }
        self.close(at, true, out);
    }

    /// Ends work under way of `level` and above, whose end was not seen.
    pub(super) fn cut(&mut self, level: u8, at: u64, out: &mut Out<'_>) {
        while self.stack.last().is_some_and(|open| open.work.level() >= level) {
            self.close(at, false, out);
        }
    }

    fn close(&mut self, at: u64, whole: bool, out: &mut Out<'_>) {
        let open = self.stack.pop().expect("the callers looked");
        let slice = open.close(self.cpu, at, whole);
        if let Some(around) = self.stack.last_mut() {
            match (&slice.work, &mut around.run) {
                (Work::Irq(_) | Work::Ipi | Work::Timer, Some(run)) => run.interrupts_ns += slice.length(),
                (Work::Irq(_) | Work::Ipi | Work::Timer, None) => {}
                // A thread runs softirqs between two polls.
                _ => around.polled = at,
            }
        }
        out(Item::Ended(slice));
    }

    /// A softirq is raised. Returns the cause; the first of several raises is the cause of the run.
    pub(super) fn raise(&mut self, vector: u32, in_interrupt: bool) -> Cause {
        let caused_by = |class| Cause { class, irq: None };
        let cause = match self.stack.last().map(|open| (&open.work, &open.run)) {
            Some((Work::Irq(number), _)) => Cause { class: Class::NicIrq, irq: Some(*number) },
            Some((Work::Ipi, _)) => caused_by(Class::RpsIpi),
            Some((Work::Timer, _)) => caused_by(Class::OtherIrq),
            _ if in_interrupt => caused_by(Class::OtherIrq),
            // The run goes on in another: it stopped on its budget, or passes packets on.
            Some((Work::Softirq(running), Some(run))) if *running == vector => run.cause,
            Some((Work::Softirq(_), _)) => caused_by(Class::OtherSoftirq),
            _ => caused_by(Class::SelfInflicted),
        };
        self.pending.entry(vector).or_insert(cause);
        cause
    }

    /// A poll, with its beginning if known.
    pub(super) fn poll(&mut self, mut poll: Poll) -> Poll {
        if let Some(open) = self.stack.last_mut().filter(|open| open.polls()) {
            poll.began = Some(open.polled);
            open.polled = poll.ended;
            if let Some(run) = &mut open.run {
                run.polls += 1;
                run.full += u32::from(poll.is_full());
                let packets = if poll.device.is_empty() { &mut run.backlog } else { &mut run.packets };
                *packets += u64::from(poll.work);
            }
        }
        poll
    }
}
