#!/bin/bash
# Memory and start-up time of many connections in one process of `rxlab load`.
#
#   bench/connections.sh [--program FILE] [--out FILE] [CONNECTIONS...]
#
# Client and server are in two network namespaces, which are removed at the end with all that was set in them. The load
# is 1,000 requests per second for 5 s, so all connections but a few are idle at any time. Memory is the peak of the
# resident set of the client, without that of a client with 64 connections; start-up is the time up to the measurement.
# Takes some 6 KiB of the kernel's memory for each connection. Needs root.
set -euo pipefail

cd "$(dirname "$0")/.."
program=$PWD/target/release/rxlab
out=/dev/stdout
counts=()
while [ $# -gt 0 ]; do
  case $1 in
  --program) program=$2 && shift ;;
  --out) out=$2 && shift ;;
  [0-9]*) counts+=("$1") ;;
  *) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2 && exit 2 ;;
  esac
  shift
done
[ ${#counts[@]} -gt 0 ] || counts=(1000 10000 100000)

# Ports of an address, and addresses for a million connections.
ports=60000
sources=$(seq -f 10.77.1.%g -s , 1 20)
client=rxlab-c-$$
server=rxlab-s-$$
work=$(mktemp -d)
target=""
cleanup() {
  [ -z "$target" ] || kill "$target" 2>/dev/null || true
  ip netns del "$client" 2>/dev/null || true
  ip netns del "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
export RXLAB_RUN_DIR=$work

ip netns add "$client"
ip netns add "$server"
ip -n "$client" link add c type veth peer name s netns "$server"
ip -n "$server" addr add 10.77.0.1/16 dev s
ip -n "$server" link set s up
for source in ${sources//,/ }; do ip -n "$client" addr add "$source/16" dev c; done
ip -n "$client" link set c up
ip netns exec "$client" sysctl -q -w net.ipv4.ip_local_port_range="5000 $((5000 + ports))"
ip netns exec "$server" sysctl -q -w net.core.somaxconn=65535 net.ipv4.tcp_max_syn_backlog=65535

# load CONNECTIONS: prints peak memory in KiB, start-up in seconds, connections with a response or free, and errors.
load() {
  local begun peak=0 now pid
  ip netns exec "$server" "$program" target --http 10.77.0.1:8000 >"$work/target" &
  target=$!
  for _ in $(seq 100); do [ -s "$work/target" ] && break; sleep 0.1; done
  begun=$(date +%s.%N)
  ip netns exec "$client" "$program" load http://10.77.0.1:8000/simple --connections "$1" --source "$sources" \
    --rate 1000 --for 5s --json >"$work/json" &
  pid=$!
  while now=$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
    peak=$now
    sleep 0.2
  done
  wait "$pid" || true
  kill "$target" && wait "$target" || true
  target=""
  python3 - "$work/json" "$peak" "$begun" <<'PY'
import datetime, json, sys
path, peak, begun = sys.argv[1:]
load = json.load(open(path))
start = datetime.datetime.fromisoformat(load["begun"][:26].rstrip("Z") + "+00:00").timestamp() - float(begun)
print(peak, f"{start:.2f}", load["requests"], sum(load["errors"].values()), load["opened"])
PY
}

{
  echo "# bench/connections.sh ${counts[*]}"
  echo "# $("$program" --version), Linux $(uname -r), $(nproc) CPUs, load average $(cut -d ' ' -f 1 /proc/loadavg)"
  read -r base _ < <(load 64)
  echo "connections  KiB     bytes/connection  start-up s  us/connection  requests  errors  reopened"
  for count in "${counts[@]}"; do
    read -r peak start requests errors opened < <(load "$count")
    awk -v n="$count" -v p="$peak" -v b="$base" -v s="$start" -v r="$requests" -v e="$errors" -v o="$opened" 'BEGIN {
      printf "%-12d %-7d %-17.0f %-11s %-14.1f %-9d %-7d %d\n", n, p, (p - b) * 1024 / n, s, s * 1e6 / n, r, e, o }'
  done
} >"$out"
