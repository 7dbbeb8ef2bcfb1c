#!/bin/bash
# 100,000 connections of one client, both ends in a guest of lab/vm: many machines do not allow a process that
# many open files.
#
#   bench/load-guest.sh [--program FILE] [--out FILE]
#
# The guest is emulated, so its rates mean nothing; files, memory and errors do. Exit code 1 if a connection
# fails.
set -euo pipefail

self=$(realpath "$0")
cd "${self%/*}/.."
out=$PWD/bench/results/load-guest.txt
. bench/guest.sh

cat >"$work/job" <<'JOB'
set -eu
count=100000
rxlab --json target --http 127.0.0.1:8080 --for 600s >/tmp/target 2>/dev/null &
target=$!
until grep -q addresses /tmp/target; do sleep 1; done
# Each address supports some 28,000 connections. All of 127.0.0.0/8 is this machine.
rxlab --json load http://127.0.0.1:8080/simple --connections $count --rate 2000 --timeout 30s --for 30s \
  --source 127.0.1.1,127.0.1.2,127.0.1.3,127.0.1.4,127.0.1.5,127.0.1.6,127.0.1.7,127.0.1.8 >/tmp/result 2>/dev/null &
load=$!
most=0 memory=0 there=0
while kill -0 $load 2>/dev/null; do
  open=$(ls /proc/$load/fd 2>/dev/null | wc -l)
  [ "$open" -le "$most" ] || most=$open
  memory=$(awk '/^VmHWM/ { print $2 }' /proc/$load/status 2>/dev/null || echo "$memory")
  there=$(awk '/^VmHWM/ { print $2 }' /proc/$target/status)
  sleep 1
done
code=0
wait $load || code=$?
kill $target
if grep -q '^  "errors": {},' /tmp/result; then
  errors=none
else
  errors=$(sed -n '/^  "errors": {/,/}/p' /tmp/result | tr -d ' \n')
fi
echo "Linux $(uname -r), $(nproc) emulated CPUs, $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB"
echo "$count connections from 8 addresses, 2000 requests/s over all of them for 30 s"
echo "open at most $most; memory of the client $memory KiB, of the target $there KiB"
echo "$(sed -n 's/^  "requests": \([0-9]*\),/\1/p' /tmp/result) answers, errors: $errors, exit code $code"
[ "$code" = 0 ] && [ "$most" -ge $count ] && [ "$errors" = none ]
JOB

code=0
RXLAB_LAB_SECONDS=900 lab/vm --rxlab "$program" 2cpu-8g "$work/job" >"$work/table" || code=$?
{
  echo "# bench/load-guest.sh; $(date +%F), $("$program" --version); $(qemu-system-x86_64 --version | head -n 1)"
  cat "$work/table"
} >"$out"
cat "$out"
[ "$code" = 0 ] || exit 1
