# shellcheck shell=sh
# Sourced by each case: its options, its artefacts and its conclusions. A case is run as
#
#   cases/a.sh [--short] [--no-op] [--out DIR] [--rxlab PROGRAM]
#
# --short         fewer and shorter measurements, as in the tests
# --no-op         swaps the factor for one that does nothing; what rests on it must come out differently
# --out DIR       where the artefacts go, and the journal and the trials of rxlab; emptied first (target/cases/a)
# --rxlab PROGRAM the program under test (target/release/rxlab)
#
# Standard output has one line of JSON for each conclusion, {"case", "conclusion", "expected", "reached"}, and nothing
# else. "reached" comes from what rxlab printed, which is in DIR. The exit code is 0 if every conclusion was
# reached, 1 if not, and 5 if the case could not be carried out.
set -eu

tree=$(cd "$(dirname "$0")/.." && pwd)
case=$(basename "$0" .sh)
out=$tree/target/cases/$case
rxlab=$tree/target/release/rxlab
short='' no_op=''

# Ends the case: it could not be carried out.
fail() {
    echo "case $case: $*" >&2
    exit 5
}

# Says on standard error what comes next.
say() { echo "case $case: $*" >&2; }

while [ $# -gt 0 ]; do
    case $1 in
    --short) short=yes ;;
    --no-op) no_op=yes ;;
    --out) out=${2:?"--out needs a directory"} && shift ;;
    --rxlab) rxlab=${2:?"--rxlab needs a program"} && shift ;;
    *) fail "unknown option $1" ;;
    esac
    shift
done

[ "$(id -u)" = 0 ] || fail "needs root"
[ -x "$rxlab" ] || fail "$rxlab does not exist: make build"
for needed in jq tar; do
    command -v $needed >/dev/null || fail "$needed is not installed: scripts/setup.sh cases"
done
rxlab=$(cd "$(dirname "$rxlab")" && pwd)/$(basename "$rxlab")
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
export RXLAB_STATE_DIR="$out/state"
missed=0

# conclude CONCLUSION EXPECTED REACHED
conclude() {
    [ "$2" = "$3" ] || missed=1
    jq -cn --arg case "$case" --arg conclusion "$1" --arg expected "$2" --arg reached "$3" \
        '{$case, $conclusion, $expected, $reached}' | tee -a "$out/conclusions"
}

# vm [--with PROGRAM]... SHAPE JOB [FILE]...: boots a machine of lab/shapes and runs JOB in it, as lab/vm does. JOB
# writes a compressed tar archive to its standard output, which is unpacked in DIR.
vm() {
    "$tree/lab/vm" --rxlab "$rxlab" "$@" >"$out/guest.tar.gz" ||
        fail "the guest failed: exit code $?; its messages are in the newest .console of ${RXLAB_LAB_CACHE:-/var/tmp/rxlab-lab}"
    tar -xzf "$out/guest.tar.gz" -C "$out"
    rm "$out/guest.tar.gz"
}
