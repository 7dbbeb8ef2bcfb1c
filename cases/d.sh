#!/bin/sh
# Field case D, the client wall (docs/cases/d.md): is it the server or the client, what do cores give, and masks of four
# groups on a machine with 128 CPUs.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

fiber=$("$tree/lab/fiber") || fail "the Fiber server is not built: scripts/setup.sh cases"
seconds=1 blocks=6 measure=400ms
[ -n "$short" ] || { seconds=5 blocks=20 measure=1s; }
neighbour='while :; do :; done'

# Client and server are on the server host, so that rxlab load also reports the CPU time of the server. It has threads
# for two CPUs and may use one.
on_server env GOMAXPROCS=2 taskset -c 0 "$fiber" 10.98.0.1:8080
pid=$!
# As a no-op the neighbours of the client sleep, and a process that does nothing gets the cores.
if [ -n "$no_op" ]; then
    neighbour='exec sleep infinity'
    background taskset -c 0 sleep infinity
    pid=$!
fi
answers http://10.98.0.1:8080/simple

# load NAME OPTION...: a load from CPU 1; its result is NAME.json.
load() {
    name=$1
    shift
    foreground nsenter --target "$server" --net "$rxlab" load http://10.98.0.1:8080/compute --connections 64 --cpus 1 \
        --for "${seconds}s" --warm-up 200ms --json "$@" >"$out/$name.json"
}

# rates CLIENT: offers 1 to 10 times of what the server can do, in an open loop.
rates() {
    for times in 1 2 5 10; do
        load "$1-$times" --rate "$(jq "$times * .achieved | round" "$out/closed.json")"
    done
}

# The results of a client, one line each: whether rxlab called the client the limit, and how busy the server was.
results() {
    for times in 1 2 5 10; do
        jq -c "{times: $times, offered, achieved, limited: .saturation.limited,
            reason: (.saturation.reason // .saturation.elsewhere),
            server: .server_cpu.cpus}" "$out/$1-$times.json"
    done | tee "$out/$1.results" | jq -r '"case d: '"$1"', \(.times) x: offered \(.offered | round)/s, answered " +
        "\(.achieved | round)/s, server \(100 * .server | round) % busy: \(.reason // "no sign of a limit")"' >&2
}

say "what the server can do on one CPU"
load closed
say "a client with a CPU of its own, 1 to 10 times of that"
rates own
results own
say "a client that shares its CPU with 40 busy programs"
neighbours=''
for _ in $(seq 40); do
    background taskset -c 1 sh -c "$neighbour"
    neighbours="$neighbours $!"
done
rates shared
results shared
# shellcheck disable=SC2086  # a list of process ids
kill $neighbours

limited() { jq -rs 'map(select(.limited) | "\(.times)x") | if . == [] then "never" else join(" ") end' "$out/$1.results"; }
conclude "client-limited, own CPU" never "$(limited own)"
conclude "client-limited, shared" "1x 2x 5x 10x" "$(limited shared)"
# Either the server was full, which its CPU time tells, or the client was the limit.
conclude "verdicts that fit" "8 of 8" "$(cat "$out/own.results" "$out/shared.results" |
    jq -rs '"\(map(select(.limited == (.server < 0.6))) | length) of \(length)"')"

cat >"$out/cores.toml" <<END
name = "cores"

[[arm]]
name = "another"
set = ["affinity pid:$pid = 1"]

[[arm]]
name = "two"
set = ["affinity pid:$pid = 0-1"]

[workload.load]
url = "http://10.98.0.1:8080/compute"
connections = 64
cpus = "1"
netns = "/proc/$client/ns/net"

[design]
kind = "sweep"
blocks = $blocks
washout = "200ms"
measure = "$measure"
END
say "cores for /compute"
foreground "$rxlab" trial run "$out/cores.toml" --netns "$server" --json >"$out/cores.json"
"$rxlab" trial show "$(jq -r .id "$out/cores.json")" | tee "$out/cores.txt" >&2
conclude "the curve bends at" two \
    "$(jq -r 'if .conclusion.found.sweep.bend == null then "no level" else .settings[.conclusion.found.sweep.bend].name end' \
        "$out/cores.json")"

say "plans for the recorded machine with 128 CPUs and 16 queues"
recorded=$tree/fixtures/hosts/virtio-128cpu-16queue/host.tar.zst
# values KNOB PLAN: the distinct values that the plan sets for the queues it receives on.
values() {
    jq -r "[.settings[].set | capture(\"^$1 .*/rx-[0-9]+ = (?<value>.*)\") | .value] | unique_by(tonumber? // .) |
        map(tonumber? // .) | if length > 1 then \"\(min)-\(max), \(length) CPUs\" else \"\(.[0])\" end" "$out/$2.json"
}
"$rxlab" plan isolate --isolated 0-111 --snapshot "$recorded" --json >"$out/isolate.json"
conclude "interrupts of 16 queues" "112-127, 16 CPUs" "$(values irq_affinity isolate)"
"$rxlab" plan full.rfs --snapshot "$recorded" --json >"$out/rfs.json"
conclude "RFS entries of a queue" 2048 "$(values rfs rfs)"
"$rxlab" plan --set 'rps eth0/rx-0 = 112-127' --snapshot "$recorded" --output "$out/wide.toml" >/dev/null
"$rxlab" export --to sh "$out/wide.toml" >"$out/wide.sh"
conclude "mask of CPUs 112-127" ffff0000,00000000,00000000,00000000 \
    "$(grep -o '[0-9a-f]*\(,[0-9a-f]\{8\}\)\{3\}' "$out/wide.sh" | head -n 1)"

# The kernel of such a machine accepts and returns that mask.
if [ -z "$short" ]; then
    cat >"$out/job.sh" <<'JOB'
export RXLAB_STATE_DIR=/tmp/state
mkdir -p /out
rxlab apply --set 'rps eth0/rx-0 = 112-127' >&2
cat /sys/class/net/eth0/queues/rx-0/rps_cpus >/out/kernel
rxlab undo >&2
cat /sys/class/net/eth0/queues/rx-0/rps_cpus >/out/undone
tar -cz -C /out .
JOB
    say "a guest of 128 CPUs and 16 queues"
    vm 128cpu-16queue "$out/job.sh"
    conclude "that mask, in the kernel" ffff0000,00000000,00000000,00000000 "$(cat "$out/kernel")"
    conclude "after undo" 00000000,00000000,00000000,00000000 "$(cat "$out/undone")"
fi
exit $missed
