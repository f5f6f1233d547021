#!/usr/bin/env bash
# Runs compute-sanitizer over every kernel: its four tools on the norms, the recurrent layers and the crate's own tests.
#
#     bash bench/gpu/sanitize.sh PROGRAMS LOGS [SECONDS]
#
# PROGRAMS is Cargo's target/release, after
#     cargo build --release -p layernorm-gpu-bench && cargo test --release -p layernorm-cuda --test gpu --no-run
# or a folder with layernorm-gpu-bench, recurrent and that test as gpu.
# A plain run compiles the kernels and caches them on disk. Then the tools run in parallel, each for at most SECONDS (default: 300;
# racecheck is the slowest and takes minutes next to the others).
# Prints one line per run, and fails if any run found an error or did not finish in time.
set -uo pipefail
programs=$1 logs=$2 limit=${3:-300}
mkdir -p "$logs"
export LAYERNORM_CUDA_CACHE=${LAYERNORM_CUDA_CACHE:-$(mktemp -d)}

tests=$(find "$programs/gpu" "$programs"/deps/gpu-* -maxdepth 0 ! -name '*.d' -printf '%T@ %p\n' 2> /dev/null | sort -rn | head -n 1)
declare -A calls=(
    [norms]="$programs/layernorm-gpu-bench check --reduced"
    [recurrent]="$programs/recurrent check reduced"
    [tests]="${tests#* }"
)
failed=0

one() {
    local name=$1 tool=$2 log="$logs/$1-$2.txt"
    shift 2
    timeout "$limit" "$@" > "$log" 2>&1
    local code=$?
    [ "$code" = 124 ] && echo "not done after $limit s" >> "$log"
    echo "$name $tool: exit $code; $(grep -a -E 'ERROR SUMMARY|RACECHECK SUMMARY|CPU.s bits, in|cases pass|test result|not done' "$log" | tr '\n' ' ')"
    return "$code"
}

all() {
    local jobs=()
    for name in "${!calls[@]}"; do
        for tool in "$@"; do
            local watch=()
            [ "$tool" = plain ] || watch=(compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 12)
            # shellcheck disable=SC2086  (words of a call)
            one "$name" "$tool" "${watch[@]}" ${calls[$name]} &
            jobs+=($!)
        done
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
}

all plain
all memcheck racecheck initcheck synccheck
exit "$failed"
