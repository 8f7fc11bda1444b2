// Flags of features that may be left out, a source for each in branches/: its flags, what they set, and what it
// refuses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ocellus.hpp"

namespace CLI {
class App;
}

namespace ocellus::app {

struct CommonOptions;
struct Model;

// `options` must outlive the parser, in all add_ functions. The set_ functions throw a Failure for options that
// contradict each other; `notes` receives remarks. make_limits() calls them in an order of their own: reuse looks at
// what packing and the library have set, and drafts and kept views come last, as they are tried in the budget.

// constrain: a schema, a grammar or a regular expression that answers follow.

// A constraint as it was given, and the engine's, which is there while the engine is.
struct AnswerConstraint {
  int32_t kind = OCELLUS_CONSTRAINT_SCHEMA;
  std::string text;
  std::string place;      // the text's, for sentences: a file, a flag
  std::string note = {};  // printed when it is compiled
  const ocellus_constraint* compiled = nullptr;
};
struct ConstrainOptions {
  std::shared_ptr<AnswerConstraint> given;  // null: none
  int32_t planned = 0;                      // reserved for requests
  int64_t bytes = 0;                        // memory of each; 0: the library's own

  bool answers_in_json() const { return given != nullptr && given->kind == OCELLUS_CONSTRAINT_SCHEMA; }
  const ocellus_constraint* params() const { return given == nullptr ? nullptr : given->compiled; }
};
void add_constraint_flags(CLI::App* command, ConstrainOptions* options);  // all but --schema-size
void add_constraint_size_flag(CLI::App* command, ConstrainOptions* options);
void set_constraints(const ConstrainOptions& options, ocellus_limits* limits);
// Compiles what was given for an engine that was planned for it; empty if there is none. Throws a Failure that names
// its place.
Constraint compile_constraint(const Engine& engine, const ConstrainOptions& options, bool quiet);

// draft: speculative decoding.

struct DraftOptions {
  std::optional<ocellus_draft> kind;  // nullopt: off, unless tried
  int32_t rows = 7;
  bool is_tried = false;  // frames of a camera: drafts are planned where they fit

  ocellus_draft params() const { return kind.value_or(OCELLUS_DRAFT_AUTO); }
};
void add_draft_flags(CLI::App* command, DraftOptions* options);
// As asked for or, for a camera's frames and constraints, where drafts are useful and fit the budget.
void set_drafts(const Model& model, const CommonOptions& options, ocellus_limits* limits);

// evict: which tokens of the cache are kept, and when pictures are compressed.

inline constexpr const char* kCompressTimes[] = {"prompt-end", "before-suffix", "image-end"};  // by compress_at
struct EvictOptions {
  std::string method = "none";  // as ocellus_cache_policy.evict
  float keep = 1.0f;
  std::optional<std::string> compress_at;  // nullopt: the command's own default
};
void add_evict_flags(CLI::App* command, EvictOptions* options);
// Commands that count answers compress pictures before the suffix: one-word answers show the loss only if the
// compressed cache is read before the first token.
void add_compress_flag(CLI::App* command, EvictOptions* options);
void set_eviction(const EvictOptions& options, ocellus_limits* limits, std::vector<std::string>* notes);

// library: caches of pictures on the disk.

struct LibraryOptions {
  std::string path;        // empty: none
  bool notes_new = false;  // making one is not what the command is for
  std::string owner;
  int64_t cache_bytes = 0;
};
// --library, unless the command names its library by an argument; it then requires --owner.
void add_library_flags(CLI::App* command, LibraryOptions* options);
void set_library(const LibraryOptions& options, ocellus_limits* limits);
// True if the folder is a library, false if it is missing or has no files. Throws a Failure for a file or another
// folder.
bool holds_library(const std::string& path);
// Opens a library; makes one of a folder that is missing or empty.
Library open_library(const std::string& path);
// Opens a library but creates none: a command that only reads one was given a wrong name if it is missing.
Library open_existing_library(const std::string& path);
// Lists the entries that the owner sees, in the order of addition.
std::vector<ocellus_library_item> list_items(const Library& library, const std::string& owner);
// A model's text as a library's caption: one line without control characters, cut at a character's end.
std::string make_caption(const std::string& text);

// pack: the bits of cached pictures, their scheme and their calibration.

struct PackOptions {
  int32_t bits = 16;
  int32_t value_bits = 0;            // if values differ from keys; 0: the same
  std::string layer_bits;            // bits by layer, "2,4/2,1", instead of `bits`; empty: the same in all
  std::string calibration;           // "none", "auto" or "T1,T2"; empty: auto, unless the scheme has taus
  std::string scheme = "per-image";  // as ocellus_cache_policy.kv_scheme

  // The same bits everywhere.
  void set_bits(int32_t all) {
    bits = all;
    value_bits = 0;
    layer_bits.clear();
  }
  bool packs() const { return bits < 16 || !layer_bits.empty(); }
};
void add_bits_flags(CLI::App* command, PackOptions* options);  // and calibration
void add_scheme_flag(CLI::App* command, PackOptions* options);
// Calibration "auto" reads the calibration file of `model_path`, if it has these bits; for made-up weights, which have
// no path, it is tau 0 and 2 at 1 bit, so that memory and speed have its cost.
void set_packing(const PackOptions& options, const std::string& model_path, ocellus_limits* limits,
                 std::vector<std::string>* notes);

// reduce: which tokens of pictures are read.

struct ReduceOptions {
  std::string method = "none";  // as ocellus_limits.reduce
  float keep = 1.0f;
  float target_ms = 0;
};
void add_reduce_flags(CLI::App* command, ReduceOptions* options);
void set_reduction(const ReduceOptions& options, ocellus_limits* limits, std::vector<std::string>* notes);

// reuse: pictures that are linked into other prompts, shared by sessions or not encoded again.

struct ReuseOptions {
  std::string method;                    // "none", "carry:16", "mpic:all"; empty: as the library needs it
  std::optional<int32_t> shared_images;  // nullopt: the command's own default
  bool keeps_views = false;              // pictures come again: kept views are planned where they fit
  std::optional<int32_t> kept_views;     // nullopt: none, unless `keeps_views`
  float view_change = 0;
};
void add_reuse_flags(CLI::App* command, ReuseOptions* options);
void add_kept_view_flags(CLI::App* command, ReuseOptions* options);
// True if reused pictures have the same slots in every prompt, so that sessions may share them.
bool can_share_images(const CommonOptions& options);
void set_reuse(const ReuseOptions& options, ocellus_limits* limits);
// As asked for or, where pictures come again, as many as are useful and fit the budget.
void set_kept_views(const Model& model, const ReuseOptions& options, ocellus_limits* limits);
// The reuse in the words of --reuse.
std::string reuse_text(const ocellus_limits& limits);

}  // namespace ocellus::app
