//! Room that is left: of CPUs and of links.

use serde::{Deserialize, Serialize};

use super::{TRAFFIC, busy, receiving};
use crate::model::{CpuRates, Model, Nic, Rates};

/// Multiples of the current load that fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headroom {
    /// 1 / receive time (with hard interrupts) of the CPU with most of it: the scheduler can move everything
    /// but receive work away from that CPU. Below 1 in a prediction that exceeds the available time.
    pub hottest: f64,
    /// 1 / mean busy fraction of all CPUs, or of those that may take receive work if that is less. Spreading does not change it.
    pub machine: f64,
}

impl Headroom {
    /// Multiples of the current load that fit until a CPU is full of receive work, or the machine of all its
    /// work.
    pub fn fits(&self) -> f64 {
        self.hottest.min(self.machine)
    }
}

/// The current headroom of the machine, capped at 1000: an idle machine has no meaningful figure, and
/// JSON no infinity.
pub fn headroom(model: &Model, rates: &Rates) -> Headroom {
    let hottest = rates.cpus.iter().map(receiving).fold(0.0, f64::max);
    let (all_busy, cpus) = fullest(model, rates);
    Headroom { hottest: room(hottest), machine: room(all_busy / cpus) }
}

/// CPUs in use and their number: all, or only those that may take receive work if these are fuller on average.
pub fn fullest(model: &Model, rates: &Rates) -> (f64, f64) {
    let usable = model.usable();
    let among = |is_one: &dyn Fn(&CpuRates) -> bool| {
        let busy = rates.cpus.iter().filter(|cpu| is_one(cpu)).map(busy);
        busy.fold((0.0, 0.0), |(sum, cpus), busy| (sum + busy, cpus + 1.0))
    };
    let (all, own) = (among(&|_| true), among(&|cpu| usable.contains(cpu.cpu)));
    let mean = |(sum, cpus): (f64, f64)| if cpus > 0.0 { sum / cpus } else { 0.0 };
    if mean(own) > mean(all) { own } else { (all.0, all.1.max(1.0)) }
}

/// 1 / `load`, at most 1000; below 1 if the load exceeds the available time.
pub fn room(load: f64) -> f64 {
    1.0 / load.max(0.001)
}

/// Use of a link in its busier direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkUse {
    /// Direction in words: `sends` or `receives`.
    pub way: &'static str,
    /// The part of the speed, including the framing of each packet on the wire.
    pub part: f64,
    /// The speed in bits/s, as reported by the driver.
    pub speed: f64,
}

/// Part of the link's speed from which the link is full, and above which the reported speed is wrong.
pub const LINK: f64 = 0.90;
const BEYOND: f64 = 1.10;
/// Preamble, checksum and gap of a packet on the wire, in bytes: interfaces do not count them.
const WIRE: f64 = 24.0;

/// Use of a full link; `None` if it has room or hardly any traffic, or if its speed is unknown or made up.
pub fn full_link(nic: &Nic, rates: &Rates) -> Option<LinkUse> {
    let speed = f64::from(*nic.hardware.speed_mbits.known()?) * 1e6;
    let traffic = rates.nic(&nic.name)?;
    let rx = (traffic.rx_bytes + traffic.rx_packets * WIRE) * 8.0 / speed;
    let tx = (traffic.tx_bytes + traffic.tx_packets * WIRE) * 8.0 / speed;
    let (way, part, packets) =
        if tx > rx { ("sends", tx, traffic.tx_packets) } else { ("receives", rx, traffic.rx_packets) };
    ((LINK..BEYOND).contains(&part) && packets >= TRAFFIC).then_some(LinkUse { way, part, speed })
}
