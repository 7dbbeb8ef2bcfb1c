#!/bin/sh
# Field case E, receive interference (docs/cases/e.md): what a one-way stream of packets takes from openssl speed, with
# RPS to its CPU and without; measured and inferred, compared, and traced.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

seconds=2 pairs=6 slot=300ms
[ -z "$short" ] && seconds=10 pairs=20 slot=1s
# As a no-op packets are steered to the CPU that receives them anyway.
cpu=0
[ -z "$no_op" ] || cpu=1
rps="rps srv0/rx-0 = $cpu"

# Sender and receiver have CPU 1; CPU 0 is the victim's.
on_server "$rxlab" target --udp-sink 10.98.0.1:9000 --cpus 1 >"$out/sink"
answers udp-sink://10.98.0.1:9000
background "$rxlab" load udp-sink://10.98.0.1:9000 --netns "$client" --cpus 1 --flows 2 --rate 60000 --for 600s \
    >"$out/load" 2>&1

# openssl NAME: openssl speed on CPU 0 for some seconds, and what it lost there.
openssl() {
    foreground "$rxlab" interference --netns "$server" --cpu 0 --with openssl --for "${seconds}s" --json >"$out/$1.json"
    jq -r '.inference[0] | "case e: openssl, RPS '"$1"': lost \(.exact.known * 1000 | round / 10) % by measurement, " +
        "\(.inferred * 1000 | round / 10) % by inference"' "$out/$1.json" >&2
}
say "openssl speed, RPS off"
openssl off
say "openssl speed, $rps"
"$rxlab" apply --netns "$server" --set "$rps" >&2
openssl on
foreground "$rxlab" trace --netns "$server" --cpu 0 --for 200ms --out "$out/trace.json.gz" --json >"$out/trace.json"
foreground "$rxlab" trace --netns "$server" --for 10ms --out "$out/trace.svg" >&2
"$rxlab" undo --netns "$server" >&2

say "the two setups compared, $pairs pairs"
foreground "$rxlab" interference --netns "$server" --compare "$rps" as-is --cpu 0 --probe --pairs "$pairs" --for "$slot" \
    --washout 100ms --json >"$out/compare.json"
"$rxlab" trial show "$(jq -r .trial "$out/compare.json")" --html "$out/compare.html" >"$out/compare.txt"

# lost NAME FIGURE: whether openssl lost more than a twentieth of its CPU.
lost() { jq -r "if .inference[0].$2 > 0.05 then \"yes\" else \"no\" end" "$out/$1.json"; }
conclude "time lost, RPS off" no "$(lost off exact.known)"
conclude "the same, inferred" no "$(lost off inferred)"
conclude "time lost, RPS to CPU 0" yes "$(lost on exact.known)"
conclude "the same, inferred, RPS" yes "$(lost on inferred)"
conclude "disturbs less" "RPS off" \
    "$(jq -r '{A: "RPS to CPU 0", B: "RPS off"}[.per_second.less // ""] // "neither"' "$out/compare.json")"
# traced: why most of the longest runs on CPU 0 began; "nothing" if there were fewer than a hundred runs.
traced() {
    jq -r 'if .cpus[0].runs.count < 100 then "nothing" else 
        .longest | group_by(.cause.class) | max_by(length)[0].cause.class end' \
        "$out/trace.json"
}
conclude "cause of the runs, traced" rps_ipi "$(traced)"
# The timeline draws these runs on the track of CPU 0.
conclude "drawn on CPU 0" "100 runs or more" "$(gzip -dc "$out/trace.json.gz" | jq -r '
    (.[] | select(.ph == "M" and .name == "thread_name" and .args.name == "CPU 0") | .tid) as $track
    | [.[] | select(.ph == "B" and .name == "NET_RX" and .tid == $track)] | length
    | if . >= 100 then "100 runs or more" else "\(.) runs" end')"

# No device of this lab follows flow rules: rxlab refuses one before it changes anything.
recorded=$tree/fixtures/hosts/virtio-8cpu-8queue/host.tar.zst
rule='ntuple_rule eth0/rule-1 = ether dst 52:54:00:98:00:00 action 3'
code=0
"$rxlab" plan --set "$rule" --snapshot "$recorded" >"$out/rule.txt" 2>&1 || code=$?
cat "$out/rule.txt" >&2
conclude "flow rule, no hardware" refused "$([ $code = 3 ] && echo refused || echo "exit code $code")"

# On files that answer as a device with flow rules would, rxlab puts the published rule in and takes it out. As a no-op it
# asks for what is there already, no rule.
answers=$out/answers
mkdir -p "$answers"
tar --zstd -xf "$recorded" -C "$answers"
answers=$answers/first
mkdir -p "$answers/ioctl/ethtool/grxclsrlall"
: >"$answers/ioctl/ethtool/grxclsrlall/eth0"
[ -z "$no_op" ] || rule='ntuple_rule eth0/rule-1 = none'
"$rxlab" --root "$answers" apply --set "$rule" >&2 || say "the rule: exit code $?"
"$rxlab" --root "$answers" status --json >"$out/rule-in.json" || :
"$rxlab" --root "$answers" undo >&2 || say "undo: exit code $?"
conclude "flow rule, recorded" "in: kept" "$(jq -r '[.transactions[].values[]
    | select(.knob == "ntuple_rule" and (.wanted | startswith("ether "))) | .live] | "in: \(first // "none")"' "$out/rule-in.json")"
conclude "taken out" "0 rules" \
    "$([ -s "$answers/ioctl/ethtool/grxclsrlall/eth0" ] && echo "rules left" || echo "0 rules")"
exit $missed
