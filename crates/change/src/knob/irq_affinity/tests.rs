//! Queues with several interrupts, interrupts of no receive queue, one that is being moved, and errnos.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{IrqAffinity, Knob};
use crate::knob::testbed::{model, read, refusal, target, write};
use rxlab_base::error::Kind;
use rxlab_base::units::{IrqId, Need};
use rxlab_path::model::{Fact, Irq, Model};
use rxlab_sys::{Cause, Host, HostError, Operation, RecordedHost};

/// An interrupt that moves: one read shows a wrong affinity.
struct Moving {
    inner: RecordedHost,
    shows: (u32, &'static [u8]),
    looks: AtomicU32,
}

impl Host for Moving {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let (at, mask) = self.shows;
        if self.looks.fetch_add(1, Ordering::SeqCst) == at {
            Ok(mask.to_vec())
        } else {
            self.inner.read(path)
        }
    }

    rxlab_sys::pass_on!([inner] write, list, link, query, act, now_ns);
}

/// A guest once showed an empty affinity in the middle of a move, and a whole plan was reverted for it.
#[test]
fn an_affinity_that_is_just_being_moved_is_looked_at_again() {
    let host = Moving { inner: host(), shows: (0, b"00\n"), looks: AtomicU32::new(0) };
    assert_eq!(read(&IrqAffinity, &host, "eth0/rx-0").as_deref(), Ok("0"));
    assert_eq!(host.looks.into_inner(), 2);
}

/// Under traffic, another showed the old one again after the write.
#[test]
fn a_write_ends_when_the_new_affinity_is_shown() {
    let host = Moving { inner: host(), shows: (1, b"01\n"), looks: AtomicU32::new(0) };
    write(&IrqAffinity, &host, "eth0/rx-0", "2").expect("written");
    // Before the write, the old one after it, the new one.
    assert_eq!(host.looks.into_inner(), 3);
    assert_eq!(host.inner.read_text("proc/irq/24/smp_affinity").as_deref(), Ok("4"));
}

/// Queue rx-1 of the test machine has the interrupts 25 and 26.
fn host() -> RecordedHost {
    RecordedHost::new()
        .with("proc/irq/24/smp_affinity", "01\n")
        .with("proc/irq/25/smp_affinity", "01\n")
        .with("proc/irq/26/smp_affinity", "0c\n")
        .with("proc/irq/24/effective_affinity", "01\n")
}

#[test]
fn several_interrupts_are_one_value() {
    let read = |at: &str| read(&IrqAffinity, &host(), at).expect("a value");
    assert_eq!(read("eth0/rx-0"), "0");
    assert_eq!(read("eth0/rx-1"), "0;2-3");
}

#[test]
fn a_mix_of_our_values_is_ours() {
    let ours = ["0;2-3".to_owned(), "5".to_owned()];
    let left = |live: &str| IrqAffinity.left_by(&ours, &[], live);
    assert!(left("0;2-3") && left("5") && left("5;2-3") && left("0;5"));
    assert!(!left("0;4") && !left("6"));
}

#[test]
fn a_new_interrupt_has_the_default_or_every_cpu() {
    let host =
        host().with("proc/irq/default_smp_affinity", "ff\n").with("sys/devices/system/cpu/online", "0-6\n");
    let fresh = |value: &str| IrqAffinity.is_fresh(&host, value);
    assert!(fresh("0-7") && fresh("0-6") && fresh("0-6;0-7"));
    assert!(!fresh("0-5") && !fresh("0-6;3"));
    assert!(!IrqAffinity.is_fresh(&RecordedHost::new(), "x"), "nothing is like nothing");
    assert_eq!(IrqAffinity.cpus("0;2-3"), Some("0,2-3".parse().expect("a list")));
}

#[test]
fn an_interrupt_that_has_not_moved_is_remarked_on() {
    let remark =
        |at: &str, value: &str| IrqAffinity.remark(IrqAffinity.site(&host(), &model(), &target(at)), value);
    assert_eq!(
        remark("eth0/rx-0", "2").as_deref(),
        Some("CPU 0 still takes interrupt 24, which moves when it next fires")
    );
    assert_eq!(remark("eth0/rx-0", "0-1"), None);
    assert_eq!(remark("eth0/rx-1", "5"), None, "no such file");
}

#[test]
fn a_virtual_interface_has_no_interrupt() {
    assert_eq!(
        refusal(&IrqAffinity, &RecordedHost::new(), "veth0/rx-0", "1"),
        "no interrupt of veth0/rx-0 found: a virtual interface takes packets on the sender's CPU; use rps to move them"
    );
    assert!(IrqAffinity.targets(&model()).iter().all(|t| t.to_string().starts_with("eth0/")));
}

/// Of `eth0` below, 27 belongs to a queue that is not in use.
/// A masked, cut or unreadable list once meant "has no interrupt".
#[test]
fn interrupts_that_cannot_be_read_are_unknown() {
    let why = "/proc/interrupts is empty: masked, as in a container";
    for (fact, kind, text) in [
        (
            Fact::Broken(why.to_owned()),
            Kind::Failed,
            format!("the interrupts of eth0/rx-0 are unknown: {why}"),
        ),
        (
            Fact::Denied(Need::Root),
            Kind::Denied,
            "cannot read /proc/interrupts: permission denied (needs root)".to_owned(),
        ),
    ] {
        let mut model = Model { interrupts: fact, ..model() };
        model.nics[0].rx[0].irqs.clear();
        let target = target("eth0/rx-0");
        let error = IrqAffinity.check(IrqAffinity.site(&host(), &model, &target), "0").expect_err("unknown");
        assert_eq!((error.to_string(), error.kind()), (text, kind));
    }
}

#[test]
fn interrupts_of_transmit_queues_and_of_the_device() {
    let mut model = model();
    model.nics[0].driver = Some("virtio_net".to_owned());
    for (number, name) in [(28, "virtio0-output.1"), (30, "virtio0-config"), (29, "virtio0-config")] {
        let irq = Irq { number: IrqId(number), action: name.to_owned(), ..Irq::default() };
        model.nics[0].other_irqs.push(irq);
    }
    let targets: Vec<String> = IrqAffinity.targets(&model).iter().map(ToString::to_string).collect();
    assert_eq!(targets, ["eth0/rx-0", "eth0/rx-1", "eth0/tx-1", "eth0/irq-virtio0-config"]);
    let host = host();
    let irqs = |at: &str| super::irqs(IrqAffinity.site(&host, &model, &target(at)));
    assert_eq!(irqs("eth0/tx-1"), Ok(vec![IrqId(28)]));
    assert_eq!(irqs("eth0/irq-virtio0-config"), Ok(vec![IrqId(29), IrqId(30)]));
    for (at, why) in [
        (
            "eth0/tx-0",
            "no interrupt of eth0/tx-0 found: it has none of its own; a receive queue's interrupt may serve it \
             too",
        ),
        ("eth0/tx-2", "eth0 has no queue tx-2 (it has tx-0, tx-1)"),
        (
            "eth0/irq-virtio0-input.27",
            "no interrupt of eth0/irq-virtio0-input.27 found: apart from those of its queues, eth0 has: \
             virtio0-config; many drivers request theirs only while the interface is up",
        ),
        (
            "eth0",
            "irq_affinity acts on a queue or an interrupt (NIC/rx-N, NIC/tx-N, NIC/irq-NAME), not on eth0",
        ),
    ] {
        assert_eq!(irqs(at).expect_err(at).to_string(), why);
    }
}

#[test]
fn each_errno_says_what_it_means() {
    let says = |cause: Cause| {
        let error = HostError::new(Operation::Write, "proc/irq/24/smp_affinity", cause);
        let (host, model, target) = (host(), model(), target("eth0/rx-0"));
        let site = IrqAffinity.site(&host, &model, &target);
        site.failed(Some("2"), &error, super::DENIED, super::MEANINGS).to_string()
    };
    for (errno, meaning) in [
        (5, "the kernel manages this interrupt itself"),
        (22, "none of these CPUs is online"),
        (75, "this kernel has no such CPU"),
        (28, "these CPUs have no free interrupt vectors"),
        (16, "it is busy"),
        (11, "it is busy"),
        (12, "not enough memory"),
    ] {
        let text = says(Cause::Errno(errno));
        assert!(text.starts_with("irq_affinity eth0/rx-0 = 2: the kernel rejected it: "), "{text}");
        assert!(text.contains(meaning), "{errno}: {text}");
    }
    assert!(says(Cause::Denied).contains("manages this interrupt itself"));
    let error = host().write("proc/irq/99/smp_affinity", b"1").expect_err("does not exist");
    assert_eq!(error.cause, Cause::Missing);
}
