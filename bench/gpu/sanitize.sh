#!/usr/bin/env bash
# compute-sanitizer over every kernel: its four tools, over the norms, the recurrent layers and the crate's own tests.
#
#     bash bench/gpu/sanitize.sh PROGRAMS LOGS [SECONDS]
#
# PROGRAMS is Cargo's target/release, after
#     cargo build --release -p layernorm-gpu-bench && cargo test --release -p layernorm-cuda --test gpu --no-run
# or a folder with layernorm-gpu-bench, recurrent and that test as gpu.
# A plain run compiles the kernels and puts them on disk; then the tools run side by side, each for at most SECONDS (300; racecheck
# is the slowest: minutes beside the others).
# Ends with a line a run, and fails if any found something or was not done in time.
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
    echo "$name $tool: exit $code; $(grep -a -E 'ERROR SUMMARY|RACECHECK SUMMARY|CPU.s bits, in|cases hold|test result|not done' "$log" | tr '\n' ' ')"
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
