// The flags that say what of the cache is kept, and in how many bits.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ocellus.h"

namespace CLI {
class App;
}

namespace ocellus::app {

struct CacheOptions {
  int32_t bits = 16;
  std::string layer_bits;  // "2,1,1,4": by layer, in place of bits; empty: the same in all
  int32_t scales = 16;
  std::string calibration = "none";  // "none", "auto" or "T1,T2"
  std::string evict = "none";
  float keep = 1.0f;
  std::optional<std::string> compress_at;  // the command's own default
  int32_t block_slots = 0;
  bool one_range = false;
  bool shrunk_ranges = false;
  int32_t window = 0;
  int32_t pool = 5;
  bool pool_mean = false;
  float rho = 2.0f;
  bool rho_alg28 = false;
  std::string ncar = "small-drop";
  float ncar_threshold = 0.3f;
  bool window_f16 = false;
  bool pack_text = false;
  float csp_cross = 0.5f;
  std::string scheme = "calibquant";
  int32_t residual = 0;
  std::string reuse;  // "none", "carry:16", "mpic:all"; empty: as the library needs it
  std::string library_path;
  std::string owner;
  int64_t library_cache_bytes = 0;

  bool packs() const { return bits < 16 || !layer_bits.empty(); }
  bool is_kivi() const { return scheme == "kivi"; }
};

// What the command leaves to the user: with kOwnPacking it sets bits and calibration itself, with kOwnLibrary the
// library, of which an owner must be named.
enum class CacheFlags { kAll, kOwnPacking, kOwnLibrary };

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
