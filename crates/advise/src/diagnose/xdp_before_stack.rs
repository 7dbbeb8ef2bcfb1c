//! An XDP program, or the holder of a queue, takes packets of an interface before the network stack.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::model::{Model, Nic, NicRates, Rates, XdpMode};

/// Packets/s of the interface from which it matters where they go.
const PACKETS: f64 = 10_000.0;

/// Part of the packets that reach the stack of any CPU, at most.
const PART: f64 = 0.5;

/// Packets that GRO merges into one at most: 64 KiB of full frames.
const MERGED: f64 = 45.0;

/// Mean length in bytes below which packets carry too little for GRO to merge them: headers take half of it.
const SMALL: f64 = 128.0;

pub(super) const RULE: Rule = Rule {
    id: "xdp-before-stack",
    asks: "Are most packets of an interface taken before the network stack?",
    fires: || {
        format!(
            "a device has an XDP program in its driver, or a queue that AF_XDP or another interface holds, it receives \
             {} packets/s, and all CPUs together process fewer than {} of them; fewer than {} where GRO may have \
             merged them first; it does not merge packets below {SMALL:.0} bytes",
            count(PACKETS),
            percent(PART),
            percent(PART / MERGED)
        )
    },
    silent: "the CPUs process most packets, as the program only examines them or drops a few; it runs in generic mode, \
             where the stack has counted them before; or packets are not counted by CPU",
    evidence: "the program or the queues, packets/s of the device and of all CPUs",
    cause: "XDP runs in the driver, before a packet reaches the stack: packets that it drops, sends back or redirects \
            are in the counters of the device, not in those of the stack (softnet, sockets, firewall), and RPS and RFS \
            never see them. Their time is still softirq time of the CPU that polls the queue.",
    remedy: "Spread these packets by queues (channels, rss, ntuple_rule) and place their interrupts. RPS and RFS have no \
             effect on them, and packets/s of CPUs understate the load.",
    source: "Documentation/networking/af_xdp.rst; net/core/dev.c (generic XDP runs after RPS)",
    check: Check::Device(finding),
};

/// Packets that the stack may have counted as one.
fn merged_at_most(nic: &Nic, rates: &NicRates) -> f64 {
    let mut features = nic.hardware.features.known().into_iter().flatten();
    let is_off = features.any(|feature| feature.name == "rx-gro" && !feature.on);
    if is_off || rates.rx_bytes < SMALL * rates.rx_packets { 1.0 } else { MERGED }
}

/// The recipient of packets that do not reach the stack.
fn recipient(nic: &Nic) -> Option<String> {
    let program = nic.xdp.as_ref().filter(|xdp| xdp.mode != XdpMode::Generic);
    let held = nic.rx.iter().any(|queue| queue.held_by.is_some_and(|holder| holder.bypasses_stack()));
    match (program.map(|xdp| xdp.program), held) {
        (Some(Some(id)), _) => Some(format!("XDP program {id} takes")),
        (Some(None), _) => Some("XDP programs take".to_owned()),
        (None, true) => Some("holders of queues take".to_owned()),
        (None, false) => None,
    }
}

/// Packets/s that a device receives and that all CPUs process, if most of the former never reach the stack, with what
/// takes them: `XDP program 17 takes`.
struct Taken {
    recipient: String,
    received: f64,
    processed: f64,
}

impl Taken {
    fn from(nic: &Nic, rates: &Rates) -> Option<Self> {
        let recipient = recipient(nic)?;
        let processed: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
        let counted = rates.nic(&nic.name)?;
        let received = counted.rx_packets;
        let is_taken = processed < received * PART / merged_at_most(nic, counted);
        // Without counts by CPU nothing is known about the stack.
        (received >= PACKETS && processed > 0.0 && is_taken).then_some(Self {
            recipient,
            received,
            processed,
        })
    }

    fn in_words(&self, nic: &Nic) -> String {
        format!("{} most packets of {} before the stack", self.recipient, nic.name)
    }
}

/// Reason not to steer an interface whose packets never reach RPS and RFS.
pub(crate) fn before_steering(nic: &Nic, rates: &Rates) -> Option<String> {
    Taken::from(nic, rates).map(|taken| format!("{}: RPS and RFS never see them", taken.in_words(nic)))
}

fn finding(_model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let taken = Taken::from(nic, rates)?;
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        let all = seen.packets("packets", taken.received);
        let stack = seen.packets("processed", taken.processed);
        format!("{} receives {all} packets/s; all CPUs process {stack} packets/s, of any interface", nic.name)
    })];
    let held = nic.rx.iter().filter_map(|queue| Some(format!("rx-{} ({})", queue.index, queue.held_by?)));
    let held = held.collect::<Vec<_>>().join(", ");
    if !held.is_empty() {
        evidence.push(Evidence::fact(Subject::nic(nic), format!("held queues: {held}")));
    }
    Some(Finding {
        severity: Severity::Note,
        title: taken.in_words(nic),
        evidence,
        why: "the driver hands these packets over before the stack counts them: packets/s of CPUs understate the load"
            .to_owned(),
        remedy: "spread these packets by queues and place their interrupts; RPS and RFS have no effect on them"
            .to_owned(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::{Holder, Xdp, XdpMode};

    /// 500,000 packets/s of this many bytes.
    fn host(processed: f64, bytes: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 5e5);
        sketch.volume("eth0", 5e5 * bytes, 0.0).receives(0, 0.3, processed)
    }

    fn with_program(sketch: Sketch, mode: XdpMode) -> Sketch {
        sketch.edit("eth0", |nic| nic.xdp = Some(Xdp { mode, program: Some(17) }))
    }

    #[test]
    fn a_program_and_a_socket() {
        let found = with_program(host(2e4, 64.0), XdpMode::Driver).finding(&RULE);
        assert_eq!(found.title, "XDP program 17 takes most packets of eth0 before the stack");
        assert!(found.seen()[0].starts_with("eth0 receives 500,000 packets/s"), "{found:?}");
        let held = host(2e4, 64.0).edit("eth0", |nic| nic.rx[1].held_by = Some(Holder::AfXdp)).finding(&RULE);
        assert_eq!(held.title, "holders of queues take most packets of eth0 before the stack");
        assert_eq!(held.seen()[1], "held queues: rx-1 (AF_XDP)");
    }

    #[test]
    fn what_gro_merged_was_not_taken() {
        let large = |processed| with_program(host(processed, 1448.0), XdpMode::Driver);
        large(2e4).silent(&RULE, "25 segments each");
        assert_eq!(large(2e3).findings(&RULE).len(), 1, "more than GRO can merge");
        assert_eq!(large(2e4).offload("eth0", "rx-gro", false).findings(&RULE).len(), 1, "GRO is off");
    }

    #[test]
    fn near_misses() {
        let driver = |processed| with_program(host(processed, 64.0), XdpMode::Driver);
        host(2e4, 64.0).silent(&RULE, "no program");
        driver(4e5).silent(&RULE, "most packets pass");
        with_program(host(2e4, 64.0), XdpMode::Generic).silent(&RULE, "the stack counted them");
        driver(2e4).traffic("eth0", 5e3).silent(&RULE, "little traffic");
        let uring = host(2e4, 64.0).edit("eth0", |nic| nic.rx[1].held_by = Some(Holder::IoUring));
        uring.silent(&RULE, "its headers go through the stack");
    }
}
