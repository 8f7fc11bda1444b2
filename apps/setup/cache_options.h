// Flags of the cache: method, share and bits.
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
  int32_t value_bits = 0;            // if values differ from keys; 0: the same
  std::string layer_bits;            // bits by layer, "2,4/2,1", instead of `bits`; empty: the same in all
  std::string calibration;           // "none", "auto" or "T1,T2"; empty: auto, unless the scheme has taus
  std::string scheme = "per-image";  // as ocellus_cache_policy.kv_scheme
  std::string evict = "none";        // as ocellus_cache_policy.evict
  float keep = 1.0f;
  std::string reduce = "none";  // as ocellus_limits.reduce
  float reduce_keep = 1.0f;
  float reduce_ms = 0;
  std::optional<std::string> compress_at;  // nullopt: the command's own default
  std::string reuse;                       // "none", "carry:16", "mpic:all"; empty: as the library needs it
  std::string library_path;
  bool notes_new_library = false;  // making one is not what the command is for
  std::string owner;
  int64_t library_cache_bytes = 0;
  std::optional<int32_t> shared_images;  // nullopt: the command's own default

  // The same bits everywhere.
  void set_bits(int32_t all) {
    bits = all;
    value_bits = 0;
    layer_bits.clear();
  }
  bool packs() const { return bits < 16 || !layer_bits.empty(); }
  bool is_kivi() const { return method_name(scheme) == "kivi"; }
};

// `options` must outlive the parser, here and below. Bits and calibration:
void add_packing_flags(CLI::App* command, CacheOptions* options);
// Methods, of which the help names those `shown`.
void add_method_flags(CLI::App* command, CacheOptions* options, MethodNames shown);
// `standard`: when pictures are compressed by default.
void add_reuse_flags(CLI::App* command, CacheOptions* options, const std::string& standard);
// The library is named by --library, or is an argument of the command, which then requires --owner.
enum class LibraryPlace { kFlag, kArgument };
void add_library_flags(CLI::App* command, CacheOptions* options, LibraryPlace place);

// Throws a Failure if two options contradict each other. Calibration "auto" reads the calibration file of `model_path`,
// if it has these bits; for made-up weights, which have no path, it is tau 0 and 2 at 1 bit, so that memory and speed
// have its cost. `notes`: receives remarks on these options and on the calibration in use.
ocellus_cache_policy cache_policy(const CacheOptions& options, const std::string& model_path,
                                  std::vector<std::string>* notes);

// True if reused pictures have the same slots in every prompt, so that sessions may share them.
bool can_share_images(const CacheOptions& options);

// Sets the reuse of stored images. Throws a Failure if the options contradict each other.
void set_reuse(const CacheOptions& options, ocellus_limits* limits);

// Sets which rows of pictures are read. `notes`: receives remarks.
void set_reduction(const CacheOptions& options, ocellus_limits* limits, std::vector<std::string>* notes);

// The policy in the words of the flags, for reports.
nlohmann::ordered_json policy_json(const ocellus_limits& limits);
std::string describe_policy(const ocellus_limits& limits);

}  // namespace ocellus::app
