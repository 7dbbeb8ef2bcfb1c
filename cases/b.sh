#!/bin/sh
# Field case B, the 2x2 (docs/cases/b.md): a Go/Fiber server under pipelined load; steering x process affinity.
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

exit $missed
