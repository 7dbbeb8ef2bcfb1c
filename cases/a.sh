#!/bin/sh
# Field case A, the tracker host: 8 CPUs, one queue, its interrupt on CPU 2 (docs/cases/a.md).
. "$(dirname "$0")/common.sh"

cat >"$out/job.sh" <<'JOB'
export RXLAB_STATE_DIR=/var/state
mkdir -p /out
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 4 >"/proc/irq/$irq/smp_affinity"
rxlab target --udp-sink 10.98.0.2:9000 --for 90s >/dev/null 2>&1 &
sleep 2
ping -c 1 10.98.0.1 >&2
sleep 4
rxlab doctor --for 5s --json >/out/doctor.json || :
tar -cz -C /out .
JOB

# The traffic waits for the guest's first packet, sent when its sink is ready, and ends with the guest.
export RXLAB_LAB_PEER="until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
    exec '$rxlab' load udp-sink://10.98.0.2:9000 --flows 64 --for 90s"
[ -z "$no_op" ] || RXLAB_LAB_PEER=''
say "a guest of 8 CPUs and one queue"
vm 8cpu-1queue "$out/job.sh"
conclude hotspot "CPU 2" \
    "$(jq -r '[.findings[] | select(.id == "one-core-hotspot") | "CPU \(.cpu)"] | first // "none"' "$out/doctor.json")"
exit $missed
