//! Load of the machine, and where it is not seen.

use super::{CpuUse, Elsewhere, Load};
use crate::diagnose::{host_limit, thread_room};
use rxlab_base::number::percent;
use rxlab_path::evidence::{
    TRAFFIC, busy, headroom, loopback_share, receive_time, received, through_lo, tier,
};
use rxlab_path::ledger::Ledger;
use rxlab_path::model::{Model, Nic, NicKind, Rates};

/// Reason for no verdict on steering: receive time is not visible, or is the sender's.
pub(super) fn refused(model: &Model, rates: &Rates) -> Option<String> {
    if let Some(why) = &rates.masked {
        return Some(format!("CPU times are unknown: {why}"));
    }
    let unseen = rates.unseen.first();
    let unseen =
        unseen.map(|nic| format!("packets of {nic} are received by threads whose time is not visible"));
    unseen.or_else(|| {
        let share = percent(loopback_share(model, rates)?);
        Some(format!(
            "{share} of the packets are on lo, which receives inside the sender's system call, and no device accounts \
             for the busiest CPU"
        ))
    })
}

/// Packets per second that go up the stack, and neither an interface of this namespace nor `lo` receives.
pub(super) fn elsewhere(model: &Model, rates: &Rates, is_refused: bool) -> Option<Elsewhere> {
    let all: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let here = received(model, rates);
    let packets = all - here - through_lo(model, rates);
    (!is_refused && here < TRAFFIC && packets >= TRAFFIC).then_some(Elsewhere {
        packets,
        place: None,
        next: None,
    })
}

pub(super) fn load(model: &Model, rates: &Rates) -> Load {
    let busiest = rates.cpus.iter().max_by(|a, b| receive_time(a).total_cmp(&receive_time(b)));
    let is_counted = !rates.uncounted && busiest.is_some();
    let ledger = Ledger::new(model, rates);
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let packets = |nic: &Nic| rates.rx_packets(&nic.name);
    Load {
        busiest: busiest.map(|cpu| cpu.cpu),
        receive_time: busiest.map(receive_time),
        cpus: rates
            .cpus
            .iter()
            .map(|cpu| CpuUse {
                cpu: cpu.cpu,
                receive: receive_time(cpu),
                busy: busy(cpu).max(receive_time(cpu)),
            })
            .collect(),
        tier: tier(rates).to_owned(),
        received: received(model, rates),
        packets: is_counted.then(|| rates.cpus.iter().map(|cpu| cpu.packets).sum()),
        dropped: ledger.per_second,
        ledger,
        headroom: busiest.map(|_| headroom(model, rates)),
        unseen: rates.unseen.clone(),
        host_limit: devices
            .max_by(|a, b| packets(a).total_cmp(&packets(b)))
            .and_then(|nic| host_limit(rates, nic)),
        thread: thread_room(model, rates),
    }
}
