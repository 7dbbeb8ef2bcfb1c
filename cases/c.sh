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
        | "\($masks | length) of \($masks | map(.cpus | length) | unique | join("/")) CPUs"
            + if $apart then ", apart" else ", not apart" end' "$1.json"
}
# tiers PRODUCTION RECORD: describes both plans: "only safe" if every setting is safe and of low upkeep.
tiers() {
    careful='[.settings // [] | .[] | .risk == "safe" and .upkeep == "low"] | all'
    echo "$(jq -r "if $careful then \"only safe\" else \"not only safe\" end" "$1.json"), $(
        jq -r "if $careful then \"only safe\" else \"all\" end" "$2.json")"
}
if [ -z "$no_op" ]; then
    # The machine of the publication: 32 CPUs in two nodes, one queue, its interrupt on CPU 16.
    plan one-queue virtio-32cpu-2node numa-local.rps --cpus-per-queue 7
    conclude "mask of one queue" "1 of 7 CPUs, apart" "$(masks one-queue)"
    # Two NICs, one on each of two nodes, with four queues and one.
    plan two-nics virtio-16cpu-2nic numa-local --cpus-per-queue 7
    conclude "masks of two NICs" "5 of 1/7 CPUs, apart" "$(masks two-nics)"
    plan minimal virtio-32cpu-2node minimal
    plan full virtio-32cpu-2node full
    conclude "production, record" "only safe, all" "$(tiers minimal full)"
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
end
trap - EXIT

# On real drivers, in one guest: 32 CPUs in two nodes, a NIC of two queues on each, and one with interrupt moderation. One
# thread runs all CPUs, so requests per second say nothing there: where packets and interrupts arrive is counted. Plans are
# made for what the machine has, tried one after the other, and undone. As a no-op nothing is applied but values that are
# set already.
cat >guest.sh <<END
no_op=$no_op
END
cat >>guest.sh <<'END'
export RXLAB_STATE_DIR=/var/state
mkdir -p /out /var/state
for nic in 0 1 2; do
    rxlab target --udp-sink 10.98.$nic.2:9000 >/dev/null 2>&1 &
done
until [ "$(grep -c ':2328 ' /proc/net/udp)" = 3 ]; do sleep 0.2; done
for nic in 0 1 2; do ping -c 1 10.98.$nic.1 >&2; done
seconds=0
until [ "$(cat /sys/class/net/eth2/statistics/rx_packets)" -gt 500 ] || [ $seconds -ge 60 ]; do
    sleep 1
    seconds=$((seconds + 1))
done
sample() {
    rxlab show --json >"/out/$1.show.json"
    rxlab interference --tier ebpf --for 4s --json >"/out/$1.json"
}
# attempt NAME ARGUMENT...: a plan, applied for a sample.
attempt() {
    name=$1
    shift
    rxlab plan "$@" -o "$name.toml" >&2
    [ -n "$no_op" ] || rxlab apply "$name.toml" >&2
    sleep 2
    sample "$name"
    [ -n "$no_op" ] || rxlab undo --last >&2
}
# set_one NAME SETTING: one setting, applied for a sample.
set_one() {
    rxlab apply --set "$2" >&2
    sleep 2
    sample "$1"
    rxlab undo --last >&2 || :
}
END
cat >job.sh <<'END'
. ./guest.sh
rxlab plan minimal --json >/out/guest-minimal.json
rxlab plan full --json >/out/guest-full.json
rxlab apply --set 'channels eth0 = 1' >&2
attempt one numa-local --nic eth0 --cpus-per-queue 7
rxlab undo >&2
attempt two numa-local --nic eth0 --cpus-per-queue 7
attempt both numa-local --nic eth0 --nic eth1 --cpus-per-queue 7
# Moderation: an interrupt every 10 ms at most, and as fast as the driver lets them.
slow=10000
[ -z "$no_op" ] || slow=0
set_one fast 'rx_usecs eth2 = 0'
set_one slow "rx_usecs eth2 = $slow"
clock=acpi_pm
[ -z "$no_op" ] || clock=$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)
rxlab show --json >/out/clock-before.json
rxlab apply --set "clocksource host = $clock" >&2
rxlab show --json >/out/clock-set.json
rxlab undo >&2
rxlab show --json >/out/clock-undone.json
tar -cz -C /out .
END
export RXLAB_LAB_PEER="for nic in 0 1 2; do
        (until ip neigh | grep -q \"^10.98.\$nic.2 .*lladdr\"; do sleep 0.2; done
        # Moderation shows where more packets than one arrive in 10 ms.
        rate=300
        [ \$nic != 2 ] || rate=600
        exec '$rxlab' load udp-sink://10.98.\$nic.2:9000 --flows 512 --rate \$rate --for 1h) >/dev/null 2>&1 &
    done
    wait"
say "in a guest of 32 CPUs: one queue, two queues, two NICs, moderation, clocksource"
vm 32cpu-3nic job.sh guest.sh
# arrived NAME: the CPUs that take packets from RPS, their nodes, and whether none of them also takes an interrupt of the
# queues that are steered.
arrived() {
    jq -r --slurpfile show "$1.show.json" '
        ([$show[0].cpus[] | {(.id | tostring): .node}] | add) as $node
        | [$show[0].nics[] | .name as $nic | .rx[] | select(.rps_cpus.known // "" | . != "") | "\($nic)/rx-\(.index)"] as $steered
        | [.irqs.known[] | select([.queue] | inside($steered)) | .cpu] as $taken
        | [.napis.known[] | select(.device == "")] as $backlogs
        | ($backlogs | map(.packets) | add // 0) as $all
        | [$backlogs[] | select($all > 100 and .packets > $all / 200) | .cpu] as $cpus
        | if $cpus == [] then "no RPS" else
            "\($cpus | length) in node \([$cpus[] | $node[tostring]] | unique | join("+"))"
                + if $cpus - $taken == $cpus then ", apart" else ", not apart" end end' "$1.json"
}
conclude "guest, two tiers" "only safe, all" "$(tiers guest-minimal guest-full)"
conclude "guest, one queue" "7 in node 1, apart" "$(arrived one)"
conclude "guest, two queues" "14 in node 1, apart" "$(arrived two)"
conclude "guest, two NICs" "28 in node 0+1, apart" "$(arrived both)"
# interrupts NAME: of the e1000e, for each packet.
interrupts() {
    jq '([.irqs.known[] | select(.queue == "eth2/rx-0") | .count] | add // 0)
        / ([.napis.known[] | select(.device == "eth2") | .packets] | add // 1)' "$1.json"
}
say "interrupts per packet: $(interrupts fast) without moderation, $(interrupts slow) with 10 ms"
conclude "moderation, e1000e" "fewer interrupts" "$(
    jq -nr "if $(interrupts slow) < 0.7 * $(interrupts fast) then \"fewer interrupts\" else \"as many\" end")"
clock() { jq -r '.settings.clocksource.known.current' "clock-$1.json"; }
conclude clocksource "set, undone" "$([ "$(clock before)" != "$(clock set)" ] && echo set || echo unchanged), $(
    [ "$(clock before)" = "$(clock undone)" ] && echo undone || echo changed)"
exit $missed
