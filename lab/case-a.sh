#!/bin/sh
# Field case A in miniature, on a real driver with a real interrupt: 8 CPUs, one virtio queue, its
# interrupt on CPU 2. UDP traffic comes through a tap; in the guest rxlab finds the hotspot, applies
# the plan, looks again, and puts everything back. Root, about two minutes with the build.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=x86_64-unknown-linux-gnu
out=$here/../target/static

# The guest has no C library: the program that runs there is linked statically.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --locked --target $target --target-dir "$out"
rxlab=$out/$target/release/rxlab

job=$(mktemp)
trap 'rm -f "$job"' EXIT
cat > "$job" <<'JOB'
export NO_COLOR=1 RXLAB_STATE_DIR=/tmp/state
mkdir -p /tmp
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 4 > /proc/irq/$irq/smp_affinity
/job/rxlab target --udp-sink 10.98.0.2:9000 --for 90s > /dev/null 2>&1 &
sleep 4
run() { echo; echo "# rxlab $*"; /job/rxlab "$@"; }
run doctor --for 5s --plan-out rps=/tmp/rps.toml
run apply /tmp/rps.toml
run doctor --for 5s
run undo
run show --nic eth0
JOB

# The traffic waits until the guest's sink is there; it ends with the guest.
export RXLAB_LAB_PEER="sleep 8; exec '$rxlab' load udp-sink://10.98.0.2:9000 --flows 64 --for 90s"
"$here/vm.sh" 8cpu-1queue "$job" "$rxlab"
