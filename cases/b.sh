#!/bin/sh
# Field case B, the 2x2 (docs/cases/b.md): a Go/Fiber server under pipelined load; steering x process affinity, and
# interrupt x process affinity on a NIC with eight queues.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

fiber=$("$tree/lab/fiber") || fail "the Fiber server is not built: scripts/setup.sh test"
blocks=8 measure=500ms paths=compute
[ -n "$short" ] || { blocks=20 measure=1s paths='compute simple'; }

on_server "$fiber" 10.98.0.1:8080
pid=$!
# As a no-op a process that does nothing is pinned instead of the server.
if [ -n "$no_op" ]; then
    background sleep infinity
    pid=$!
fi
for path in $paths; do
    answers "http://10.98.0.1:8080/$path"
    cat >"$out/$path.toml" <<END
name = "$path"

[[factor]]
name = "steering"
set = ["rps srv0/rx-0 = 1"]

[[factor]]
name = "process"
set = ["affinity pid:$pid = 0"]

[workload]
nic = "srv0"

[workload.load]
url = "http://10.98.0.1:8080/$path"
connections = 64
pipeline = 100
timeout = "10s"
cpus = "1"
netns = "/proc/$client/ns/net"

[design]
kind = "factorial"
blocks = $blocks
washout = "200ms"
measure = "$measure"
margin = 0.1
END
    say "/$path: steering x process affinity, $blocks blocks"
    foreground "$rxlab" trial run "$out/$path.toml" --netns "$server" --plan-only --json >"$out/$path.plan.json"
    foreground "$rxlab" trial run "$out/$path.toml" --netns "$server" --json >"$out/$path.json"
    "$rxlab" trial show "$(jq -r .id "$out/$path.json")" >"$out/$path.txt"
    cat "$out/$path.txt" >&2
done

# call FILTER: the call of an effect on /compute.
call() {
    jq -r ".conclusion.found.factorial | $1 | .call // \"none\"" "$out/compute.json" |
        sed 's/no_effect\|negligible\|inconclusive/not shown/'
}
conclude "steering, beforehand" "cannot matter" \
    "$(jq -r 'if .ceiling then "cannot matter" else "can matter" end' "$out/compute.plan.json")"
conclude "effect of steering" "not shown" "$(call '.main + .simple | map(select(.factors == [0])) | .[0]')"
conclude "of process affinity" hurts "$(call '.main + .simple | map(select(.factors == [1])) | .[0]')"
conclude "their interaction" "not shown" "$(call '.interactions[0]')"
conclude "both in one step" hurts "$(call .together)"

# The same with interrupts, where they are real. Emulated CPUs say nothing about speed: where packets are handled is
# counted.
{
    echo 'export RXLAB_STATE_DIR=/tmp/state'
    echo 'mkdir -p /out'
    echo 'fiber 10.98.0.2:8080 & pid=$!'
    echo 'ping -c 1 10.98.0.1 >&2'
    echo 'cat >/out/irq.toml <<END'
    echo 'name = "irq"'
    echo '[[factor]]'
    echo 'name = "irq"'
    echo 'set = ['
    if [ -n "$no_op" ]; then
        # For interrupts that are yet to come.
        echo '  "default_smp_affinity host = 6-7",'
    else
        for queue in 0 1 2 3 4 5 6 7; do echo "  \"irq_affinity eth0/rx-$queue = $((6 + queue % 2))\","; done
    fi
    cat <<'JOB'
]
[[factor]]
name = "process"
set = ["affinity pid:$pid = 0-5"]
[workload]
live = true
nic = "eth0"
[design]
kind = "factorial"
primary = "throughput"
blocks = 2
washout = "500ms"
measure = "2s"
END
sleep 2
rxlab trial run /out/irq.toml --json >/out/irq.json
rxlab trial show 0001-irq >/out/irq.txt
tar -cz -C /out .
JOB
} >"$out/job.sh"
# The load waits for the guest's first packet, and ends with the guest.
export RXLAB_LAB_PEER="until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
    sleep 1
    exec '$rxlab' load http://10.98.0.2:8080/simple -c 64 -p 100 --rate 1000 --for 300s"
say "a guest of 8 CPUs and 8 queues: interrupt x process affinity"
ln -sf "$fiber" "$out/fiber"
vm --with "$out/fiber" 8cpu-8queue "$out/job.sh"
# share CELLS: the part of the receive work of these cells that CPUs 6 and 7 do, in percent.
share() {
    jq "[.slots[] | select(.void == null and (.cell | IN($1))) | .net_rx] |
        ([.[] | (.[\"6\"] // 0) + (.[\"7\"] // 0)] | add) as \$there | ([.[] | add] | add) as \$all |
        100 * \$there / \$all | round" "$out/irq.json"
}
say "CPUs 6 and 7 do $(share 0) % of the receive work; with irq $(share 1) %, process $(share 2) %, both $(share 3) %"
# moved WITHOUT WITH: whether the second share is another than the first.
moved() { if [ "$2" -gt $(($1 + 20)) ]; then echo "move packets"; else echo "move none"; fi; }
conclude "interrupts" "move packets" "$(moved "$(share 0,2)" "$(share 1,3)")"
conclude "process, in the guest" "move none" "$(moved "$(share 0,1)" "$(share 2,3)")"
exit $missed
