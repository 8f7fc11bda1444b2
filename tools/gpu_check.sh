#!/bin/sh
# Everything that needs a GPU, in one run: build for this machine's GPU, all tests on CPU and GPU, compute-sanitizer over
# the tests of every kernel, then the benchmarks. tools/gpu_check.sh [FOLDER for results]   default: build/gpu
# STAGES (default "build test sanitize bench") chooses parts.
set -u
cd "$(dirname "$0")/.."
results=${1:-build/gpu}
stages=${STAGES:-build test sanitize bench}
mkdir -p "$results"
failures=0

note() { echo "gpu_check: $*"; }
run() {  # run NAME COMMAND...: output to a file, one line here
  name=$1
  shift
  start=$(date +%s)
  if "$@" >"$results/$name.log" 2>&1; then
    note "$name: ok, $(($(date +%s) - start)) s"
  else
    failures=$((failures + 1))
    note "$name: FAILED after $(($(date +%s) - start)) s"
    tail -n "${SHOW_LINES:-40}" "$results/$name.log"
  fi
}
has() { case " $stages " in *" $1 "*) true ;; *) false ;; esac; }

nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.max.sm,clocks.max.mem --format=csv,noheader || exit 1
if has build; then
  run configure cmake --preset cuda -G Ninja
  run build cmake --build --preset cuda --parallel "$(nproc)"
fi
program=build/cuda/apps/ocellus
if has test; then
  run tests ctest --test-dir build/cuda --parallel 8 --output-on-failure --timeout 300
fi
if has sanitize; then
  # The kernels' tests alone hold every kernel; whole models would take hours under these tools.
  for tool in memcheck racecheck initcheck synccheck; do
    run "$tool" env OCELLUS_TEST_SMALL=1 timeout 280 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      build/cuda/tests/test_kernels --test-case-exclude="*on every target*" &
  done
  wait
fi
if has bench; then
  sh tools/bench/gpu_bench.sh "$program" "$results"
fi
note "$failures failures"
[ "$failures" -eq 0 ]
