#!/usr/bin/env bash
# Checks that every benchmark program starts: --help exits with status 0; without a GPU, or with an unknown argument, the program exits
# with status 2 and says why. For machines without a GPU. Build the programs first: cargo build --release -p layernorm-gpu-bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${1:-target/release}
python=${PYTHON:-python3}

# Arguments: the exit status, words in the output, the command.
expect() {
    local status=$1 said=$2 found=0 words
    shift 2
    words=$("$@" 2>&1) || found=$?
    if [ "$found" != "$status" ] || ! grep -q "$said" <<< "$words"; then
        printf '%s\n%s: expected status %s and "%s", found status %s\n' "$words" "$*" "$status" "$said" "$found"
        exit 1
    fi
    echo "ok   $*"
}

expect 0 'layernorm-gpu-bench: the norms' "$target/layernorm-gpu-bench" --help
expect 2 'a GPU is needed' "$target/layernorm-gpu-bench" check
expect 2 'expected one of the arguments below' "$target/layernorm-gpu-bench" nonsense
expect 0 'recurrent: LSTMs and GRUs' "$target/recurrent" --help
expect 2 'a GPU is needed' "$target/recurrent" check quick
expect 2 'expected check, time or warm' "$target/recurrent" nonsense
expect 0 'usage: compare.py' "$python" bench/gpu/compare.py --help
expect 2 'needed' "$python" bench/gpu/compare.py --quick
