//! A driver other than virtio, and a reader without full access.

use rxlab_base::units::{Fact, Need};
use rxlab_path::model::{Function, Hardware, Model, NicKind, Source};

use super::guest;
use super::interrupts::{Path, are_where_shown, irq};
use crate::process::Ended;

const PATH: Path = Path { nic: 0, queue: 0, cpu: 0 };

/// An unprivileged user reads twice: first with the default file modes, then without access to some files.
const JOB: &str = r"
nobody() { su nobody -s /bin/sh -c 'rxlab show '$1; }
ran root rxlab show --json
ran nobody nobody --json
rxlab snapshot --unredacted --for 1s -o /tmp/guest.tar.zst >&2
rxlab show --json >/tmp/live
rxlab show --json --snapshot /tmp/guest.tar.zst >/tmp/recorded
ran same cmp /tmp/live /tmp/recorded
ran doctor rxlab doctor --snapshot /tmp/guest.tar.zst
irq=$(sed -n 's/^ *\([0-9]*\):.*eth0-rx-0$/\1/p' /proc/interrupts)
chmod 600 /proc/irq/$irq/*affinity* /sys/class/net/eth0/queues/rx-0/rps_*
ran denied nobody --json
ran 'denied text' nobody
";

#[test]
fn an_intel_nic_is_shown_as_far_as_it_is_readable() {
    let Some(answer) = guest::run("e1000e", &[&PATH.job(), JOB].concat(), None) else { return };
    let model = answer.model("root");
    let nic = &model.nics[0];
    assert_eq!((nic.name.as_str(), nic.kind), ("eth0", NicKind::Device));
    assert_eq!((nic.driver.as_deref(), nic.up), (Some("e1000e"), true));
    let [queue] = nic.rx.as_slice() else { panic!("{nic:?}") };
    assert_eq!(irq(queue).action, "eth0-rx-0");
    let others: Vec<&str> = nic.other_irqs.iter().map(|irq| irq.action.as_str()).collect();
    assert_eq!(others, ["eth0-tx-0", "eth0"]);
    are_where_shown(&answer, &model, &[PATH]);

    answer.ran("same").exits(0);
    let (code, text) = answer.ran("doctor");
    assert!(code == 0 && text.starts_with("no traffic in this recording"), "{text}");

    let rx = |hardware: &Hardware| hardware.rings.known().and_then(|rings| rings.rx);
    assert_eq!(rx(&nic.hardware).map(|ring| (ring.now, ring.max)), Some((256, 4096)));
    let held_back = nic.hardware.coalesce.known().and_then(|coalesce| coalesce.rx_usecs);
    assert_eq!(held_back, Some(3), "the driver's adaptive moderation calls itself so");
    let driver = nic.hardware.driver.known().expect("every driver has a name");
    assert_eq!((driver.driver.as_str(), nic.hardware.function.clone()), ("e1000e", Function::Plain));
    assert_eq!(queue.napi, None, "6.1 has no netdev netlink");
    assert_eq!(queue.irqs[0].source, Source::MsiName);

    let mut wanted: Model = model.clone();
    let nobody = answer.model("nobody");
    // The owners of namespaces and sockets require CAP_SYS_PTRACE; everything else is readable by everyone.
    assert_eq!(nobody.namespaces, Fact::Denied(Need::SysPtrace));
    wanted.namespaces = nobody.namespaces.clone();
    wanted.all_namespaces_seen = nobody.all_namespaces_seen.clone();
    assert_eq!(nobody, wanted);
    let queue = &mut wanted.nics[0].rx[0];
    (queue.rps_cpus, queue.rps_flow_cnt) = (Fact::Denied(Need::Root), Fact::Denied(Need::Root));
    (queue.irqs[0].affinity, queue.irqs[0].effective) = (Fact::Denied(Need::Root), Fact::Denied(Need::Root));
    assert_eq!(answer.model("denied"), wanted, "an unreadable value is not 0");
    let (code, text) = answer.ran("denied text");
    let row = text.lines().find(|line| line.starts_with("eth0")).unwrap_or_else(|| panic!("{text}"));
    assert!(code == 0 && row.matches("needs root").count() == 3, "{text}");
}
