# With RXLAB_CHECK=1 it says what it would change, and changes nothing.
check=${RXLAB_CHECK:-}
failed=0 changed=0

# fail WHY: says that the setting at hand could not be made, and goes on with the next one.
fail() {
    printf '%s: %s\n' "$setting" "$1" >&2
    failed=1
}

# plain VALUE: as it is compared, which is without commas and leading zeros.
plain() {
    printf '%s\n' "$1" | tr -d , | sed 's/^0*\(.\)/\1/'
}

# begin NOW WANTED: whether anything has to be written, and may be.
begin() {
    [ "$1" != "$2" ] || return 1
    changed=1
    if [ -n "$check" ]; then
        printf '%s: would change, it is %s\n' "$setting" "$1"
        return 1
    fi
}

# kept NOW WANTED: what the machine made of it.
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
            # What shells call an I/O error here is any answer of the kernel.
            case $error in *'I/O error'*) error='the kernel refuses it' ;; esac
            fail "cannot write $2 to $1: $error"
        fi
    fi
}

# shown NIC OPTION LABEL: a value as ethtool shows it; the last one, for maxima come first.
shown() {
    ethtool "$2" "$1" 2>/dev/null | sed -n "s/^[[:space:]]*$3:[[:space:]]*\([^[:space:]]*\).*/\1/p" | tail -n 1
}

# option NIC SET WORD SHOW LABEL VALUE: a value that ethtool sets.
option() {
    now=$(shown "$1" "$4" "$5")
    if [ -z "$now" ]; then
        fail "ethtool $4 $1 does not show it"
    elif begin "$now" "$6"; then
        if error=$(ethtool "$2" "$1" "$3" "$6" 2>&1); then
            kept "$(shown "$1" "$4" "$5")" "$6"
        else
            fail "ethtool $2 $1 $3 $6: $error"
        fi
    fi
}

# irq NIC ACTION MASK SHOWN: interrupts of a device by their action name; a number is given out anew at
# each boot.
irq() {
    any=
    for found in $(ACTION="$2" awk '
        BEGIN { end = " " ENVIRON["ACTION"] }
        $1 ~ /^[0-9]+:$/ && substr($0, length($0) - length(end) + 1) == end { print $1 + 0 }
    ' /proc/interrupts); do
        device=/sys/class/net/$1/device
        if [ -e "$device/msi_irqs" ] || [ -e "$device/../msi_irqs" ]; then
            [ -e "$device/msi_irqs/$found" ] || [ -e "$device/../msi_irqs/$found" ] || continue
        fi
        any=1
        file "/proc/irq/$found/smp_affinity" "$3" "$4"
    done
    [ -n "$any" ] || fail "$1 has no interrupt $2 now (is its link up?)"
}
