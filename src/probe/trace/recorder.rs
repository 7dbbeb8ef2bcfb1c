//! The programs that send events: attached during the trace, their ring buffer read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use super::event::Event;
use super::{TraceError, TraceOptions};
use crate::host::Host;
use crate::probe::Cost;
use crate::probe::loaded::{Loaded, RarePrograms, possible_cpus};
use crate::probe::programs::{now_ns, since_attached};
use crate::units::{CpuId, Fact};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));

/// `enum tells`.
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
    /// Start time.
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
