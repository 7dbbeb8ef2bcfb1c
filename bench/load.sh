#!/bin/bash
# The load generator and its peers in one interleaved run.
#
#   bench/load.sh [--small] [--no-install] [--program FILE] [--repeats N] [--seconds S] [--only PREFIX] [--out FILE]
#
# Server on one CPU (`rxlab target` or nginx, a new one for each run), client on another. The result is
# client CPU time per request: user and system time of the client process by rusage, requests
# counted by the server. Peers take turns, so a change in the machine's speed affects
# all of them: a ratio is that of two runs of one round, and the median of the rounds' ratios counts.
# The single runs are kept next to the table: case, client, round, requests, wall, user and system time of
# the client, CPU time of the server, p99.
#
# --only takes the cases whose names begin with PREFIX; the search for the highest rate is called max.
# --small takes one short run of a few cases with the installed peers: it only proves that all of
# this runs. Peers are installed to RXLAB_PEERS (/var/tmp/rxlab-peers) and, as Debian packages, by
# apt-get; one that cannot be installed is named and left out.
set -euo pipefail

cd "$(dirname "$0")/.."
small=""
install=yes
program=$PWD/target/release/rxlab
repeats=10
seconds=2
only=""
out=$PWD/bench/results/load.txt
while [ $# -gt 0 ]; do
  case $1 in
  --small) small=yes install="" repeats=1 seconds=1 out=/dev/stdout ;;
  --no-install) install="" ;;
  --program) program=$2 && shift ;;
  --repeats) repeats=$2 && shift ;;
  --seconds) seconds=$2 && shift ;;
  --only) only=$2 && shift ;;
  --out) out=$2 && shift ;;
  *) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2 && exit 2 ;;
  esac
  shift
done
[ -x "$program" ] || { echo "load.sh: program $program not found: run make build" >&2 && exit 2; }

peers_dir=${RXLAB_PEERS:-/var/tmp/rxlab-peers}
export PATH=$peers_dir/bin:$peers_dir/node_modules/.bin:$PATH:/usr/local/go/bin
work=$(mktemp -d)
server=""
client=""
# Stop everything started here.
cleanup() {
  [ -z "$client" ] || pkill -P "$client" || true
  if [ -n "$server" ]; then
    kill -CONT "$server" 2>/dev/null || true
    kill "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

say() { echo "load.sh: $*" >&2; }

# --- peers -------------------------------------------------------------------------------------

# try NAME COMMAND...: installs a missing peer; a failure is reported and ignored.
try() {
  local name=$1
  shift
  command -v "$name" >/dev/null 2>&1 && return
  say "installing $name"
  "$@" >"$work/install.log" 2>&1 || say "cannot install $name: $(tail -n 1 "$work/install.log")"
}

if [ -n "$install" ]; then
  mkdir -p "$peers_dir"
  export DEBIAN_FRONTEND=noninteractive
  for pair in wrk:wrk ab:apache2-utils h2load:nghttp2-client nginx:nginx-light; do
    try "${pair%%:*}" apt-get install -y -qq --no-install-recommends "${pair#*:}"
  done
  command -v go >/dev/null 2>&1 || try go apt-get install -y -qq --no-install-recommends golang-go
  export GOBIN=$peers_dir/bin GOFLAGS=-modcacherw
  try vegeta go install github.com/tsenart/vegeta/v12@v12.12.0
  try bombardier go install github.com/codesenberg/bombardier@v1.2.6
  try hey go install github.com/rakyll/hey@v0.1.4
  try fortio go install fortio.org/fortio@v1.66.5
  try oha cargo install --quiet --locked --root "$peers_dir" --version 1.16.0 oha
  command -v npm >/dev/null 2>&1 && try autocannon npm install --silent --prefix "$peers_dir" autocannon@9.0.0
fi

here=""
missing=""
for peer in wrk ab h2load fortio bombardier oha autocannon vegeta hey; do
  if command -v "$peer" >/dev/null 2>&1; then here="$here $peer"; else missing="$missing $peer"; fi
done

version() {
  case $1 in
  rxlab) "$program" --version ;;
  ab) ab -V | head -n 1 ;;
  wrk) wrk -v 2>&1 | head -n 1 ;;
  vegeta) vegeta -version 2>&1 | head -n 1 ;;
  fortio) fortio version ;;
  hey) echo "hey 0.1.4" ;;
  *) "$1" --version 2>&1 | head -n 1 ;;
  esac
}

# --- one run -----------------------------------------------------------------------------------

# The CPUs that this process may use: the server gets the first, clients the second.
allowed() {
  awk '/^Cpus_allowed_list/ { n = split($2, part, ",")
    for (i = 1; i <= n; i++) { split(part[i], ends, "-")
      for (c = ends[1]; c <= (ends[2] == "" ? ends[1] : ends[2]); c++) print c } }' /proc/self/status
}
server_cpu=$(allowed | sed -n 1p)
client_cpu=$(allowed | sed -n 2p)
client_cpu=${client_cpu:-$server_cpu}

cat >"$work/pipeline.lua" <<'LUA'
init = function(args)
  local batch = {}
  for i = 1, tonumber(args[1]) do batch[i] = wrk.format() end
  requests = table.concat(batch)
end
request = function() return requests end
LUA

# command PEER CONNECTIONS DEPTH RATE SECONDS URL: sets `command`; false if the peer does not support it.
command_of() {
  local peer=$1 c=$2 d=$3 r=$4 s=$5 url=$6
  command=()
  case $peer:$d:$r in
  rxlab-h2:*:-) command=("$program" --json load "$url" --http2 -c "$c" --streams "$d" --for "${s}s") ;;
  h2load-h2:*:-) command=(h2load -t 1 -c "$c" -m "$d" -D "$s" "$url") ;;
  oha-h2:*:-) command=(oha --no-tui --http2 -c "$c" -p "$d" -z "${s}s" "$url") ;;
  rxlab-plain:*:-) command=("$program" --json load "$url" -c "$c" -p "$d" --for "${s}s") ;;
  rxlab-train:*:-) command=("$program" --json load "$url" -c "$c" -p "$d" --batch 64 --for "${s}s") ;;
  rxlab:*:-) command=("$program" --json load "$url" -c "$c" -p "$d" --for "${s}s") ;;
  rxlab-*:*:*) command=("$program" --json load "$url" -c "$c" --for "${s}s" --rate "$r" --pacing "${peer#rxlab-}") ;;
  wrk:1:-) command=(wrk -t 1 -c "$c" -d "$s" "$url") ;;
  wrk:*:-) command=(wrk -t 1 -c "$c" -d "$s" -s "$work/pipeline.lua" "$url" -- "$d") ;;
  ab:1:-) command=(ab -k -q -c "$c" -t "$s" -n 100000000 "$url") ;;
  h2load:*:-) command=(h2load --h1 -t 1 -c "$c" -m "$d" -D "$s" "$url") ;;
  fortio:1:-) command=(fortio load -quiet -c "$c" -qps 0 -t "${s}s" "$url") ;;
  fortio:1:*) command=(fortio load -quiet -c "$c" -qps "$r" -t "${s}s" -p 50,99 "$url") ;;
  bombardier:1:-) command=(bombardier -p r -l -c "$c" -d "${s}s" "$url") ;;
  bombardier:1:*) command=(bombardier -p r -l -c "$c" -d "${s}s" -r "$r" "$url") ;;
  oha:1:-) command=(oha --no-tui -c "$c" -z "${s}s" "$url") ;;
  oha:1:*) command=(oha --no-tui --latency-correction -c "$c" -z "${s}s" -q "$r" "$url") ;;
  autocannon:*:-) command=(autocannon -n -c "$c" -p "$d" -d "$s" "$url") ;;
  autocannon:1:*) command=(autocannon -n -c "$c" -d "$s" -R "$r" "$url") ;;
  vegeta:1:-) command=(sh -c "echo GET $url | vegeta attack -rate=0 -max-workers=$c -duration=${s}s") ;;
  vegeta:1:*)
    command=(sh -c "echo GET $url | vegeta attack -rate=$r -workers=$c -max-workers=$c -duration=${s}s")
    ;;
  hey:1:-) command=(hey -cpus 1 -c "$c" -z "${s}s" "$url") ;;
  *) return 1 ;;
  esac
}

# The 99th percentile that a peer printed, in microseconds; empty if it printed none in a known form.
p99() {
  case $1 in
  rxlab*) sed -n '/"latency_us"/,/}/s/.*"p99": \([0-9.]*\).*/\1/p' "$2" | head -n 1 ;;
  fortio) awk '/^# target 99%/ { print $4 * 1e6 }' "$2" ;;
  bombardier) sed -n 's/^ *99% *//p' "$2" | head -n 1 | in_us ;;
  oha) sed -n 's/^ *99.00% in \([0-9.]*\) \([a-zµ]*\).*/\1\2/p' "$2" | in_us ;;
  vegeta) vegeta report "$2" | sed -n 's/^Latencies.*\] *//p' | awk -F', *' '{ print $6 }' | in_us ;;
  esac
}
in_us() {
  awk '/ms$/ { print $1 * 1e3; next } /(us|µs)$/ { print $1 + 0; next } /(s|sec|secs)$/ { print $1 * 1e6 }'
}

number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"; }

# The server of a case, on its own CPU: sets `server` and `address`. A CASE that begins with udp- goes to the UDP echo of
# `rxlab target`, one that begins with usual- gets the headers that servers usually send (155 bytes), and one that
# begins with nginx- goes to nginx: one that begins with nginx-h2- to its port for HTTP/2.
start_server() {
  local of=http port first
  case $1 in
  nginx-*)
    port=$((20000 + RANDOM % 10000)) # below the ports that clients use
    address=127.0.0.1:$port
    http2_address=127.0.0.1:$((port + 1))
    cat >"$work/nginx.conf" <<NGINX
daemon off; pid $work/nginx.pid; error_log $work/nginx.log crit; worker_processes 1;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; default_type text/plain;
  server {
    listen $address;
    location /simple { return 200 "Hello, world!\n"; }
    location /count { stub_status; }
  }
  server {
    listen $http2_address http2;
    location /simple { return 200 "Hello, world!\n"; }
  }
}
NGINX
    taskset -c "$server_cpu" nginx -p "$work" -c "$work/nginx.conf" &
    server=$!
    until nginx_requests >/dev/null; do sleep 0.05; done
    return
    ;;
  udp-*) of=udp_echo ;;
  esac
  mkfifo "$work/target"
  "$program" --json target --http 127.0.0.1:0 --udp-echo 127.0.0.1:0 --cpus "$server_cpu" >"$work/target" &
  server=$!
  exec 3<"$work/target"
  rm "$work/target"
  read -r first <&3
  address=$(echo "$first" | sed -n "s/.*\"$of\":\"\([^\"]*\)\".*/\1/p")
}

# Requests that nginx has received before this one; fails until it listens.
nginx_requests() {
  { exec 4<>"/dev/tcp/${address%:*}/${address#*:}"; } 2>/dev/null || return 1
  printf 'GET /count HTTP/1.0\r\n\r\n' >&4
  awk 'found { print $3 - 1; exit } /^server accepts/ { found = 1 }' <&4
  exec 4>&-
}

# Sets `requests` and `cpu`: requests received by the server, and its CPU time in seconds ("-": not counted).
stop_server() {
  local last=""
  case $1 in
  nginx-*) requests=$(($(nginx_requests) - before)) cpu=- ;;
  esac
  kill -INT "$server"
  case $1 in
  nginx-*) ;;
  *)
    read -r last <&3
    requests=$(echo "$last" | number "$2")
    cpu=$(echo "$last" | number cpu_seconds)
    exec 3<&-
    ;;
  esac
  wait "$server" 2>/dev/null || true
  server=""
}

# run ROUND CASE PEER CONNECTIONS DEPTH RATE SECONDS [FREEZE]: one line to runs.txt. FREEZE stops the server
# for half a second in the middle.
run() {
  local turn=$1
  shift
  local case=$1 peer=$2 freeze=${7:-} scheme=http counted=requests path=/simple
  case $case in
  udp-*) scheme=udp counted=echoed path="" ;;
  usual-*) path=/usual ;;
  esac
  local address http2_address requests cpu late before=0 code=0 at
  command_of "$peer" "$3" "$4" "$5" "$6" "" || return 0
  start_server "$case"
  case $case in nginx-*) before=$(($(nginx_requests) + 1)) ;; esac
  at=$address
  case $case in nginx-h2-*) at=$http2_address ;; esac
  command_of "$peer" "$3" "$4" "$5" "$6" "$scheme://$at$path"
  # In a separate shell, whose only child is the client.
  TIMEFORMAT='%R %U %S'
  { time taskset -c "$client_cpu" "${command[@]}" >"$work/printed" 2>"$work/complaints"; } 2>"$work/time" &
  client=$!
  if [ -n "$freeze" ]; then
    sleep "$freeze"
    kill -STOP "$server"
    sleep 0.5
    kill -CONT "$server"
  fi
  wait "$client" || code=$?
  client=""
  stop_server "$case" "$counted"
  late=$(p99 "$peer" "$work/printed")
  if [ "$code" = 0 ] && [ "${requests:-0}" -gt 0 ]; then
    read -r wall user system <"$work/time"
    echo "$case $peer $turn $requests $wall $user $system $cpu ${late:--}" >>"$work/runs.txt"
  else
    say "$case: $peer failed with $code: $(tail -n 1 "$work/complaints")"
  fi
}

# --- all runs ----------------------------------------------------------------------------------

# CASE CONNECTIONS DEPTH RATE SECONDS FREEZE PEERS
cases() {
  local open="rxlab-precise rxlab-timer rxlab-coarse fortio bombardier oha autocannon vegeta"
  if [ -n "$small" ]; then
    echo "depth-1 64 1 - $seconds - rxlab $here"
    echo "depth-16 64 16 - $seconds - rxlab $here"
    echo "open-2k 64 1 2000 $seconds - rxlab-precise rxlab-coarse"
    echo "udp-echo 64 1 - $seconds - rxlab-train rxlab-plain"
    return
  fi
  echo "depth-1 64 1 - $seconds - rxlab $here"
  echo "depth-1-1000 1000 1 - $seconds - rxlab $here"
  echo "depth-16 64 16 - $seconds - rxlab $here"
  echo "depth-100 64 100 - $seconds - rxlab $here"
  echo "usual-1 64 1 - $seconds - rxlab wrk"
  echo "usual-16 64 16 - $seconds - rxlab wrk"
  echo "usual-100 64 100 - $seconds - rxlab wrk"
  if command -v nginx >/dev/null 2>&1; then
    echo "nginx-1 64 1 - $seconds - rxlab wrk"
    echo "nginx-16 64 16 - $seconds - rxlab wrk"
    echo "nginx-100 64 100 - $seconds - rxlab wrk"
    for depth in 1 16 100; do
      echo "nginx-h2-$depth 64 $depth - $seconds - rxlab-h2 h2load-h2 oha-h2"
    done
  fi
  echo "open-20k 64 1 20000 $seconds - $open"
  echo "udp-echo 64 1 - $seconds - rxlab-train rxlab-plain"
  echo "freeze 64 1 2000 10 3 rxlab-timer fortio bombardier oha vegeta"
}

# known PEER: true if it is installed.
known() { case " rxlab rxlab-precise rxlab-timer rxlab-coarse rxlab-train rxlab-plain rxlab-h2 $here " in *" ${1/#h2load-h2/h2load} "* | *" ${1/#oha-h2/oha} "*) ;; *) return 1 ;; esac; }

: >"$work/runs.txt"
for ((turn = 1; turn <= repeats; turn++)); do
  say "round $turn of $repeats"
  while read -r case connections depth rate length freeze peers; do
    [[ $case == "$only"* ]] || continue
    # The freeze takes ten seconds and its result hardly varies.
    [ "$freeze" != - ] && [ "$turn" -gt 3 ] && continue
    for peer in $peers; do
      known "$peer" || continue
      run "$turn" "$case" "$peer" "$connections" "$depth" "$rate" "$length" "${freeze#-}" </dev/null
    done
  done < <(cases)
done

# Highest rate of which 99 % arrive, by bisecting a list of rates; a round of all peers at a time.
if [ -z "$small" ] && [[ max == "$only"* ]]; then
  rates=(10 15 20 30 40 50 60 70 80 90 100 110 120 130 140 150 160 170 180 190 200 210 220 230 240 260 280 300)
  for ((turn = 1; turn <= 5; turn++)); do
    for peer in rxlab-timer fortio bombardier oha autocannon vegeta; do
      known "$peer" || continue
      low=-1 high=${#rates[@]}
      while [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        run "$turn" "max-${rates[middle]}k" "$peer" 64 1 "${rates[middle]}000" "$seconds" </dev/null
        held=$(tail -n 1 "$work/runs.txt" | awk -v job="max-${rates[middle]}k" -v peer="$peer" \
          -v want="$((rates[middle] * 1000 * seconds))" '$1 == job && $2 == peer && $4 >= 0.99 * want { print "yes" }')
        if [ -n "$held" ]; then low=$middle; else high=$middle; fi
      done
      [ "$low" -ge 0 ] && echo "$peer ${rates[low]}" >>"$work/held.txt"
    done
  done
fi

# --- the table ---------------------------------------------------------------------------------

median='function median(list, n,   i, j, t) {
  for (i = 2; i <= n; i++) { t = list[i]; for (j = i - 1; j >= 1 && list[j] > t; j--) list[j + 1] = list[j]; list[j + 1] = t }
  return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }'

table() {
  echo "# bench/load.sh; $(date +%F), Linux $(uname -r), $(nproc) CPUs ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1))"
  echo "# server on CPU $server_cpu, client on CPU $client_cpu, runs of $seconds s, $repeats rounds; load average $(cut -d' ' -f1-3 /proc/loadavg)"
  for peer in rxlab $here; do echo "# $(version "$peer" 2>&1 | head -n 1)"; done
  [ -z "$missing" ] || echo "# not installed:$missing"
  echo
  echo "client CPU time per request in us, and its ratio to that of the first client of the case:"
  echo "median of the rounds (lowest to highest)"
  awk "$median"'
    { key = $1 " " $2
      if (!(key in runs)) { keys[++count] = key; if (!($1 in first)) first[$1] = key }
      n = ++runs[key]; cost[key, n] = us[key, $3] = ($6 + $7) * 1e6 / $4; rate[key, n] = $4 / $5; round[key, n] = $3
      if ($9 != "-") late[key, ++lates[key]] = $9 }
    END {
      printf "%-14s %-14s %9s %9s %9s  %-24s %5s %12s %10s\n", "case", "client", "median", "min", "max", "ratio", "runs", "requests/s", "p99 us"
      for (k = 1; k <= count; k++) {
        key = keys[k]; n = runs[key]; split(key, part, " "); pairs = 0
        for (i = 1; i <= n; i++) {
          list[i] = cost[key, i]; rates[i] = rate[key, i]; of = first[part[1]] SUBSEP round[key, i]
          if (of in us) ratios[++pairs] = cost[key, i] / us[of]
        }
        for (i = 1; i <= lates[key]; i++) p99[i] = late[key, i]
        middle = median(list, n)
        ratio = key == first[part[1]] ? "1.00" : pairs ? sprintf("%.2f", median(ratios, pairs)) : "-"
        if (pairs > 1 && key != first[part[1]]) ratio = ratio sprintf(" (%.2f to %.2f)", ratios[1], ratios[pairs])
        printf "%-14s %-14s %9.3f %9.3f %9.3f  %-24s %5d %12d %10s\n", part[1], part[2], middle, list[1], list[n],
          ratio, n, median(rates, n), lates[key] ? sprintf("%.0f", median(p99, lates[key])) : "-"
      } }' <(grep -v '^max-' "$work/runs.txt")
  if [ -s "$work/held.txt" ]; then
    echo
    echo "highest rate of which 99 % arrived, in thousands per second"
    awk "$median"'{ if (!($1 in n)) keys[++count] = $1; value[$1, ++n[$1]] = $2 }
      END { for (k = 1; k <= count; k++) { for (i = 1; i <= n[keys[k]]; i++) list[i] = value[keys[k], i]
        middle = median(list, n[keys[k]]); printf "%-14s %6.0f (%.0f to %.0f)\n", keys[k], middle, list[1], list[n[keys[k]]] } }' "$work/held.txt"
  fi
  if [ -z "$small" ]; then
    echo
    echo "freeze: the server was stopped for 500 ms of 10 s; the true p99 of all requests is about 400000 us"
  fi
}
table >"$work/table.txt"
cat "$work/table.txt" >"$out"
[ "$out" = /dev/stdout ] || { cat "$work/table.txt" && cp "$work/runs.txt" "${out%.txt}.runs.txt"; }
