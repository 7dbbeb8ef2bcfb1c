#!/bin/bash
# The load generator at its limits: rates kept to 0.1 %, 100,000 connections, memory over ten minutes.
#
#   bench/load-limits.sh [--small] [--program FILE] [--out FILE] [rate-error] [connections] [memory]
#
# All three by default. Server (`rxlab target`) on one CPU, client on another. Exit code 1 if
# a limit is missed: a rate is off by 0.1 % or more, a connection fails, the client's
# memory grows by more than 5 % and a megabyte after its first tenth.
#
# --small runs for seconds and with 2,000 connections: it only proves that all of this runs.
# As root the limit of open files is raised as needed; else `ulimit -Hn` must allow it.
set -euo pipefail

cd "$(dirname "$0")/.."
small=""
program=$PWD/target/release/rxlab
out=$PWD/bench/results/load-limits.txt
modes=""
while [ $# -gt 0 ]; do
  case $1 in
  --small) small=yes out=/dev/stdout ;;
  --program) program=$2 && shift ;;
  --out) out=$2 && shift ;;
  rate-error | connections | memory) modes="$modes $1" ;;
  *) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2 && exit 2 ;;
  esac
  shift
done
[ -n "$modes" ] || modes="rate-error connections memory"
[ -x "$program" ] || { echo "load-limits.sh: program $program not found: run make build" >&2 && exit 2; }

work=$(mktemp -d)
server=""
client=""
# Stop everything started here.
cleanup() {
  for pid in $client $server; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

# The CPUs that this process may use: the server gets the first, the client the second.
allowed() {
  awk '/^Cpus_allowed_list/ { n = split($2, part, ",")
    for (i = 1; i <= n; i++) { split(part[i], ends, "-")
      for (c = ends[1]; c <= (ends[2] == "" ? ends[1] : ends[2]); c++) print c } }' /proc/self/status
}
server_cpu=$(allowed | sed -n 1p)
client_cpu=$(allowed | sed -n 2p)
client_cpu=${client_cpu:-$server_cpu}

mkfifo "$work/target"
"$program" --json target --http 127.0.0.1:0 --cpus "$server_cpu" >"$work/target" &
server=$!
exec 3<"$work/target"
read -r first <&3
url=http://$(echo "$first" | sed -n 's/.*"http":"\([^"]*\)".*/\1/p')/simple

load=("$program" --json load "$url" --cpus "$client_cpu")
# Numbers of the result, which is printed on many lines.
number() { sed -n "s/^ *\"$1\": \(-\{0,1\}[0-9.e-]*\),\{0,1\}$/\1/p" "$work/result" | head -n 1; }
errors() { sed -n '/^  "errors": {$/,/^  }/p' "$work/result" | sed '1d;$d' | tr -d ' \n'; }

failed=0
verdict() { if [ "$1" = yes ]; then echo ok; else echo FAILED && return 1; fi; }

rate_error() {
  echo "rate error: requests sent compared with requests due"
  "${load[@]}" -c 64 --for 2s >"$work/result" 2>/dev/null || true
  local most rates seconds
  most=$(number rate)
  echo "  highest rate of the closed loop: ${most%.*}/s"
  rates="0.5 3 70 1000 20000 $(awk -v most="$most" 'BEGIN { for (p = 20; p <= 80; p += 20) printf "%.1f ", most * p / 100 }')"
  [ -z "$small" ] || rates="5 1000"
  printf '  %12s %8s %12s %12s %10s\n' rate seconds due sent error
  for rate in $rates; do
    # Of few requests one is more than 0.1 %: they have to match exactly.
    seconds=$(awk -v r="$rate" 'BEGIN { s = r < 10 ? 60 : 10; print s }')
    [ -z "$small" ] || seconds=1
    "${load[@]}" -c 64 --rate "$rate" --for "${seconds}s" >"$work/result" || true
    awk -v rate="$rate" -v s="$(number seconds)" -v offered="$(number offered)" -v sent="$(number sent)" -v error="$(number rate_error)" \
      -v small="$small" 'BEGIN {
        kept = error < 0.001 && error > -0.001
        printf "  %12s %8.1f %12.0f %12d %9.4f%% %s\n", rate, s, offered * s, sent, 100 * error, kept ? "ok" : "FAILED"
        exit !(kept || small) }' || failed=1
  done
}

connections() {
  local count=100000 rate=20000 seconds=20
  # Long enough to be sampled, even if starting a program takes a second.
  [ -z "$small" ] || count=2000 rate=1000 seconds=4
  # Each end is one process; as root each raises its own limit, if allowed.
  local files
  files=$( (ulimit -Hn $((count + 1000)) && ulimit -Hn) 2>/dev/null || ulimit -Hn)
  if [ "$files" != unlimited ] && [ "$files" -lt $((count + 1000)) ]; then
    count=$((files - 1000))
    echo "only $files open files are allowed on this machine"
  fi
  echo "$count connections from 8 addresses, $rate requests/s over all of them"
  # Each address supports some 28,000 connections. All of 127.0.0.0/8 is this machine.
  local sources=127.0.1.1,127.0.1.2,127.0.1.3,127.0.1.4,127.0.1.5,127.0.1.6,127.0.1.7,127.0.1.8
  "${load[@]}" -c "$count" --source "$sources" --rate "$rate" --timeout 10s --for "${seconds}s" >"$work/result" &
  client=$!
  local most=0 rss open
  while kill -0 "$client" 2>/dev/null; do
    # It may end in between.
    open=$(ls "/proc/$client/fd" 2>/dev/null | wc -l) || true
    [ "$open" -gt "$most" ] && most=$open
    rss=$(awk '/^VmHWM/ { print $2 }' "/proc/$client/status" 2>/dev/null || true)
    [ -z "$rss" ] || echo "$rss" >"$work/rss"
    sleep 0.2
  done
  wait "$client" || true
  client=""
  local wrong good
  wrong=$(errors)
  echo "  open at most $most, $(number requests) answers, client memory $(cat "$work/rss" 2>/dev/null || echo ?) KiB"
  good=$(awk -v wrong="$wrong" -v most="$most" -v count="$count" 'BEGIN { print (wrong == "" && most >= count) ? "yes" : "no" }')
  echo "  errors: ${wrong:-none}: $(verdict "$good")" || failed=1
}

memory() {
  local seconds=600 step=10
  [ -z "$small" ] || seconds=3 step=1
  echo "memory of the client over $seconds s at 20,000 requests/s, in KiB"
  "${load[@]}" -c 64 --rate 20000 --pacing coarse --for "${seconds}s" >"$work/result" &
  client=$!
  : >"$work/memory"
  while sleep "$step" && kill -0 "$client" 2>/dev/null; do
    awk '/^VmRSS/ { print $2 }' "/proc/$client/status" >>"$work/memory" 2>/dev/null || true
  done
  wait "$client" || true
  client=""
  awk -v small="$small" '{ rss[NR] = $1 } END {
      from = int(NR / 10) + 1
      for (i = from; i <= NR; i++) { if (low == "" || rss[i] < low) low = rss[i]; if (rss[i] > high) high = rss[i] }
      flat = NR > 0 && rss[NR] <= rss[from] * 1.05 + 1024
      printf "  first %d, then %d to %d, last %d: %s\n", rss[1], low, high, rss[NR], small ? "too short to judge" : flat ? "ok" : "FAILED"
      exit !(flat || small) }' "$work/memory" || failed=1
}

{
  echo "# bench/load-limits.sh; $(date +%F), Linux $(uname -r), $(nproc) CPUs; server on CPU $server_cpu, client on CPU $client_cpu"
  echo "# $("$program" --version); load average $(cut -d' ' -f1-3 /proc/loadavg)"
  for mode in $modes; do
    echo
    "${mode//-/_}"
  done
} >"$work/table"
kill -INT "$server"
wait "$server" || true
server=""
cat "$work/table"
[ "$out" = /dev/stdout ] || cp "$work/table" "$out"
exit "$failed"
