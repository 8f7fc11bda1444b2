#!/bin/sh
# Everything that needs a GPU, in one run: builds for this machine's GPU, runs the benchmarks, all tests on CPU and GPU,
# and compute-sanitizer over the tests of every kernel.
# tools/gpu_check.sh [FOLDER for logs and results]    default: build/gpu
# STAGES (default "build bench test sanitize") chooses parts. Besides them there is "figures", what tests/RELIABILITY.md needs
# of a GPU beside "sanitize": it builds what both run. And there is "orin": this machine's GPU runs what a Jetson Orin runs,
# kernels made from PTX for compute capability 8.7 and memory that CPU and GPU share. It compares answers and speed with the
# native program, which it builds if "build" has not. ORIN_TESTS, ORIN_SHARED_TESTS and ORIN_BENCH choose among what it
# runs, as "kernels|mm", "sessions" and "256m", or "none".
set -u
cd "$(dirname "$0")/.."
results=${1:-build/gpu}
stages=${STAGES:-build bench test sanitize}
mkdir -p "$results"
failures=$results/failures
: >"$failures"

has() { case " $stages " in *" $1 "*) true ;; *) false ;; esac; }
run() { # run NAME COMMAND...: its output goes to a file, one line here, and the end of it after a failure
  name=$1
  shift
  start=$(date +%s)
  if "$@" >"$results/$name.log" 2>&1; then
    echo "gpu_check: $name: ok, $(($(date +%s) - start)) s"
  else
    echo "gpu_check: $name: FAILED after $(($(date +%s) - start)) s"
    echo "$name" >>"$failures"
    tail -n "${SHOW_LINES:-25}" "$results/$name.log"
  fi
}

check_races() { # check_races COMMAND...: racecheck does not follow the barriers of cuBLASLt's own Hopper kernels ("nvjet"),
  # and reports races in them. A run in which it reports nothing else, and every test case passes, is a good one.
  "$@" && return
  log=$results/$name.log
  grep -q "Status: SUCCESS" "$log" && ! grep -q "Internal Sanitizer Error" "$log" &&
    ! grep -E "Race reported|and (Read|Write) access" "$log" | grep -qv nvjet
}

sanitize() { # sanitize NAME TOOL PROGRAM...
  checked=$1
  tool=$2
  shift 2
  [ "$tool" = racecheck ] && judge=check_races || judge=
  run "$checked" $judge env OCELLUS_TEST_SMALL=1 OCELLUS_TEST_NEEDS_GPU=1 timeout "${SANITIZE_SECONDS:-280}" \
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$@"
}

nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.max.sm,clocks.max.mem --format=csv,noheader || exit 1
if has build; then
  run configure cmake --preset cuda -G Ninja
  run build cmake --build --preset cuda --parallel "$(nproc)"
fi
if has figures; then
  run configure-figures cmake --preset cuda -G Ninja
  run build-figures cmake --build --preset cuda --parallel "$(nproc)" \
    --target ocellus_app test_kernels test_mm test_allocation deadline_bench
  run rolling env OCELLUS_TEST_ROLLING_IMAGES=2000 OCELLUS_TEST_NEEDS_GPU=1 build/cuda/tests/test_allocation \
    -tc='*picture after picture*'
  run deadline build/cuda/bench/deadline_bench apps/models/shapeboard-34m-q8_0.gguf \
    apps/models/mmproj-shapeboard-34m-q8_0.gguf cuda 1000
  run cublaslt-heap sh findings/cublaslt-heap.sh
fi
if has bench; then
  for bench in decode_kernels attend_step attend_rows cublas_rate vision; do
    run "$bench" "build/cuda/bench/${bench}_bench"
  done
  sh tools/bench/gpu_bench.sh build/cuda/apps/ocellus "$results"
  run bounds python3 tools/bench/check_bounds.py build/cuda/apps/ocellus "$results" --within 2
fi
if has test; then
  run tests ctest --test-dir build/cuda --parallel 8 --output-on-failure --timeout 300
fi
caption() { # caption NAME PROGRAM ARGUMENT...: captions of the samples, without their times
  captions=$results/captions_$1.txt
  program=$2
  shift 2
  "$program" caption --device cuda:0 --quiet "$@" apps/samples/*.png >"$captions"
}
same_captions() { caption "$@" && cmp "$results/captions_native.txt" "$captions"; }
if has orin; then
  run configure-orin cmake --preset cuda-orin -G Ninja
  run build-orin cmake --build --preset cuda-orin --parallel "$(nproc)" \
    --target ocellus_app test_kernels test_mm test_runtime
  [ -x build/cuda/apps/ocellus ] || run build-native sh tools/build.sh cuda ocellus_app
  orin=build/cuda-orin/apps/ocellus
  run orin-code sh -c "$orin devices --json | tee /dev/stderr | grep -q '\"code_capability\": *\"8.7\"'"
  run orin-tests ctest --test-dir build/cuda-orin --parallel 8 --output-on-failure --timeout 300 \
    -R "^(${ORIN_TESTS:-kernels|mm|runtime|sessions|library})_cuda$"
  run orin-shared env OCELLUS_TEST_GPU_MEMORY=2 ctest --test-dir build/cuda-orin --parallel 3 --output-on-failure \
    --timeout 300 -R "^(${ORIN_SHARED_TESTS:-runtime|sessions|library})_cuda$"
  run captions-native caption native build/cuda/apps/ocellus
  run captions-orin same_captions orin "$orin"
  for memory in shared mapped; do run "captions-$memory" same_captions "$memory" "$orin" --gpu-memory "$memory"; done
  for program in cuda cuda-orin; do
    echo "gpu_check: speed of build/$program"
    ONLY="${ORIN_BENCH:-bundled 256m 2.2b}" sh tools/bench/gpu_bench.sh "build/$program/apps/ocellus" "$results/$program"
  done
fi
if has sanitize; then
  # The kernels' tests hold every kernel, those of mm what is made of them; whole models would take hours under most of
  # these tools. A share of the cases to each process, all at once: racecheck is the slowest by far.
  cases=$(build/cuda/tests/test_kernels --count --no-colors | grep -o '[0-9]*$' | tail -n 1)
  for tool in memcheck racecheck initcheck synccheck; do
    [ "$tool" = racecheck ] && shares=12 || shares=2
    share=$(((cases + shares - 1) / shares))
    for first in $(seq 1 "$share" "$cases"); do
      sanitize "$tool-from-$first" "$tool" build/cuda/tests/test_kernels --first="$first" --last=$((first + share - 1)) &
    done
    sanitize "$tool-mm" "$tool" build/cuda/tests/test_mm &
  done
  sanitize memcheck-caption memcheck build/cuda/apps/ocellus caption --device cuda:0 -n 4 apps/samples/board_01.png &
  wait
fi
echo "gpu_check: $(wc -l <"$failures") failed"
[ ! -s "$failures" ]
