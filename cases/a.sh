#!/bin/sh
# Field case A, the tracker host (docs/cases/a.md). The tracker, its proxy, Prometheus and the trials are on two hosts of
# network namespaces, at the published rates; the interrupt is in a guest of 8 CPUs and one queue.
. "$(dirname "$0")/common.sh"
. "$tree/cases/range.sh"

pairs=9 slots=4 slot=1s
[ -n "$short" ] || { pairs=20 slots=10 slot=2s; }
# Published: 1,913 announces a second over HTTP and 2,234 over UDP.
http=1913 udp=2234
tracker=$("$tree/lab/tracker") || tracker=$(command -v opentracker) || fail "no tracker: scripts/setup.sh cases"
say "the tracker is ${tracker##*/}"
cd "$out"

# However the case ends, no change is left applied, and no listener of phase 1 is left running.
trap '"$rxlab" undo >/dev/null 2>&1 || :; close; end' EXIT
close() { [ ! -e listener ] || kill "$(cat listener)" 2>/dev/null || :; }

# The tracker, on CPU 1 with the proxy. The file `counters` prints what it has answered, in the format of Prometheus:
# both trackers count in a format of their own.
if [ "${tracker##*/}" = torrust-tracker ]; then
    cat >tracker.toml <<END
[metadata]
schema_version = "2.0.0"
[logging]
threshold = "error"
[core]
listed = false
private = false
[core.database]
driver = "sqlite3"
path = "$out/tracker.db"
[core.net]
on_reverse_proxy = true
[[udp_trackers]]
bind_address = "0.0.0.0:6969"
[[http_trackers]]
bind_address = "127.0.0.1:7070"
[http_api]
bind_address = "127.0.0.1:1212"
[http_api.access_tokens]
lab = "lab"
END
    export TORRUST_TRACKER_CONFIG_TOML_PATH="$out/tracker.toml"
    # It does not end on SIGTERM.
    # shellcheck disable=SC2016  # the inner shell expands it
    on_server taskset -c 1 sh -c '"$1" & trap "kill -KILL $!" TERM; wait' sh "$tracker" >tracker.log 2>&1
    cat >counters <<'END'
busybox wget -qO- 'http://127.0.0.1:1212/api/v1/stats?token=lab' | tr '{,}' '\n' |
    sed -n 's/^"\(tcp4\|udp4\)_announces_handled":\([0-9]*\)$/announces{protocol="\1"} \2/p'
END
else
    # It serves the torrents of a list: the one that the clients announce.
    mkdir list
    chmod 711 "$out"
    echo e220a8397b1dcdaf6e789e6aa1b965f406c45d18 >list/torrents
    cat >opentracker.conf <<END
listen.tcp 127.0.0.1:7070
listen.udp 0.0.0.0:6969
access.stats 127.0.0.1
access.whitelist torrents
tracker.rootdir $out/list
END
    on_server taskset -c 1 "$tracker" -f opentracker.conf >tracker.log 2>&1
    cat >counters <<'END'
busybox wget -qO- 'http://127.0.0.1:7070/stats?mode=everything' | grep -o '<announce>[0-9]*' |
    sed '1s/.*>/announces{protocol="tcp4"} /; 2s/.*>/announces{protocol="udp4"} /'
END
fi
mkdir www
on_server sh -c 'while :; do sh counters >www/new && mv www/new www/metrics.txt; sleep 1; done' 2>/dev/null

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
    upstream tracker { server 127.0.0.1:7070; keepalive 64; }
    server {
        listen 80;
        location /health { return 200 ok; }
        location /metrics.txt { root $out/www; }
        location / {
            proxy_pass http://tracker;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For \$remote_addr;
        }
    }
}
END
on_server taskset -c 1 nginx -c "$out/nginx.conf" -e "$out/nginx.log"

# A firewall whose rules match nothing makes announces over UDP dear. Packets of TCP are left out: whether the clients'
# kernel acknowledges on CPU 0 or 1 changes from minute to minute, and with it the CPU that receives.
costly 'udp dport 6969'

cat >prometheus.yml <<'END'
global: { scrape_interval: 1s }
scrape_configs:
  - job_name: tracker
    metrics_path: /metrics.txt
    static_configs: [{ targets: ['10.98.0.1:80'] }]
END
background nsenter --target "$client" --net prometheus --config.file="$out/prometheus.yml" \
    --storage.tsdb.path="$out/prometheus" --web.listen-address=10.98.0.2:9090 >prometheus.log 2>&1

# The clients, on CPU 0: a veth pair delivers there what they send, as an interrupt would.
answers http://10.98.0.1/metrics.txt
announce='info_hash=%E2%20%A8%39%7B%1D%CD%AF%6E%78%9E%6A%A1%B9%65%F4%06%C4%5D%18&peer_id=-XX0001-000000000000&port=6881'
announce="$announce&uploaded=0&downloaded=0&left=1&compact=1&event=started"
clients() { background "$rxlab" load --netns "$client" --cpus 0 --timeout 5s --for 1h "$@" >/dev/null 2>&1; }
clients --announce "http://10.98.0.1/announce?$announce" --rate $http --connections 64
clients 'udp-tracker://10.98.0.1:6969/announce?torrents=1' --rate $udp --flows 512

# specification NAME PRIMARY CHANGE: writes the file of a trial on the live traffic.
specification() {
    cat >"$1.toml" <<END
name = "$1"

[change]
$3

[workload]
live = true
nic = "srv0"

[design]
seed = 1
pairs = $pairs
min_pairs = $pairs
measure = "$slot"
washout = "300ms"
primary = "$2"
margin = 0.1

[[query]]
name = "http"
prometheus = "http://10.98.0.2:9090"
expr = 'sum(rate(announces{protocol="tcp4"}[10s]))'

[[query]]
name = "udp"
prometheus = "http://10.98.0.2:9090"
expr = 'sum(rate(announces{protocol="udp4"}[10s]))'

[[check]]
name = "proxy"
url = "http://10.98.0.1/health"
netns = "/proc/$client/ns/net"

[[check]]
name = "tracker"
url = "udp-tracker://10.98.0.1:6969/announce?torrents=1"
netns = "/proc/$client/ns/net"
END
}
# here COMMAND...: rxlab on the server host, from where Prometheus can be reached.
here() { foreground nsenter --target "$server" --net "$rxlab" --netns "/proc/$server/ns/net" "$@"; }
# trial NAME: runs it.
trial() {
    here trial run "$1.toml" --json >"$1.json" || say "trial $1: exit code $?"
    "$rxlab" trial show "$(jq -r .id "$1.json")" >"$1.txt"
    cat "$1.txt" >&2
}
verdict() { jq -r .analysis.verdict.verdict "$1.json"; }

# Prometheus needs two scrapes for a rate.
tries=0
until nsenter --target "$client" --net busybox wget -qO- \
    'http://10.98.0.2:9090/api/v1/query?query=count(rate(announces[10s])>0)' 2>/dev/null | grep -q '"2"'; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || fail "Prometheus has no rates after a minute"
    sleep 1
done
say "on namespaces: two phases"
if [ -z "$no_op" ]; then
    # The publication dropped UDP 443, for HTTP/3. Where packets are handled is counted.
    cat >listen <<END
[ ! -e listener ] || ! kill -0 "\$(cat listener)" 2>/dev/null || exit 0
nsenter --target $server --net "$rxlab" target --udp-echo 10.98.0.1:443 --for 10m >/dev/null 2>&1 &
echo \$! >listener
END
    sh listen
    # shellcheck disable=SC2016  # the shell of the arm expands it
    specification udp443 hottest_cpu_net_rx_share 'a = "sh listen"
b = "kill $(cat listener) || :"'
    trial udp443
    close
    # The published phase stayed for a day and was then measured again.
    here trial checkpoint --slots $slots --json "$(jq -r .id udp443.json)" >udp443-later.json
    # As published, RPS to all CPUs.
    specification rps hottest_cpu_softirq 'set = ["rps srv0/rx-0 = 0-1"]'
else
    specification rps hottest_cpu_softirq 'a = ":"
b = ":"'
fi
trial rps
# The call on where packets are handled: on a quiet machine the verdict is that the server is idle.
state() { jq -r .state "$1.json"; }
if [ -z "$no_op" ]; then
    conclude "UDP 443 closed" no_effect \
        "$(jq -r '.analysis.metrics[] | select(.metric.name == "hottest_cpu_net_rx_share").call' udp443.json)"
    conclude "UDP 443, later" still_none "$(state udp443-later)"
fi
conclude RPS spreads_only "$(verdict rps)"
if [ -z "$no_op" ]; then
    id=$(jq -r .id rps.json)
    here apply --set 'rps srv0/rx-0 = 0-1' >&2
    here trial checkpoint --slots $slots --json "$id" >checkpoint.json
    here undo >&2
    "$rxlab" trial show "$id" >rps.txt
    "$rxlab" report "$(jq -r .id udp443.json)" "$id" -o timeline.html --force >&2
    conclude checkpoint holds "$(state checkpoint)"
    jq -s '[.[].slots[].values as $values | ("proxy", "tracker") | "check.\(.)"
            | {all: $values["\(.).requests"], failed: ($values["\(.).requests"] * $values["\(.).failed"] / 100 | round)}]
        | {all: (map(.all) | add), failed: (map(.failed) | add)}' udp443.json rps.json >probes.json
    say "probes from outside: $(jq -r '"\(.failed) of \(.all) failed"' probes.json)"
    conclude "probes from outside" "99 % answered" \
        "$(jq -r 'if .failed <= .all / 100 then "99 % answered" else "\(.failed) of \(.all) failed" end' probes.json)"
fi
end
trap - EXIT


# On a real driver: one queue for 8 CPUs, its interrupt on CPU 2. A sample that missed the hotspot is repeated: the guest's
# CPUs share one of this machine. RPS goes to all CPUs, as published; as a no-op to the one that receives anyway. It is
# persisted.
cpus=0-7
[ -z "$no_op" ] || cpus=2
cat >guest.sh <<'END'
export RXLAB_STATE_DIR=/var/state
mkdir -p /out /var/state
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 4 >"/proc/irq/$irq/smp_affinity"
rxlab target --udp-sink 10.98.0.2:9000 >/dev/null 2>&1 &
until grep -q ':2328 ' /proc/net/udp; do sleep 0.2; done
ping -c 1 10.98.0.1 >&2
seconds=0
until [ "$(cat /sys/class/net/eth0/statistics/rx_packets)" -gt 2000 ] || [ $seconds -ge 60 ]; do
    sleep 1
    seconds=$((seconds + 1))
done
placed() { rxlab interference --tier ebpf --for 3s --json >"/out/$1.json"; }
END
cat >first-boot.sh <<END
. ./guest.sh
for sample in 1 2 3; do
    rxlab doctor --for 5s --json >/out/doctor.json || :
    grep -q '"one-core-hotspot"' /out/doctor.json && break
done
rxlab apply --set 'rps eth0/rx-0 = $cpus' >&2
placed applied
rxlab persist >&2
cp /etc/rxlab/plan.toml /etc/systemd/system/rxlab.service /out
tar -cz -C /out .
END
# Nothing of the first boot is left except the files of persist. Without systemd in the guest, their command is run here.
cat >second-boot.sh <<'END'
. ./guest.sh
mkdir -p /etc/rxlab
cp plan.toml /etc/rxlab
placed booted
$(sed -n 's/^ExecStart=//p' rxlab.service) >&2
placed restored
rxlab status --json >/out/status.json
tar -cz -C /out .
END
# The traffic waits for the guest's first packet, sent when its sink is ready, and ends with the guest.
export RXLAB_LAB_PEER="until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
    exec '$rxlab' load udp-sink://10.98.0.2:9000 --flows 64 --for 1h >/dev/null 2>&1"
say "in a guest: the hotspot behind an interrupt, and RPS"
vm 8cpu-1queue first-boot.sh guest.sh
say "the same guest after a reboot"
vm 8cpu-1queue second-boot.sh guest.sh plan.toml rxlab.service
# cpus_of NAME: how many CPUs take at least a fiftieth of the packets up the stack: from the backlogs that RPS fills, or
# else from the queue.
cpus_of() {
    jq -r '.napis.known | (map(select(.device == "")) | map(.packets) | add // 0) as $steered
        | (map(.packets) | add // 0) as $all
        | map(select(.device == (if $steered > $all / 4 then "" else "eth0" end)))
        | (map(.packets) | add // 0) as $sum
        | map(select(.packets > 0 and .packets >= $sum / 50) | .cpu) | unique | length' "$1.json"
}
conclude hotspot "CPU 2" \
    "$(jq -r '[.findings[] | select(.id == "one-core-hotspot") | "CPU \(.cpu)"] | first // "none"' doctor.json)"
conclude "RPS, CPUs in a guest" 8 "$(cpus_of applied)"
conclude "rebooted, restored" "1, 8 CPUs" "$(cpus_of booted), $(cpus_of restored) CPUs"
exit $missed
