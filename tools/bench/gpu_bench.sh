#!/bin/sh
# Every figure that is claimed for GPUs, measured by one program on one machine in one go.
# tools/bench/gpu_bench.sh PROGRAM FOLDER    writes FOLDER/<name>.json; a line per measurement to stdout
set -u
program=$1
folder=$2
mkdir -p "$folder"
measure() {  # measure NAME ARGUMENT...
  name=$1
  shift
  start=$(date +%s)
  echo "ocellus bench --device cuda --quiet --json $*" >"$folder/bench_$name.command"
  if "$program" bench --device cuda --quiet --json "$@" >"$folder/bench_$name.json" 2>"$folder/bench_$name.log"; then
    echo "bench $name ($(($(date +%s) - start)) s)"
    python3 "$(dirname "$0")/show_bench.py" "$folder/bench_$name.json"
  else
    echo "bench $name FAILED: $(tail -n 3 "$folder/bench_$name.log")"
  fi
}
only=${ONLY:-all}
wanted() { [ "$only" = all ] || case " $only " in *" $1 "*) true ;; *) false ;; esac; }

wanted bundled && measure bundled -r 5 --images 16 -b 16
for format in F16 Q8_0 Q4_K; do
  wanted 2.2b && measure "smolvlm2_2.2b_$format" --shape SmolVLM2-2.2B --format $format -p 2048 -n 128 -r 3 --images 1
done
for format in F16 Q8_0 Q4_K; do
  wanted 8b && measure "internvl2.5_8b_$format" --shape InternVL2.5-8B --format $format -p 512 -n 64 -r 3 -b 16
done
wanted 256m && measure smolvlm_256m_Q8_0 --shape SmolVLM-256M --format Q8_0 -r 3 --images 1 -d 1024
wanted 7b && measure llava_7b_Q8_0 --shape LLaVA-1.5-7B --format Q8_0 -p 512 -n 64 -r 3
wanted 26b && measure internvl2.5_26b_Q4_K --shape InternVL2.5-26B --format Q4_K -p 512 -n 64 -r 2
exit 0
