#!/bin/bash
# The noise of this machine under three loads, recorded by trials in which nothing is changed.
#
#   bench/noise.sh [--pairs N] [--runs N] [--program FILE] [--redraw FILE] [--out FILE]
#
# nginx in a closed loop, nginx at a fixed rate that it keeps, UDP echo in a closed loop: server on CPU 1, load on CPU 0,
# slots of 500 ms after 100 ms, 300 of each load. Both arms are the command `true`. bench/noise.rs re-draws the coins over the
# slots, as is and with arm B multiplied by 1.03, 1.05 and 1.1. It takes about twelve minutes on a machine that is otherwise
# idle, and needs nginx and the release build.
set -euo pipefail

cd "$(dirname "$0")/.."
program=$PWD/target/release/rxlab
pairs=150
runs=10000
redraw=
out=$PWD/bench/results/noise.txt
while [ $# -gt 0 ]; do
  case $1 in
  --pairs) pairs=$2 && shift ;;
  --runs) runs=$2 && shift ;;
  --program) program=$2 && shift ;;
  --redraw) redraw=$2 && shift ;;
  --out) out=$2 && shift ;;
  *) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2 && exit 2 ;;
  esac
  shift
done
[ -x "$program" ] || { echo "noise.sh: program $program not found: run make build" >&2 && exit 2; }
if [ -z "$redraw" ]; then
  # Before the recording: a build disturbs it.
  cargo build --quiet --release --locked --example noise
  redraw=$PWD/target/release/examples/noise
fi
command -v nginx >/dev/null || { echo "noise.sh: nginx not found: apt-get install nginx-light" >&2 && exit 2; }

work=$(mktemp -d)
servers=()
trap 'for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT

cat >"$work/nginx.conf" <<CONF
daemon off;
worker_processes 1;
worker_cpu_affinity 0010;
error_log $work/error.log;
pid $work/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  server { listen 127.0.0.1:18080; location / { return 200 "ok"; } }
}
CONF
nginx -c "$work/nginx.conf" -p "$work" &
servers+=($!)
"$program" target --udp-echo 127.0.0.1:18081 --cpus 1 >/dev/null 2>&1 &
servers+=($!)
sleep 1

records=()
record() {
  local name=$1
  shift
  "$program" --state-dir "$work/state" trial run --name "$name" --a true --b true --seed 1 \
    --pairs "$pairs" --min-pairs "$pairs" --calibration 0 --washout 100ms --measure 500ms --cpus 0 "$@" >&2
  records+=("$(ls -d "$work/state/trials/"*"$name"*)/record.json")
}
http=http://127.0.0.1:18080/
record nginx-closed --load $http --connections 16 --primary throughput
record nginx-paced --load $http --connections 16 --rate 22000 --primary p99_us
record udp-echo --load udp://127.0.0.1:18081 --connections 16 --primary throughput

{
  echo "Slots of trials in which nothing is changed, and $runs trials re-drawn from them with other coins."
  echo "bench/noise.sh --pairs $pairs --runs $runs, $(date +%F), $("$program" --version)"
  echo "$(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-), $(nproc) CPUs, Linux $(uname -r), $(nginx -v 2>&1)"
  echo
  "$redraw" --runs "$runs" "${records[@]}"
} >"$out"
echo "$out"
