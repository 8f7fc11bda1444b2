#include "apps/help/help_words.h"

#include <algorithm>
#include <iterator>

namespace ocellus::app {
namespace {

constexpr GroupWords kGroupWords[] = {
    {"Source", "camera, files, scenes"},
    {"Watching", "prompt, pace, memory"},
    {"Days", "frames kept in a library"},
    {"Page", "web page, history"},
    {"Events", "triggers, metrics"},
    {"Server", "address, queue, names"},
    {"Access", "tokens, keys, origins"},
    {"Requests", "their limits and forms"},
    {"Plan", "what is planned, shown"},
    {"Questions", "which of them"},
    {"Text", "windows of tokens"},
    {"Calibration", "bits, file"},
    {"Benchmark", "tokens, rounds, table"},
    {"Entries", "tags, captions, expiry"},
    {"Search", "words or a picture"},
    {"Prompt", "the question, its place"},
    {"Video", "frames of a clip"},
    {"Answers", "length, form, thoughts"},
    {"Sampling", "temperature, penalties"},
    {"Output", "JSON, plots, traces"},
    {"Model", "files, device, threads"},
    {"Memory", "budget, planned limits"},
    {"Cache", "bits, eviction"},
    {"Reuse", "known pictures, library"},
    {"Real time", "priority, CPUs, RAM"},
};

struct UsualFlags {
  std::string_view command, names;
};
constexpr UsualFlags kUsualFlags[] = {
    {"caption", "--prompt -n --schema --model --mmproj --hf-repo --device --budget --kv-bits --json --quiet"},
    {"ask", "--prompt --clip --boxes --choices --schema -n --model --mmproj --device --budget --kv-bits --json"},
    {"chat",
     "-n --temp --think-tokens --model --mmproj --hf-repo --device --budget --images --text-tokens --kv-bits "
     "--library"},
    {"watch", "--prompt --http --token --every --memory --schema --on --model --mmproj --hf-repo --device --budget"},
    {"serve",
     "--http --token --queue --deadline --model --mmproj --device --budget --sessions --images --text-tokens "
     "--library"},
    {"plan",
     "--solve --table --machine --model --mmproj --shape --budget --images --text-tokens --image-pixels --kv-bits "
     "--json"},
    {"eval", "--per-question --limit --perplexity --model --mmproj --device --kv-bits --evict --keep --reuse --json"},
    {"perplexity", "--tokens --window --context --model --device --kv-bits --kv-scheme --evict --keep --json"},
    {"calibrate", "--kv-bits --layer-bits --limit --dry-run --force --model --mmproj --device --kv-scheme --json"},
    {"bench", "-p -n -d -b -r --output --model --mmproj --shape --device --images --kv-bits"},
    {"library add",
     "--owner --tag --caption --describe --expires --pin --shared --model --mmproj --device --kv-bits --json"},
    {"library search", "--owner --text --image -n --model --mmproj --device --json"},
};

constexpr CommandWords kCommandWords[] = {
    {"Pictures and videos", "caption ask chat watch serve"},
    {"Memory", "plan library"},
    {"Quality and speed", "eval perplexity calibrate bench"},
    {"Models and machine", "models pull make-model methods devices pages"},
};

}  // namespace

std::span<const GroupWords> group_words() { return kGroupWords; }

std::string_view usual_flags(std::string_view command) {
  const auto found = std::find_if(std::begin(kUsualFlags), std::end(kUsualFlags),
                                  [command](const UsualFlags& one) { return one.command == command; });
  return found == std::end(kUsualFlags) ? std::string_view() : found->names;
}

std::span<const CommandWords> command_words() { return kCommandWords; }

}  // namespace ocellus::app
