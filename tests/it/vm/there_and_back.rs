//! All settings at once under traffic, on real drivers, and undone: the machine is restored.

use super::guest;
use crate::process::Ended;

/// Everything that rxlab can set on this machine, as shown by the kernel, without counters.
const STATE: &str = r#"
# Where an interrupt goes follows its affinity only when it next fires, and where a process ran is a count.
shown() { rxlab show --json "$@" | sed '/"effective": {/,/}/d; /"ran_on": {/,/}/d'; }
state() {
    for file in /proc/irq/*/smp_affinity /sys/class/net/eth*/queues/*/* /sys/class/net/eth*/napi_defer_hard_irqs \
        /sys/class/net/eth*/gro_flush_timeout /sys/class/net/eth*/threaded /proc/sys/net/core/netdev_* \
        /proc/sys/net/core/rps_sock_flow_entries; do
        [ ! -f "$file" ] || echo "$file $(cat "$file" 2>/dev/null)"
    done
    shown
}
"#;

/// Each step is a separate transaction. `arrived` has the packets received by the NIC, to verify that traffic flowed
/// all the time.
const JOB: &str = r#"
arrived() { part $1; cat /sys/class/net/eth0/statistics/rx_packets; }
rxlab target --udp-sink 10.98.0.2:9000 --for 300s >/dev/null 2>&1 &
sleep 2
# The peer begins when it knows where to send to.
ping -c 1 10.98.1.1 >&2
ping -c 1 10.98.0.1 >&2
sleep 3
state >/tmp/before
rxlab snapshot --unredacted --for 1s -o /tmp/before.tar.zst >&2
arrived first
virtio=$(basename "$(readlink -f /sys/class/net/eth0/device)")
ran pins rxlab apply --setting 'irq_affinity eth0/rx-0 = 3' --setting 'irq_affinity eth0/rx-1 = 2' \
    --setting 'irq_affinity eth0/rx-2 = 1' --setting 'irq_affinity eth0/rx-3 = 0' \
    --setting 'irq_affinity eth0/tx-0 = 2' --setting "irq_affinity eth0/irq-$virtio-config = 1" \
    --setting 'irq_affinity eth1/tx-0 = 3' --setting 'irq_affinity eth1/irq-eth1 = 2' \
    --setting 'xps_cpus eth0/tx-0 = 3' --setting 'rps eth0/rx-0 = 0-2' --setting 'rps eth0/rx-3 = 1-3' \
    --setting 'rfs_entries host = 4096' --setting 'rfs eth0/rx-0 = 1024'
ran fewer rxlab apply --setting 'channels eth0 = 2'
ran shown rxlab show --json
ran more rxlab apply --setting 'channels eth0 = 4'
ran moderated rxlab apply --setting 'rx_usecs eth1 = 100' --setting 'ring_rx eth1 = 512'
ran others rxlab show --json
ran status rxlab status
arrived between
ran undo rxlab undo
# The link of eth1 comes back after seconds. The carrier is off at once, the operational state follows later.
tries=0
up() { grep -q 1 /sys/class/net/eth1/carrier && grep -q up /sys/class/net/eth1/operstate; }
until up || [ $tries = 30 ]; do
    sleep 1
    tries=$((tries + 1))
done
state >/tmp/after
arrived last
rxlab snapshot --unredacted --for 1s -o /tmp/after.tar.zst >&2
ran same diff /tmp/before /tmp/after
shown --snapshot /tmp/before.tar.zst >/tmp/before.json
shown --snapshot /tmp/after.tar.zst >/tmp/after.json
ran snapshots diff /tmp/before.json /tmp/after.json
ran unconfirmed rxlab apply --confirm 10s --setting 'rps eth0/rx-1 = 1'
date -s '2040-01-01 00:00:00' >&2
sleep 1
part jumped
cat /sys/class/net/eth0/queues/rx-1/rps_cpus
date -s '1999-01-01 00:00:00' >&2
sleep 15
part late
cat /sys/class/net/eth0/queues/rx-1/rps_cpus
"#;

#[test]
fn all_settings_are_restored_under_traffic() {
    let Some(answer) = guest::run("4cpu-knobs", &[STATE, JOB].concat(), Some(&guest::flood(16, 500))) else {
        return;
    };
    for step in ["pins", "fewer", "more", "moderated"] {
        answer.ran(step).exits(0);
    }
    // The driver redistributes its interrupts and XPS; the settings are applied again. The interrupts move when they
    // next fire.
    let shown = answer.model("shown");
    let queues = &shown.nics[0].rx;
    let places: Vec<String> = queues
        .iter()
        .map(|queue| queue.irqs[0].affinity.known().map(ToString::to_string).unwrap_or_default())
        .collect();
    assert_eq!(places, ["3", "2"], "{}", answer.part("fewer"));
    assert_eq!(queues[0].rps_cpus.known().map(ToString::to_string).as_deref(), Some("0-2"));
    // After 4, 2 and 4 queues, and other ring sizes.
    let shown = answer.model("others");
    for (nic, name, cpu) in [(0, "-output.0", "2"), (0, "-config", "1"), (1, "-tx-0", "3"), (1, "eth1", "2")]
    {
        let mut named = shown.nics[nic].other_irqs.iter().filter(|irq| irq.action.ends_with(name));
        let place = named.next().and_then(|irq| irq.affinity.known()).map(ToString::to_string);
        assert_eq!(place.as_deref(), Some(cpu), "eth{nic}: {name}");
    }
    answer.ran("undo").exits(0);
    for same in ["same", "snapshots"] {
        answer.ran(same).exits(0);
    }
    // The deadline is not a time of day.
    answer.ran("unconfirmed").exits(0);
    assert_eq!((answer.part("jumped").trim(), answer.part("late").trim()), ("2", "0"));
    let arrived = |name: &str| answer.part(name).trim().parse::<u64>().expect("a number");
    let (first, between, last) = (arrived("first"), arrived("between"), arrived("last"));
    assert!(first + 50 < between && between + 50 < last, "no traffic: {first}, {between}, {last}");
}
