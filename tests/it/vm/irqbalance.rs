//! A real irqbalance next to rxlab: pinned interrupts stay in place, and irqbalance gets them back.

use super::guest;
use crate::process::Ended;

/// irqbalance runs every second and has a reason to move interrupts: pings from another CPU each time. `seen` lists
/// every placement of the interrupts within a minute.
const JOB: &str = r"
mkdir -p /run
irqbalance --foreground -t 1 >/dev/null 2>&1 &
sleep 5
irqs() { sed -n 's/^ *\([0-9]*\):.*virtio[0-9]*-input.*$/\1/p' /proc/interrupts; }
places() { for irq in $(irqs); do cat /proc/irq/$irq/smp_affinity_list; done | tr '\n' ' '; }
work() { for cpu in 0 1 2 3; do taskset -c $cpu ping -A -q -c 200 10.98.0.1 >&2; done; }
ran before rxlab show --json
ran apply rxlab apply --setting 'irqbalance eth0 = banned' --setting 'irq_affinity eth0/rx-0 = 3' \
    --setting 'irq_affinity eth0/rx-1 = 3' --setting 'irq_affinity eth0/rx-2 = 3' \
    --setting 'irq_affinity eth0/rx-3 = 3'
begin=$(cut -d. -f1 /proc/uptime)
while [ $(($(cut -d. -f1 /proc/uptime) - begin)) -lt 60 ]; do
    work
    places
    echo
    sleep 1
done >/tmp/seen
part seen
sort -u /tmp/seen
ran status rxlab status
ran undo rxlab undo
ran after rxlab show --json
# Nothing is pinned any more, and irqbalance moves what works.
for irq in $(irqs); do echo 3 >/proc/irq/$irq/smp_affinity_list; done
tries=0
while [ $tries -lt 60 ] && [ $(places | tr ' ' '\n' | grep -c '^3$') = 4 ]; do
    work
    sleep 1
    tries=$((tries + 1))
done
part moved
places
";

#[test]
fn pinned_interrupts_stay_in_place() {
    let Some(answer) = guest::run_with(&["irqbalance"], "4cpu-knobs", JOB, None) else { return };
    let banned = |name: &str| {
        let irqbalance = answer.model(name).irqbalance;
        irqbalance.known().cloned().flatten().expect("it runs").banned_irqs
    };
    answer.ran("apply").exits(0);
    assert_eq!(answer.part("seen").trim(), "3 3 3 3", "within a minute");
    answer.ran("status").exits(0);
    answer.ran("undo").exits(0);
    assert_eq!(banned("after"), banned("before"), "irqbalance has them back");
    assert_ne!(answer.part("moved").trim(), "3 3 3 3", "and moves them");
}
