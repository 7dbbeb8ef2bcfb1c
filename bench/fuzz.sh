#!/bin/sh
# Fuzzes every parser: RUNS inputs each, or SECONDS, whichever comes first. Prints one line per parser.
#
#   bench/fuzz.sh [RUNS [SECONDS [NAME...]]]      (default: 10000000 600, all)
#
# Needs a C++ compiler for libFuzzer, which comes with the crate libfuzzer-sys. Inputs with new
# coverage are kept in fuzz/corpus, inputs that break a parser in fuzz/artifacts; neither is committed.
# Exit code 1 if a parser broke.
set -eu

cd "$(dirname "$0")/../fuzz"
runs=${1:-10000000}
seconds=${2:-600}
[ $# -le 2 ] && set -- || shift 2

target=$(rustc -vV | sed -n 's/^host: //p')
# LLVM's own pass inserts the coverage; a stable compiler has it, as an LLVM
# argument. With --target, build scripts and macros stay without it.
coverage="-Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
# Memory that one input has freed is there for the next: half the time of load/http2, whose histograms are large.
export MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000
# All parts of a run use the program built at its beginning.
[ -n "${RXLAB_FUZZ_PART:-}" ] || RUSTFLAGS=$coverage cargo build --quiet --release --target "$target"
program=target/$target/release/parsers
[ $# -gt 0 ] || set -- $(RXLAB_FUZZ=list "$program" -artifact_prefix=artifacts/ 2>/dev/null || true)

# The running kernel's files are a better start than nothing.
seed() {
    case $1 in
    parse/interrupts | parse/softirqs | parse/stat) cat "/proc/${1#parse/}" ;;
    parse/softnet) cat /proc/net/softnet_stat ;;
    parse/net_dev) cat /proc/net/dev ;;
    *) return 0 ;;
    esac >"corpus/$1/this-machine"
}

# One at a time unless RXLAB_FUZZ_JOBS is set higher.
if [ "${RXLAB_FUZZ_JOBS:-1}" -gt 1 ]; then
    printf '%-28s %12s %8s  %s\n' parser inputs seconds result
    printf '%s\n' "$@" | RXLAB_FUZZ_PART=1 xargs -P "$RXLAB_FUZZ_JOBS" -n 1 \
        env RXLAB_FUZZ_JOBS=1 ../bench/fuzz.sh "$runs" "$seconds"
    exit
fi

status=0
[ -n "${RXLAB_FUZZ_PART:-}" ] || printf '%-28s %12s %8s  %s\n' parser inputs seconds result
for name; do
    mkdir -p "corpus/$name" "artifacts/$name"
    seed "$name"
    log=$(mktemp)
    begin=$(date +%s)
    result=ok
    RXLAB_FUZZ=$name "$program" "corpus/$name" -runs="$runs" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -max_len=512 -print_final_stats=1 "-artifact_prefix=artifacts/$name/" \
        >"$log" 2>&1 || { result="BROKEN: see fuzz/artifacts/$name"; status=1; }
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-28s %12s %8s  %s\n' "$name" "${inputs:-?}" "$(($(date +%s) - begin))" "$result"
    [ "$result" = ok ] || tail -n 20 "$log"
    rm -f "$log"
done
exit $status
