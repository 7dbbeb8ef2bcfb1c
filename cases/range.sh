# shellcheck shell=sh
# Sourced by cases on network namespaces, after common.sh: a server host and a client host joined by a cable, on CPUs 0
# and 1 of this machine. The namespaces have no names: they end with the case, however it ends.

# A case changes only these namespaces and its own processes, so it does not wait for changes to this machine.
export RXLAB_RUN_DIR="$out/run"

children=''

# background COMMAND...: starts it; it ends with the case. Its process id is $!. It has precedence over programs that are
# not part of the case: otherwise a busy neighbour on one of two CPUs is measured instead.
background() {
    # shellcheck disable=SC2016  # the inner shell expands it
    setpriv --pdeathsig TERM setsid sh -c 'echo -19 2>/dev/null >/proc/self/autogroup; exec nice -n -19 "$@"' sh "$@" &
    children="$children $!"
}

# foreground COMMAND...: the same, and waits for it. Returns its exit code.
foreground() {
    background "$@"
    wait $!
}

# Ends what the case has started.
end() {
    for child in $children; do
        # The number of one that has ended may be another's by now.
        ! grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$child/status" || kill "$child" 2>/dev/null || :
    done
    wait
}
trap end EXIT
trap 'exit 130' INT TERM

# host: starts a network namespace. Its process is $!, by which rxlab and nsenter find it.
host() {
    background unshare --net sleep infinity
    tries=0
    while [ "$(readlink "/proc/$!/ns/net")" = "$(readlink /proc/self/ns/net)" ] || [ "$(cat /proc/$!/comm)" != sleep ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || fail "cannot make a network namespace"
        sleep 0.05
    done
}

[ "$(nproc)" -ge 2 ] || fail "needs two CPUs"
host
server=$!
host
client=$!
nsenter --target "$server" --net ip link add srv0 type veth peer name cli0 netns "$client"
for nic in "$server srv0 10.98.0.1" "$client cli0 10.98.0.2"; do
    # shellcheck disable=SC2086  # a namespace, an interface and an address
    set -- $nic
    nsenter --target "$1" --net ip link set lo up
    nsenter --target "$1" --net ip address add "$3/24" dev "$2"
    nsenter --target "$1" --net ip link set "$2" up
done

# on_server COMMAND...: starts it in the background on the server host.
on_server() { background nsenter --target "$server" --net "$@"; }

# answers URL: waits for the server behind it.
answers() {
    tries=0
    until "$rxlab" load "$1" --netns "$client" --connections 1 --rate 100 --for 100ms >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fail "$1 does not answer"
        sleep 0.1
    done
}

# costly MATCH: a firewall on the server whose 20,000 rules match nothing makes the packets of MATCH (nft) dear.
costly() {
    {
        echo 'table ip firewall {'
        echo ' chain blocked {'
        for n in $(seq 1000); do echo "  ip saddr 192.0.2.$((n % 250)) udp dport $n drop"; done
        echo ' }'
        echo ' chain input {'
        echo '  type filter hook input priority 0; policy accept;'
        for n in $(seq 20); do echo "  iif srv0 $1 jump blocked"; done
        echo ' }'
        echo '}'
    } >"$out/rules"
    nsenter --target "$server" --net nft -f "$out/rules"
}
