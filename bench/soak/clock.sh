#!/bin/bash
# The programs that stay running while the clock of their machine is set forward and back, by hours and days. The machine is a
# guest of lab/vm, so that the clock of this one stays as it is.
#
#   bench/soak/clock.sh [--program FILE] [--out FILE]
#
# As root; two to five minutes. Exit code 1 if a program ends, does not answer, or reverts a change before its deadline.
set -euo pipefail

self=$(realpath "$0")
cd "${self%/*}/../.."
out=$PWD/bench/results/soak-clock.txt
. bench/guest.sh

cat >"$work/job" <<'JOB'
set -eu
fail() { # fail WHAT
  echo "failed: $1"
  cat /tmp/*.said
  exit 1
}
rxlab record >/tmp/record.said 2>&1 &
record=$!
rxlab exporter --every 2s --listen 127.0.0.1:9942 >/tmp/exporter.said 2>&1 &
exporter=$!
rxlab serve --listen 127.0.0.1:9471 >/tmp/serve.said 2>&1 &
serve=$!
rxlab status --watch >/tmp/watch.said 2>&1 &
watch=$!
sleep 20
value() { cat /sys/class/net/eth0/queues/rx-0/rps_cpus; }
original=$(value)
holds() { # holds PID: anonymous memory in KiB, and descriptors
  echo "$(awk '/^Anonymous/ { print $2 }' /proc/$1/smaps_rollup)/$(ls /proc/$1/fd | wc -l)"
}
echo "clock set by (s)   record   exporter   serve   status --watch: anonymous memory (KiB)/descriptors"
# A deadline is a time that passes, not one of the clock.
rxlab apply --set 'rps eth0/rx-0 = 0' --confirm 600s >/tmp/apply.said 2>&1 || fail "a change is not applied"
for step in 0 3600 -7200 86400 -172800 31536000 -31536000 60 -60 1 -1 82801; do
  date -s @$(($(date +%s) + step)) >/dev/null
  sleep 4
  for pid in $record $exporter $serve $watch; do
    kill -0 $pid 2>/dev/null || fail "a program ended after the clock was set by $step s"
  done
  for url in 127.0.0.1:9942/metrics 127.0.0.1:9471/; do
    wget -q -O /dev/null http://$url || fail "$url does not answer after the clock was set by $step s"
  done
  [ "$(value)" != "$original" ] || fail "a change was reverted before its deadline, after $step s"
  rxlab status >/tmp/status.said 2>&1 || fail "status: exit code $?"
  echo "$step $(holds $record) $(holds $exporter) $(holds $serve) $(holds $watch)"
done
rxlab undo >/tmp/undo.said 2>&1 || fail "undo: exit code $?"
[ "$(value)" = "$original" ] || fail "undo restored $(value), not $original"
rxlab record status >/tmp/recorded.said 2>&1 || fail "record status: exit code $?"
rxlab doctor --at now --for 10s >/tmp/doctor.said 2>&1 || [ $? = 1 ] || fail "doctor --at now: exit code $?"
for pid in $record $exporter $serve $watch; do
  kill $pid
  code=0
  wait $pid || code=$?
  [ $code = 0 ] || fail "a program ended with $code"
done
cat /tmp/recorded.said
JOB

code=0
lab/vm --rxlab "$program" 8cpu-1queue "$work/job" >"$work/table" || code=$?
{
  echo "# bench/soak/clock.sh; $(date +%F), $("$program" --version); $(qemu-system-x86_64 --version | head -n 1)"
  cat "$work/table"
} >"$out"
cat "$out"
[ "$code" = 0 ] || exit 1
