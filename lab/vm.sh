#!/bin/sh
# Boots a machine shape in QEMU without KVM, runs a shell script in it, prints what the script prints.
#
#   lab/vm.sh SHAPE JOB [FILE...]      (root; Debian 12)
#
# JOB and the FILEs are put into /job of the guest; JOB runs there with busybox ash as root, with proc
# and sys mounted, the virtio NIC drivers loaded and every link up. Its standard output is passed on
# byte for byte, its exit code becomes that of this script, its standard error and the kernel's
# messages go to SHAPE.console in the cache.
#
# NIC number N of the guest is ethN with 10.98.N.2/24. Its other end is a tap with 10.98.N.1 in a
# network namespace of its own, which ends with QEMU: nothing has to be cleaned up. What is to run in
# that namespace beside the guest, to send packets to it for example, is given as a shell command in
# RXLAB_LAB_PEER; it is started before the guest and killed after it.
#
# Needs the packages qemu-system-x86, busybox-static, cpio and iproute2. The kernel is Debian's; it is
# fetched once and kept in RXLAB_LAB_CACHE (/var/tmp/rxlab-lab). A guest that takes longer than
# RXLAB_LAB_SECONDS (600) is ended.
set -eu

CACHE=${RXLAB_LAB_CACHE:-/var/tmp/rxlab-lab}
LIMIT=${RXLAB_LAB_SECONDS:-600}

fail() {
    echo "lab/vm.sh: $*" >&2
    exit 5
}

# $nics: the number of queues of each NIC; $machine: what tells QEMU about CPUs, memory and nodes;
# $bus: where the NICs are. QEMU's root bus belongs to no node (numa_node is -1), an expander bus does.
shape() {
    bus=pci.0
    case $1 in
    8cpu-1queue)
        nics=1
        machine="-m 1G -smp 8,sockets=1,cores=4,threads=2"
        ;;
    32cpu-2node)
        nics=1
        machine="-m 2G -smp 32,sockets=2,cores=8,threads=2 $(nodes 2 1G)"
        machine="$machine -device pxb,id=expander,bus_nr=128,numa_node=1"
        bus=expander
        ;;
    128cpu-16queue)
        nics=16
        machine="-m 4G -smp 128,sockets=4,cores=16,threads=2 $(nodes 4 1G)"
        ;;
    *) fail "no shape $1; there are 8cpu-1queue, 32cpu-2node and 128cpu-16queue" ;;
    esac
}

# A NUMA node for each socket.
nodes() {
    node=0
    while [ $node -lt "$1" ]; do
        echo "-object memory-backend-ram,id=ram$node,size=$2 -numa node,nodeid=$node,memdev=ram$node"
        echo "-numa cpu,node-id=$node,socket-id=$node"
        node=$((node + 1))
    done
}

# An unpacked kernel package in $CACHE; sets $release.
kernel() {
    mkdir -p "$CACHE"
    if ! ls "$CACHE"/boot/vmlinuz-* >/dev/null 2>&1; then
        package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p')
        (cd "$CACHE" && apt-get download "$package" >/dev/null 2>&1 && dpkg-deb -x "$package"_*.deb .) ||
            fail "cannot fetch the kernel package $package"
    fi
    release=$(basename "$(ls "$CACHE"/boot/vmlinuz-* | tail -n 1)")
    release=${release#vmlinuz-}
}

# In the order in which they can be loaded.
MODULES="virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net"

initramfs() {
    tree=$work/tree
    mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/tmp" "$tree/modules" "$tree/job"
    cp /bin/busybox "$tree/bin/busybox"
    for module in $MODULES; do
        path=$(find "$CACHE/lib/modules/$release" -name "$module.ko")
        [ -n "$path" ] || fail "the kernel $release has no module $module"
        cp "$path" "$tree/modules/"
    done
    cp "$@" "$tree/job/"
    cat >"$tree/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $MODULES; do insmod /modules/\$module.ko; done
for nic in /sys/class/net/*; do
    nic=\${nic##*/}
    ip link set "\$nic" up
    [ "\$nic" = lo ] || ip address add "10.98.\${nic#eth}.2/24" dev "\$nic"
done
# The answer goes over a serial line of its own, as bytes; the exit code comes last, in one line.
stty -F /dev/ttyS1 raw -echo
(cd /job && sh "./${1##*/}") >/dev/ttyS1 2>/dev/console
printf '\\n%s' "exit \$?" >/dev/ttyS1
sleep 1
reboot -f
INIT
    chmod 755 "$tree/init"
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initramfs.gz"
}

# Runs inside the new network namespace.
boot() {
    devices=
    number=0
    for queues in $nics; do
        multi=
        [ "$queues" -eq 1 ] || multi=multi_queue
        ip tuntap add dev "tap$number" mode tap $multi
        ip address add "10.98.$number.1/24" dev "tap$number"
        ip link set "tap$number" up
        netdev=tap,id=net$number,ifname=tap$number,script=no,downscript=no,vhost=off
        device=virtio-net-pci,netdev=net$number,bus=$bus,romfile=,vectors=$((2 * queues + 2))
        if [ "$queues" -gt 1 ]; then
            netdev=$netdev,queues=$queues
            device=$device,mq=on
        fi
        devices="$devices -netdev $netdev -device $device"
        number=$((number + 1))
    done
    [ -z "${RXLAB_LAB_PEER:-}" ] || sh -c "$RXLAB_LAB_PEER" >&2 &
    # The AMD vendor that TCG takes by default shows no hyper-threads to the guest.
    # shellcheck disable=SC2086  # the machine and the devices are lists of words
    timeout --foreground "$LIMIT" nice -n 10 qemu-system-x86_64 $machine \
        -accel tcg,thread=multi -cpu max,vendor=GenuineIntel \
        -nodefaults -display none -no-reboot $devices \
        -kernel "$CACHE/boot/vmlinuz-$release" -initrd "$work/initramfs.gz" \
        -append "console=ttyS0 panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off" \
        -serial "file:$CACHE/$name.console" -serial "file:$work/answer" </dev/null >&2
}

if [ "${1:-}" = --in-namespace ]; then
    # shellcheck disable=SC2154  # exported by the outer run
    boot
    exit
fi
[ $# -ge 2 ] || fail "usage: lab/vm.sh SHAPE JOB [FILE...]"
name=$1
shift
shape "$name"
kernel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
initramfs "$@"
export nics machine bus release work name
# Of the two namespaces everything ends with the first process, and that one ends with this script, even
# when the script is killed.
setpriv --pdeathsig KILL unshare --net --pid --fork --kill-child sh "$0" --in-namespace &
wait $! || fail "QEMU failed or took over $LIMIT s; see $CACHE/$name.console"
status=$(tail -n 1 "$work/answer" | sed -n 's/^exit \([0-9]*\)$/\1/p')
[ -n "$status" ] || fail "the guest ended without an answer; see $CACHE/$name.console"
# All but the line of the exit code and the line end before it.
head -c "-$((${#status} + 6))" "$work/answer"
exit "$status"
