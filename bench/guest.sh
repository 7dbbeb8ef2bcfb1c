# Sourced by programs of bench/ that run a job in a guest: reads --program and --out into `program` and `out`, which has its default
# before, and makes the folder `work`, which goes at the end. Anything else prints the head of the program `self`.
program=$PWD/target/release/rxlab
while [ $# -gt 0 ]; do
  case $1 in
  --program) program=$2 && shift ;;
  --out) out=$2 && shift ;;
  *) sed -n '2,/^set/p' "$self" | sed '$d; s/^# \{0,1\}//' >&2 && exit 2 ;;
  esac
  shift
done
[ -x "$program" ] || { echo "${self##*/}: program $program not found: run make build" >&2 && exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
