#!/usr/bin/env bash
# Every benchmark program starts: its help is printed with status 0, and without a GPU (or with a wrong word) it ends with status 2 and
# says why. For machines without a GPU. The programs are built first: cargo build --release -p layernorm-gpu-bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${1:-target/release}
python=${PYTHON:-python3}

# Status, a word that is said, the command.
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
expect 2 'expected one of the words below' "$target/layernorm-gpu-bench" nonsense
expect 0 'recurrent: LSTMs and GRUs' "$target/recurrent" --help
expect 2 'a GPU is needed' "$target/recurrent" check quick
expect 2 'expected check, time or warm' "$target/recurrent" nonsense
expect 0 'usage: compare.py' "$python" bench/gpu/compare.py --help
expect 2 'needed' "$python" bench/gpu/compare.py --quick
