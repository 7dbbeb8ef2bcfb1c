# shellcheck shell=sh
# Sourced by cases that run on network namespaces, after common.sh: a server host and a client host joined by a cable,
# on CPUs 0 and 1 of this machine. The namespaces have no names: they end with the case, however it ends.

children=''

# background COMMAND...: starts it; it ends with the case. Its process id is $!.
background() {
    setpriv --pdeathsig KILL "$@" &
    children="$children $!"
}

# Ends what the case has started.
end() {
    # shellcheck disable=SC2086  # a list of process ids
    [ -z "$children" ] || kill $children 2>/dev/null || :
    wait
}
trap end EXIT
trap 'exit 130' INT TERM

# on HOST COMMAND...: runs it in the network namespace of that host, $server or $client.
on() {
    host=$1
    shift
    nsenter --target "$host" --net "$@"
}

# host: a network namespace. Its process is $!, by which rxlab and nsenter find it.
host() {
    background unshare --net sleep infinity
    tries=0
    until [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "no network namespace"
        sleep 0.05
    done
}

[ "$(nproc)" -ge 2 ] || fail "needs two CPUs"
host && server=$!
host && client=$!
on "$server" ip link add srv0 type veth peer name cli0 netns "$client"
for nic in "$server srv0 10.98.0.1" "$client cli0 10.98.0.2"; do
    # shellcheck disable=SC2086  # namespace, interface and address
    set -- $nic
    on "$1" ip link set lo up
    on "$1" ip address add "$3/24" dev "$2"
    on "$1" ip link set "$2" up
done

# reachable ADDRESS PORT: waits for a server of the server host.
reachable() {
    tries=0
    until on "$client" bash -c ": </dev/tcp/$1/$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "nothing listens on $1:$2"
        sleep 0.1
    done
}
