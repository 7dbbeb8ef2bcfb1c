#!/bin/sh
# Field case C, one million requests a second (docs/cases/c.md): masks planned from the recorded topology of such a
# machine, and a search over masks by measurement, with a real nginx on two hosts of network namespaces.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

blocks=8 slot=1s
[ -n "$short" ] || { blocks=20 slot=2s; }
cd "$out"
trap '"$rxlab" undo >/dev/null 2>&1 || :; end' EXIT

# plan NAME HOST ARGUMENT...: a plan for a recorded machine, in NAME.json.
plan() {
    name=$1 host=$tree/fixtures/hosts/$2/host.tar.zst
    shift 2
    "$rxlab" show --snapshot "$host" --json >"$name.show.json"
    "$rxlab" plan "$@" --snapshot "$host" --json >"$name.json"
}
# masks NAME: describes the masks of a plan: "apart" if none has the CPU of an interrupt that it serves, no CPU is in two
# of them, and each is in one node. Interrupts are where the machine has them or where the plan moves them.
masks() {
    jq -r --slurpfile show "$1.show.json" '
        def cpus: [split(",")[] | split("-") | map(tonumber) | range(.[0]; .[-1] + 1)];
        ([$show[0].cpus[] | {(.id | tostring): .node}] | add) as $node
        | ([$show[0].nics[] | .name as $nic | .rx[] | select(.irqs != [])
            | {("\($nic)/rx-\(.index)"): (.irqs[0].effective.known | cpus)}] | add) as $now
        | [.settings[].set | capture("^(?<knob>\\w+) (?<queue>\\S+/rx-\\S+) = (?<value>.*)$")
            | .cpus = (.value | cpus)] as $all
        | [$all[] | select(.knob == "rps")] as $masks
        | ($now + ([$all[] | select(.knob == "irq_affinity") | {(.queue): .cpus}] | add // {})) as $irqs
        | [$masks[].cpus[]] as $used
        | [$irqs[$masks[].queue][]] as $taken
        | (($used | unique) == ($used | sort) and ($used - $taken) == $used
            and ($masks | all(.cpus | map($node[tostring]) | unique | length == 1))) as $apart
        | "\($masks | length) with \($masks | map(.cpus | length) | unique | join(" or ")) CPUs"
            + if $apart then ", apart" else ", not apart" end' "$1.json"
}
if [ -z "$no_op" ]; then
    # The machine of the publication: 32 CPUs in two nodes, one queue, its interrupt on CPU 16.
    plan one-queue virtio-32cpu-2node numa-local.rps --cpus-per-queue 7
    conclude "mask of one queue" "1 with 7 CPUs, apart" "$(masks one-queue)"
    # Two NICs, one on each of two nodes, with four queues and one.
    plan two-nics virtio-16cpu-2nic numa-local --cpus-per-queue 7
    conclude "masks of two NICs" "5 with 1 or 7 CPUs, apart" "$(masks two-nics)"
    plan minimal virtio-32cpu-2node minimal
    plan full virtio-32cpu-2node full
    careful='[.settings // [] | .[] | .risk == "safe" and .upkeep == "low"] | all'
    conclude "production, record" "only safe, all" "$(
        jq -r "if $careful then \"only safe\" else \"not only safe\" end" minimal.json), $(
        jq -r "if $careful then \"only safe\" else \"all\" end" full.json)"
    conclude "before any setting" SR-IOV \
        "$(jq -r 'if .notes + .reasons | any(test("virtual function \\(SR-IOV\\)")) then "SR-IOV" else "nothing" end' minimal.json)"
fi

cat >nginx.conf <<END
user root;
daemon off;
pid $out/nginx.pid;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path $out/body;
    proxy_temp_path $out/proxy;
    fastcgi_temp_path $out/fastcgi;
    uwsgi_temp_path $out/uwsgi;
    scgi_temp_path $out/scgi;
    server { listen 80; location / { return 200 hello; } }
}
END
on_server taskset -c 1 nginx -c "$out/nginx.conf" -e "$out/nginx.log"
# A firewall whose rules match nothing makes requests dear enough for the CPU that receives them to matter. Packets
# without data are left out: whether the client's kernel acknowledges on CPU 0 or 1 changes from minute to minute. Next to other loads the share of
# each CPU still changes.
costly 'tcp flags & psh == psh'
answers http://10.98.0.1/
# A veth pair delivers on the CPU of the sender, as an interrupt would.
background "$rxlab" load http://10.98.0.1/ --netns "$client" --cpus 0 --rate 2000 --connections 64 --for 1h >/dev/null 2>&1

# The candidates; without a factor, masks of an interface that gets no packets.
nic=srv0
if [ -n "$no_op" ]; then
    nic=srv1
    nsenter --target "$server" --net ip link add srv1 type veth peer name cli1
fi
cat >masks.toml <<END
name = "masks"

[[arm]]
name = "same-cpu"
set = ["rps $nic/rx-0 = 0"]

[[arm]]
name = "other-cpu"
set = ["rps $nic/rx-0 = 1"]

[[arm]]
name = "both"
set = ["rps $nic/rx-0 = 0-1"]

[workload]
live = true
nic = "srv0"

[design]
kind = "search"
seed = 1
blocks = $blocks
measure = "$slot"
washout = "200ms"
primary = "hottest_cpu_softirq"
margin = 0.1
END
say "a search over three masks"
foreground "$rxlab" trial run masks.toml --netns "$server" --json >masks.json || say "the search: exit code $?"
"$rxlab" trial show "$(jq -r .id masks.json)" >masks.txt
cat masks.txt >&2
conclude "mask by search" "both, helps" \
    "$(jq -r '.settings[.conclusion.found.search.winner].name + ", " + .conclusion.found.search.confirmed.call' masks.json)"
exit $missed
