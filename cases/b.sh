#!/bin/sh
# Field case B, the 2x2 (docs/cases/b.md): a Go/Fiber server under pipelined load; steering x process affinity on network
# namespaces, whose speeds are real, and IRQ affinity x process affinity in a guest of 8 queues, whose interrupts are.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

fiber=$("$tree/lab/fiber") || fail "the Fiber server is not built: scripts/setup.sh cases"
blocks=8 measure=500ms paths=compute guest_blocks=6
[ -n "$short" ] || { blocks=20 measure=1s paths='compute simple' guest_blocks=12; }

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
together=$(call .together)
conclude "both in one step" hurts "$together"
# The published comparison has two of the four cells and names the interrupts as the cause. With all four the cause shows.
jq -r '.conclusion.found.factorial as $found
    | "case b: one step shows \($found.together.effect.mid * 1000 | round / 10) %; the four cells show " + (
        [$found.main + $found.simple | .[] | "\(["steering", "process"][.factors[0]]) \(.effect.mid * 1000 | round / 10) %"] | join(", "))' \
    "$out/compute.json" >&2
steering=$(call '.main + .simple | map(select(.factors == [0])) | .[0]')
blamed=right
[ "$together" != hurts ] || [ "$steering" = hurts ] || blamed=wrong
[ "$together" = hurts ] || blamed=none
conclude "blamed by one step" wrong "$blamed"
end
trap - EXIT

# In the guest the factor is the published one: the interrupts of 8 queues, one a CPU, go to CPUs 6 and 7, and the server to
# CPUs 0 to 5. The load is that of a client on another machine, with fewer requests under way than above, because each
# takes long there. One thread runs all CPUs of the guest, so a rate says nothing there; which CPUs take packets is counted. As a
# no-op each interrupt moves to the next CPU, so that they are spread as before.
irqs='' queue=0
while [ $queue -lt 8 ]; do
    to=$((6 + queue % 2))
    [ -z "$no_op" ] || to=$(((queue + 1) % 8))
    irqs="$irqs\"irq_affinity eth0/rx-$queue = $to\", "
    queue=$((queue + 1))
done
cat >"$out/guest.toml" <<END
name = "guest"

[[factor]]
name = "irq"
set = [$irqs]

[[factor]]
name = "process"
set = ["affinity pid:PID = 0-5"]

[workload]
nic = "eth0"

[workload.load]
url = "http://10.98.0.2:8080/compute"
connections = 32
pipeline = 4
timeout = "30s"

[[client]]
run = "exec nc 10.98.0.1 7000"

[design]
kind = "factorial"
blocks = $guest_blocks
seed = 1
washout = "500ms"
measure = "2s"
primary = "throughput"
margin = 0.1
END
cat >"$out/job.sh" <<'END'
set -eu
export RXLAB_STATE_DIR=/var/state
mkdir -p /out /var/state
fiber 10.98.0.2:8080 >&2 &
sed -i "s/PID/$!/" guest.toml
until grep -q ':1F90 ' /proc/net/tcp; do sleep 0.2; done
rxlab show --json >/out/guest.show.json
rxlab trial run guest.toml --json >/out/guest.json || echo "the trial: exit code $?" >&2
rxlab trial show 0001-guest >/out/guest.txt
tar -cz -C /out .
END
export RXLAB_LAB_PEER="exec busybox nc -ll -p 7000 -e '$rxlab' client"
say "in a guest of 8 CPUs and 8 queues: IRQ affinity x process affinity, $guest_blocks blocks"
vm --with "$fiber" 8cpu-8queue "$out/job.sh" "$out/guest.toml"
cat "$out/guest.txt" >&2
# receiving IRQ: CPUs that take a twentieth or more of the packets in the cells with that level of the factor irq.
receiving() {
    jq -r "[.slots[] | select(.void == null and .cell % 2 == $1) | .packets | to_entries[]]
        | group_by(.key) | map({cpu: (.[0].key | tonumber), packets: (map(.value) | add)})
        | (map(.packets) | add) as \$all | map(select(.packets >= \$all / 20) | .cpu) | sort
        | if . == [6, 7] then \"6-7\" elif length > 2 then \"others too\" else map(tostring) | join(\",\") end" \
        "$out/guest.json"
}
conclude "packets, IRQs spread" "others too" "$(receiving 0)"
conclude "packets, IRQs on 6-7" 6-7 "$(receiving 1)"
exit $missed
