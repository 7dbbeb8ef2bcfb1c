# With RXLAB_CHECK=1 it reports what it would change, and changes nothing.
check=${RXLAB_CHECK:-}
failed=0 changed=0

# fail WHY: reports that the current setting failed, and continues with the next one.
fail() {
    printf '%s: %s\n' "$setting" "$1" >&2
    failed=1
}

# plain VALUE: the value for comparison, without commas and leading zeros.
plain() {
    printf '%s\n' "$1" | tr -d , | sed 's/^0*\(.\)/\1/'
}

# begin NOW WANTED: true if the value has to be written, and may be.
begin() {
    [ "$1" != "$2" ] || return 1
    changed=1
    if [ -n "$check" ]; then
        printf '%s: would change, it is %s\n' "$setting" "$1"
        return 1
    fi
}

# kept NOW WANTED: reports the value after the write.
kept() {
    if [ "$1" = "$2" ]; then
        printf '%s: set\n' "$setting"
    else
        fail "the kernel kept $1"
    fi
}

# file PATH VALUE SHOWN: writes a file of the kernel.
file() {
    if ! now=$(cat "$1" 2>&1); then
        fail "$now"
    elif begin "$(plain "$now")" "$3"; then
        if error=$( { printf '%s\n' "$2" >"$1"; } 2>&1); then
            kept "$(plain "$(cat "$1")")" "$3"
        else
            # Shells report any error of the kernel as an I/O error here.
            case $error in *'I/O error'*) error='the kernel rejected it' ;; esac
            fail "cannot write $2 to $1: $error"
        fi
    fi
}

# shown NIC OPTION LABEL: a value as ethtool shows it; the last one, as maxima come first.
shown() {
    ethtool "$2" "$1" 2>/dev/null | sed -n "s/^[[:space:]]*$3:[[:space:]]*\([^[:space:]]*\).*/\1/p" | tail -n 1
}

# values_now NIC SHOW {WORD LABEL VALUE}...: the words with their current values.
values_now() (
    nic=$1 show=$2 text=
    shift 2
    while [ $# -gt 0 ]; do
        text="$text $1 $(shown "$nic" "$show" "$2")"
        shift 3
    done
    printf '%s\n' "${text# }"
)

# values_wanted {WORD LABEL VALUE}...: the words with the values to set.
values_wanted() (
    text=
    while [ $# -gt 0 ]; do
        text="$text $1 $3"
        shift 3
    done
    printf '%s\n' "${text# }"
)

# option NIC SET SHOW {WORD LABEL VALUE}...: sets values with ethtool, all in one call.
option() {
    nic=$1 set=$2 show=$3
    shift 3
    now=$(values_now "$nic" "$show" "$@")
    wanted=$(values_wanted "$@")
    case "$now " in *'  '*) fail "ethtool $show $nic does not show the value: $now" && return ;; esac
    if begin "$now" "$wanted"; then
        # Words and numbers, split on purpose.
        # shellcheck disable=SC2086
        if error=$(ethtool "$set" "$nic" $wanted 2>&1); then
            kept "$(values_now "$nic" "$show" "$@")" "$wanted"
        else
            fail "ethtool $set $nic $wanted: $error"
        fi
    fi
}

# function_of NIC: the PCI function that its device is or is part of: a USB interface has the interrupts of its host controller.
function_of() (
    device=$(cd "/sys/class/net/$1/device" 2>/dev/null && pwd -P) || return 0
    while [ -n "$device" ]; do
        case ${device##*/} in *:*:*.*) break ;; esac
        device=${device%/*}
    done
    printf '%s\n' "$device"
)

# irq NIC ACTION MASK SHOWN: interrupts of a device by their action name, as numbers change at each boot.
irq() {
    any=
    function=$(function_of "$1")
    for found in $(ACTION="$2" awk '
        BEGIN { end = " " ENVIRON["ACTION"] }
        $1 ~ /^[0-9]+:$/ && substr($0, length($0) - length(end) + 1) == end { print $1 + 0 }
    ' /proc/interrupts); do
        # Other devices of the driver can have interrupts of that name.
        if [ -e "$function/msi_irqs" ]; then
            [ -e "$function/msi_irqs/$found" ] || continue
        elif [ -e "$function/irq" ]; then
            [ "$(cat "$function/irq")" = "$found" ] || continue
        fi
        any=1
        file "/proc/irq/$found/smp_affinity" "$3" "$4"
    done
    [ -n "$any" ] || fail "$1 has no interrupt $2 now (is its link up?)"
}
