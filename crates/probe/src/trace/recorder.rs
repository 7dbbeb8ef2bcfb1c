//! The programs that send events: attached during the trace, their ring buffer read.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use super::event::Event;
use super::{TraceError, TraceOptions};
use crate::Cost;
use crate::loaded::{Loaded, RarePrograms, possible_cpus};
use crate::programs::{now_ns, since_attached};
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::Host;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));

/// `enum tells` of the program.
#[derive(Debug, Clone, Copy)]
enum Tells {
    Wakeups = 1,
    Everything = 2,
}

/// Events read between two clock readings: reading must end although events keep coming.
const AT_A_TIME: usize = 1 << 12;

/// Records read from the ring and not yet processed; an invalid record is its length.
type Taken = Rc<RefCell<Vec<Result<Event, usize>>>>;

/// Attached programs that send events.
#[derive(Debug)]
pub(super) struct Recorder {
    // Mapped once: mapping it for each reading would make the traced machine fault its pages again.
    ring: RingBuffer<'static>,
    taken: Taken,
    loaded: Loaded,
    cpus: u32,
    pub(super) began: u64,
}

impl Recorder {
    /// Attaches the programs and turns on their events.
    pub(super) fn start(host: &dyn Host, options: &TraceOptions) -> Result<Self, TraceError> {
        let cpus = possible_cpus()?;
        let loaded = Loaded::attach(host, OBJECT, true, RarePrograms::NONE, |map| match map {
            "cpus" => Some(cpus),
            "events" => Some(options.buffer),
            _ => None,
        })?;
        let map = loaded.map("cpus");
        let began = now_ns();
        for cpu in 0..cpus {
            let all = options.cpus.as_ref().is_none_or(|wanted| wanted.contains(CpuId(cpu)));
            let tells = if all { Tells::Everything } else { Tells::Wakeups };
            // `struct cpu`: its mode, the number of lost events, and padding up to the next cache line.
            let mut value = [0; 64];
            value[..4].copy_from_slice(&(tells as u32).to_ne_bytes());
            map.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)?;
        }
        let taken = Taken::default();
        let ring = ring(&loaded, Rc::clone(&taken))?;
        Ok(Self { ring, taken, loaded, cpus, began })
    }

    /// Reads the waiting events, up to a limit that bounds the time. Returns true if there may be more.
    pub(super) fn read(&self, mut each: impl FnMut(Event) -> io::Result<()>) -> Result<bool, TraceError> {
        let count = self.ring.consume_raw_n(AT_A_TIME);
        for event in self.taken.borrow_mut().drain(..) {
            each(event.map_err(TraceError::Record)?).map_err(TraceError::Output)?;
        }
        match usize::try_from(count) {
            Ok(count) => Ok(count >= AT_A_TIME),
            Err(_) => Err(libbpf_rs::Error::from_raw_os_error(-count).into()),
        }
    }

    /// Ends the programs' work, and returns when, and the events lost until then by CPU. Detaching takes a
    /// while and causes many interrupts: events after that moment are not part of the trace.
    pub(super) fn stop(&mut self) -> Result<(u64, BTreeMap<CpuId, u32>), TraceError> {
        let ended = now_ns();
        let lost = self.lost()?;
        self.loaded.detach();
        Ok((ended, lost))
    }

    fn lost(&self) -> Result<BTreeMap<CpuId, u32>, TraceError> {
        let map = self.loaded.map("cpus");
        let mut lost = BTreeMap::new();
        for cpu in 0..self.cpus {
            let value = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?;
            let number = value.as_deref().and_then(|value| value.get(4..8)?.try_into().ok());
            let number = number.map(u32::from_ne_bytes).expect("an array has each element, of its own size");
            lost.insert(CpuId(cpu), number);
        }
        Ok(lost)
    }

    /// CPU time of the programs.
    pub(super) fn cost(&self) -> Fact<Cost> {
        since_attached(self.loaded.cost())
    }

    /// Distinctions that this kernel does not allow.
    pub(super) fn limits(&self) -> Vec<String> {
        self.loaded.limits()
    }
}

/// The ring of these programs; its records go to `taken` whenever it is read.
fn ring(loaded: &Loaded, taken: Taken) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let events = loaded.map("events");
    let mut builder = RingBufferBuilder::new();
    builder.add(&events, move |bytes: &[u8]| {
        taken.borrow_mut().push(Event::parse(bytes).ok_or(bytes.len()));
        0
    })?;
    builder.build()
}

/// Maximum delay, in nanoseconds behind the latest event, at which an event still finds its place. Only a CPU
/// that the hypervisor took away takes longer between the clock and the ring, and such a CPU has
/// no other events meanwhile: its own order is never wrong.
const HORIZON: u64 = 10_000_000;

/// Sorts events by time: keeps them until no earlier one is expected. They arrive almost sorted: an event's time is taken
/// before its room in the ring buffer, and an interrupt, another CPU or the hypervisor may come between the two.
#[derive(Debug, Default)]
pub struct Order {
    // The number keeps events of the same time in the order in which they came.
    waiting: BinaryHeap<Reverse<(u64, u64, Event)>>,
    came: u64,
    latest: u64,
}

impl Order {
    pub fn push(&mut self, event: Event) {
        self.latest = self.latest.max(event.at);
        self.came += 1;
        self.waiting.push(Reverse((event.at, self.came, event)));
    }

    /// The next event that is old enough.
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse((at, ..)) = self.waiting.peek()?;
        if at.saturating_add(HORIZON) > self.latest { None } else { self.rest() }
    }

    /// The next event when no more will come.
    pub fn rest(&mut self) -> Option<Event> {
        self.waiting.pop().map(|Reverse((.., event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::{HORIZON, Order};
    use crate::trace::event::{Event, Kind};
    use rxlab_base::units::CpuId;

    fn event(at: u64, cpu: u32) -> Event {
        Event { at, cpu: CpuId(cpu), lost: 0, kind: Kind::IpiEntry }
    }

    #[test]
    fn an_event_waits_until_no_earlier_one_can_come() {
        let mut order = Order::default();
        for event in [event(50, 1), event(10, 0), event(50, 0)] {
            order.push(event);
        }
        assert_eq!(order.pop(), None);
        order.push(event(10 + HORIZON, 0));
        assert_eq!(order.pop(), Some(event(10, 0)));
        assert_eq!(order.pop(), None);
        let rest: Vec<Event> = std::iter::from_fn(|| order.rest()).collect();
        assert_eq!(rest, [event(50, 1), event(50, 0), event(10 + HORIZON, 0)]);
    }
}
