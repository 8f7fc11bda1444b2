// The flags that say what of the cache is kept, and in how many bits.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/setup/method_list.h"
#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

struct CacheOptions {
  int32_t bits = 16;
  std::string layer_bits;             // "2,1,1,4": by layer, in place of bits; empty: the same in all
  std::string calibration = "none";   // "none", "auto" or "T1,T2"
  std::string scheme = "calibquant";  // as ocellus_cache_policy.kv_scheme
  std::string evict = "none";         // as ocellus_cache_policy.evict
  float keep = 1.0f;
  std::optional<std::string> compress_at;  // the command's own default
  std::string reuse;                       // "none", "carry:16", "mpic:all"; empty: as the library needs it
  std::string library_path;
  std::string owner;
  int64_t library_cache_bytes = 0;

  bool packs() const { return bits < 16 || !layer_bits.empty(); }
  bool is_kivi() const { return method_name(scheme) == "kivi"; }
};

// What the command leaves to the user: with kOwnPacking it sets bits and calibration itself, with kOwnLibrary the
// library, of which an owner must be named. With kAllMethods its help names every method, not only the few to begin
// with.
enum class CacheFlags { kAll, kAllMethods, kOwnPacking, kOwnLibrary };

// `options` must outlive the parser.
void add_cache_options(CLI::App* command, CacheOptions* options, CacheFlags flags);

// A Failure if two options contradict each other. "auto" reads the calibration from the file beside `model_path`, if
// there is one for these bits. `notes`: what the user may not expect of these options.
ocellus_cache_policy cache_policy(const CacheOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes);

// How stored images are used. A Failure if the options mean nothing together.
void set_reuse(const CacheOptions& options, ocellus_limits* limits);

// As the flags would say it, for reports.
nlohmann::ordered_json policy_json(const ocellus_limits& limits);
std::string describe_policy(const ocellus_cache_policy& policy);

}  // namespace ocellus::app
