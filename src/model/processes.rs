//! Programs that use CPU time, as rates.

use super::rates::{HeldRates, ProcessRates, Rates, SocketRates, ThreadRates, ThrottledRates};
use crate::sample::{RawBusy, RawHeld, RawThread};
use crate::units::{CpuMask, Fact};

/// USER_HZ is 100 on every architecture that rxlab runs on.
const TICKS_PER_SECOND: f64 = 100.0;

impl Rates {
    /// Adds the programs that used most CPU time in the interval.
    #[must_use]
    pub fn with_busiest(mut self, busiest: Fact<Vec<RawBusy>>) -> Self {
        let seconds = self.seconds;
        self.processes = busiest.map(|busy| busy.into_iter().map(|one| process(one, seconds)).collect());
        self
    }
}

fn process(raw: RawBusy, seconds: f64) -> ProcessRates {
    let runnable = |threads: Vec<RawThread>| threads.iter().filter(|thread| thread.runnable).count() as u32;
    let part = |ns: u64| (ns as f64 / 1e9 / seconds).min(1.0);
    let each = raw.threads.known().into_iter().flatten().filter_map(|thread| {
        let spent = thread.spent?;
        let (ran, waited) = (part(spent.ran_ns), part(spent.waited_ns));
        Some(ThreadRates { tid: thread.tid, cpu: thread.cpu, ran, waited })
    });
    let held = |raw: RawHeld| HeldRates {
        transport: raw.now.transport,
        port: raw.now.port,
        queued_before: raw.queued_before,
        queued: raw.now.queued,
        dropped: raw.dropped as f64 / seconds,
        unread: raw.unread,
    };
    let throttled = raw.throttled.map(|raw| ThrottledRates {
        group: raw.group,
        limit: raw
            .limit
            .map(|limit| (limit.quota_us as f64 / limit.period_us as f64, limit.period_us as f64 / 1e3)),
        throttled: raw.more.throttled,
        periods: raw.more.periods,
        waited: raw.more.waited_us as f64 / 1e6 / seconds,
    });
    ProcessRates {
        throttled,
        each: each.collect(),
        sockets: raw.sockets.map(|sockets| SocketRates {
            held: sockets.held.into_iter().map(held).collect(),
            others: sockets.others,
        }),
        pid: raw.pid,
        cpu: raw.ticks as f64 / TICKS_PER_SECOND / seconds,
        threads: u32::try_from(raw.now.threads).unwrap_or(u32::MAX),
        runnable: raw.threads.clone().map(runnable),
        allowed: raw.allowed,
        cpuset: raw.cpuset,
        ran_on: raw.threads.map(|threads| threads.iter().map(|thread| thread.cpu).collect::<CpuMask>()),
        stays_on: raw.was_on.filter(|cpu| *cpu == raw.now.last_cpu),
        nice: raw.now.nice,
        command: raw.now.command,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Rates;
    use crate::parse::{CpuLimit, Throttling};
    use crate::sample::{
        ProcessTimes, RawBusy, RawHeld, RawSockets, RawThread, RawThrottled, SocketQueue, ThreadTimes,
        Transport,
    };
    use crate::units::{CpuId, Fact};

    #[test]
    fn ticks_become_cpus() {
        let now = ProcessTimes {
            command: "web".into(),
            cpu_ticks: 9_000,
            began_ticks: 4,
            threads: 2,
            last_cpu: CpuId(1),
            nice: 0,
        };
        let spent = ThreadTimes { ran_ns: 4_950_000_000, waited_ns: 100_000_000 };
        let thread = |tid, cpu, runnable, spent| RawThread { tid, spent, cpu: CpuId(cpu), runnable };
        let busy = RawBusy {
            pid: 70,
            ticks: 750,
            now,
            was_on: Some(CpuId(1)),
            allowed: Fact::Unsupported,
            cpuset: Fact::Unsupported,
            threads: Fact::Known(vec![thread(70, 1, true, Some(spent)), thread(71, 3, false, None)]),
            sockets: Fact::Known(RawSockets {
                held: vec![RawHeld {
                    now: SocketQueue { transport: Transport::Udp, port: 53, queued: 900, dropped: 40 },
                    queued_before: 700,
                    dropped: 10,
                    unread: Fact::NotAsked,
                }],
                others: true,
            }),
            throttled: Some(RawThrottled {
                group: "/web".to_owned(),
                more: Throttling { periods: 50, throttled: 20, waited_us: 2_500_000 },
                limit: Some(CpuLimit { quota_us: 150_000, period_us: 100_000 }),
            }),
        };
        let other = RawBusy { was_on: Some(CpuId(0)), threads: Fact::NotAsked, ..busy.clone() };
        let found = Rates::empty(5.0).with_busiest(Fact::Known(vec![busy, other])).processes;
        let [first, second] = found.known().expect("known").as_slice() else { panic!("{found:?}") };
        assert_eq!((first.cpu, first.threads, first.stays_on), (1.5, 2, Some(CpuId(1))), "5 s");
        assert_eq!(
            (&first.runnable, &first.ran_on),
            (&Fact::Known(1), &Fact::Known("1,3".parse().expect("a list")))
        );
        assert_eq!((second.stays_on, &second.ran_on), (None, &Fact::NotAsked));
        let [thread] = first.each.as_slice() else { panic!("{first:?}") };
        assert_eq!((thread.tid, thread.cpu, thread.ran, thread.waited), (70, CpuId(1), 0.99, 0.02));
        let sockets = first.sockets.known().expect("told");
        assert_eq!(
            (sockets.held[0].queued_before, sockets.held[0].dropped, sockets.others),
            (700, 2.0, true)
        );
    }
}
