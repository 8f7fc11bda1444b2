#include "apps/base/neighbour_flags.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

struct SameFlag {
  std::string_view theirs, ours;  // ours is empty: the value is an argument of its own
};
constexpr SameFlag kSame[] = {
    {"-p", "--prompt"},
    {"--image", ""},
    {"-t", "--threads"},
    {"-s", "--seed"},
    {"--n-predict", "-n"},
    {"--predict", "-n"},
    {"-mm", "--mmproj"},
    {"-np", "--sessions"},
    {"--parallel", "--sessions"},
    {"-ub", "--prompt-rows"},
    {"--ubatch-size", "--prompt-rows"},
    {"--temperature", "--temp"},
    {"-jf", "--schema"},
    {"--json-schema-file", "--schema"},
    {"--grammar-file", "--grammar"},
};

struct OtherFlag {
  std::string_view theirs, sentence;
};
constexpr std::string_view kContext =
    "the context is planned by its parts: --text-tokens N for text, --images N for pictures.";
constexpr std::string_view kLayers = "all layers run on one device: --device cuda or --device cpu.";
constexpr std::string_view kFused = "attention never stores its matrix of scores; leave it out.";
constexpr std::string_view kTemplate = "prompts always follow the chat template in the model's file; leave it out.";
constexpr std::string_view kPacked =
    "keys and values are packed together: --kv-bits 8, 4, 2 or 1 for those of pictures.";
constexpr std::string_view kSchema = "write the schema to a file and give it with --schema FILE.";
constexpr OtherFlag kOthers[] = {
    {"-c", kContext},
    {"--ctx-size", kContext},
    {"-ngl", kLayers},
    {"--gpu-layers", kLayers},
    {"--n-gpu-layers", kLayers},
    {"-fa", kFused},
    {"--flash-attn", kFused},
    {"--jinja", kTemplate},
    {"--no-jinja", kTemplate},
    {"--chat-template", kTemplate},
    {"-ctk", kPacked},
    {"--cache-type-k", kPacked},
    {"-ctv", kPacked},
    {"--cache-type-v", kPacked},
    {"-j", kSchema},
    {"--json-schema", kSchema},
};

constexpr std::string_view kCommands[] = {"ask", "caption", "chat", "serve", "watch"};

// Commands that take a model by name, and how llama.cpp and its users write that.
constexpr std::string_view kModelCommands = "ask caption chat serve watch plan eval perplexity calibrate bench library";
constexpr std::string_view kHubFlags = "-hf -hfr --hf";
// Their values may look like flags.
constexpr std::string_view kTexts[] = {"--prompt", "-p"};

template <class Flag, size_t kCount>
const Flag* find_flag(const Flag (&flags)[kCount], std::string_view name) {
  const auto found = std::find_if(std::begin(flags), std::end(flags), [&](const Flag& f) { return f.theirs == name; });
  return found == std::end(flags) ? nullptr : found;
}

// An argument as the name of a flag and the value after its equals sign.
struct GivenFlag {
  explicit GivenFlag(const std::string& argument) : name(argument.substr(0, argument.find('='))) {
    if (name.size() < argument.size()) value = argument.substr(name.size() + 1);
  }
  std::string name;
  std::optional<std::string> value;
};

// --host and --port make one address; either alone has llama.cpp's default for the other.
class Address {
 public:
  // Takes the flag and the argument after it, if it is one of the two; returns how many arguments that were.
  size_t take(const GivenFlag& flag, const std::string* next) {
    if (flag.name != "--host" && flag.name != "--port") return 0;
    if (!flag.value && next == nullptr) throw Failure(kExitUsage, flag.name + " needs a value.");
    (flag.name == "--host" ? host_ : port_) = flag.value ? *flag.value : *next;
    is_given_ = true;
    return flag.value ? 1 : 2;
  }
  void append(Arguments* out) const {
    if (!is_given_) return;
    const bool is_ipv6 = host_.find(':') != std::string::npos && host_[0] != '[';
    out->push_back("--http");
    out->push_back((host_ == "localhost" ? "127.0.0.1" : is_ipv6 ? "[" + host_ + "]" : host_) + ":" + port_);
  }

 private:
  std::string host_ = "127.0.0.1", port_ = "8080";
  bool is_given_ = false;
};

void append_translated(const GivenFlag& flag, const SameFlag& same, Arguments* out) {
  if (!same.ours.empty()) out->emplace_back(same.ours);
  if (flag.value) out->push_back(*flag.value);
}

// Writes these flags as `ours`; empty: their values are arguments of their own.
void translate_hub_flags(const std::string& ours, Arguments* arguments) {
  Arguments out;
  for (size_t i = 0; i < arguments->size(); ++i) {
    const std::string& argument = (*arguments)[i];
    const GivenFlag flag(argument);
    const bool is_text =
        i > 0 && std::find(std::begin(kTexts), std::end(kTexts), (*arguments)[i - 1]) != std::end(kTexts);
    const bool is_hub = !is_text && (lists_word(kHubFlags, flag.name) || (ours.empty() && flag.name == "--hf-repo"));
    if (is_hub && !ours.empty()) out.push_back(ours);
    if (!is_hub) out.push_back(argument);
    if (is_hub && flag.value) out.push_back(*flag.value);
  }
  *arguments = std::move(out);
}

}  // namespace

Arguments translate_neighbour_flags(Arguments arguments) {
  if (arguments.empty()) return arguments;
  if (lists_word(kModelCommands, arguments[0])) translate_hub_flags("--hf-repo", &arguments);
  if (arguments[0] == "pull") translate_hub_flags("", &arguments);
  if (std::find(std::begin(kCommands), std::end(kCommands), arguments[0]) == std::end(kCommands)) return arguments;
  const bool is_server = arguments[0] == "serve" || arguments[0] == "watch";
  Arguments out;
  Address address;
  for (size_t i = 0; i < arguments.size();) {
    const std::string& argument = arguments[i];
    const GivenFlag flag(argument);
    const bool is_text = i > 0 && std::find(std::begin(kTexts), std::end(kTexts), arguments[i - 1]) != std::end(kTexts);
    if (const OtherFlag* const other = is_text ? nullptr : find_flag(kOthers, flag.name))
      throw Failure(kExitUsage, flag.name + ": " + std::string(other->sentence));
    const std::string* const next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    const size_t taken = is_text || !is_server ? 0 : address.take(flag, next);
    const SameFlag* const same = is_text ? nullptr : find_flag(kSame, flag.name);
    if (taken == 0 && same != nullptr) append_translated(flag, *same, &out);
    if (taken == 0 && same == nullptr) out.push_back(argument);
    i += std::max<size_t>(taken, 1);
  }
  address.append(&out);
  return out;
}

}  // namespace ocellus::app
