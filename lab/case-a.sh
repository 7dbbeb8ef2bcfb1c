#!/bin/sh
# A one-core hotspot, on a real driver with a real interrupt: 8 CPUs, one virtio queue, its
# interrupt on CPU 2. UDP traffic comes through a tap; in the guest rxlab finds the hotspot, predicts the
# effect of the plan, applies it, samples again, and undoes everything. Needs root; takes about a minute
# after the build.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

cargo build --quiet --release --locked --manifest-path "$here/../Cargo.toml" --target-dir "$here/../target"
rxlab=$here/../target/release/rxlab

job=$(mktemp)
trap 'rm -f "$job"' EXIT
trap 'exit 130' INT TERM
cat >"$job" <<'JOB'
export RXLAB_STATE_DIR=/tmp/state
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 4 >"/proc/irq/$irq/smp_affinity"
rxlab target --udp-sink 10.98.0.2:9000 --for 90s >/dev/null 2>&1 &
sleep 2
ping -c 1 10.98.0.1 >&2
sleep 4
run() { echo; echo "# rxlab $*"; rxlab "$@"; }
run doctor --for 5s --plan-out rps=/tmp/rps.toml
run plan rps --nic eth0 --predict --for 5s
run apply /tmp/rps.toml
run doctor --for 5s
run interference --for 5s
run undo
run show
JOB

# The traffic waits for the guest's first packet, sent when its sink is ready, and ends with the guest.
export RXLAB_LAB_PEER="until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
    exec '$rxlab' load udp-sink://10.98.0.2:9000 --flows 64 --for 90s"
# Spreading work helps only CPUs that run in parallel. Such a guest may hang at boot: try again.
export RXLAB_LAB_THREADS=multi RXLAB_LAB_SECONDS="${RXLAB_LAB_SECONDS:-180}"
"$here/vm" --rxlab "$rxlab" 8cpu-1queue "$job"
