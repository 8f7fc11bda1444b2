#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"
#include "apps/setup/method_list.h"
#include "apps/setup/setup.h"

namespace ocellus::app {
namespace {

constexpr const char* kReuseNames[] = {"none", "mpic", "spread", "carry", "full", "mpic-tiles", "prefix", "cacheblend"};

bool takes_rows(int32_t reuse) {
  return reuse != OCELLUS_REUSE_NONE && reuse != OCELLUS_REUSE_FULL && reuse != OCELLUS_REUSE_PREFIX;
}

// Parses "full", "mpic:16", "spread:all".
bool parse_reuse(std::string_view text, ocellus_limits* limits) {
  const size_t colon = text.find(':');
  const auto* const name = std::find(kReuseNames + 1, std::end(kReuseNames), text.substr(0, colon));
  if (name == std::end(kReuseNames)) return false;
  limits->reuse = static_cast<int32_t>(name - kReuseNames);
  limits->reuse_rows = 0;
  if (!takes_rows(limits->reuse)) return colon == text.npos;
  if (colon == text.npos) return false;
  const std::string_view rows = text.substr(colon + 1);
  if (rows == "all") return limits->reuse_rows = -1, true;
  const auto [stop, error] = std::from_chars(rows.data(), rows.data() + rows.size(), limits->reuse_rows);
  const int32_t most = limits->reuse == OCELLUS_REUSE_BLEND ? 100 : INT32_MAX;
  return error == std::errc() && stop == rows.data() + rows.size() && limits->reuse_rows >= 0 &&
         limits->reuse_rows <= most;
}

int64_t views_of_picture(const Model& model, const ocellus_limits& limits) {
  if (model.facts.any_image_size != 0 || limits.max_clip_frames > 0) return 1;
  return limits.max_tiles > 0 ? std::min(limits.max_tiles + 1, model.facts.max_views) : model.facts.max_views;
}

// Enough for all pictures that are read at once, so that a question about them encodes none again, else for one.
int32_t useful_views(const Model& model, ocellus_limits limits) {
  const int64_t one = views_of_picture(model, limits);
  const int64_t pictures = limits.max_images + clip_pictures(model, limits.max_clip_frames);
  for (const int64_t views : {pictures * one, one}) {
    limits.kept_views = static_cast<int32_t>(std::min<int64_t>(views, OCELLUS_MOST_KEPT_VIEWS));
    if (fits_budget(model, limits)) return limits.kept_views;
  }
  return 0;
}

}  // namespace

void add_reuse_flags(CLI::App* command, ReuseOptions* options) {
  add_value(command, "Reuse", "--reuse", "none|mpic:K|mpic-tiles:K|spread:K|carry:K|cacheblend:R|full|prefix",
            &options->method,
            "Reuse of encoded pictures (default: none). Of a picture's tokens K are recomputed in place, the others "
            "reused; mpic: the first ones (of each tile), spread: spread over the picture, carry: these, and their "
            "change is applied to the others; cacheblend: the R percent that change most; full: all are reused; "
            "prefix: all, but only after the same text and pictures");
  add_value(command, "Reuse", "--shared-images", "N", &options->shared_images,
            "Reused pictures that all sessions share, each once on the device (default: 0, each session has its own). "
            "With carry each session has copies as well")
      ->check(number_between(0, 65536));
}

void add_kept_view_flags(CLI::App* command, ReuseOptions* options) {
  add_value(command, "Reuse", "--kept-views", "N", &options->kept_views,
            "Views of pictures that are not encoded again while their pixels stay the same (default: those of all "
            "pictures in a prompt, or of one if the budget is short). 0: none")
      ->check(number_between(0, OCELLUS_MOST_KEPT_VIEWS));
  add_value(command, "Reuse", "--view-change", "X", &options->view_change,
            "Treat a view as unchanged if no patch mean differs by more than X (default: 0). A share of full "
            "brightness, 0 to 1, for cameras with noise")
      ->check(number_between(0, 1));
}

bool can_share_images(const CommonOptions& options) {
  const std::string& reuse = options.reuse.method;
  const bool packs = options.pack.packs();
  const bool per_prompt = options.evict.keep < 1 || (packs && method_name(options.pack.scheme) != "per-image") ||
                          (packs && reuse.starts_with("cacheblend"));
  if (per_prompt) return false;
  if (reuse.empty()) return !options.library.path.empty() && packs;  // spread:16
  return reuse != "none" && !reuse.starts_with("carry");
}

void set_reuse(const ReuseOptions& options, ocellus_limits* limits) {
  const bool has_library = limits->library != 0;
  const bool packs = limits->cache.kv_bits < 16 || limits->cache.layer_bits_count > 0;
  const std::string best = packs ? "spread:16" : "carry:16";
  const std::string text = !options.method.empty() ? options.method : has_library ? best : "none";
  if (text == "none" && has_library)
    throw Failure(kExitUsage, "--library does nothing with --reuse none: give carry:K, as in carry:16.");
  if (text == "none" && options.shared_images.value_or(0) > 0)
    throw Failure(kExitUsage, "--shared-images shares reused pictures: add --reuse, as in --reuse mpic:32.");
  if (text == "none") return;
  limits->shared_images = options.shared_images.value_or(0);
  if (!parse_reuse(text, limits))
    throw Failure(kExitUsage, "--reuse " + text +
                                  ": write none, full, prefix, cacheblend:PERCENT, mpic:K, mpic-tiles:K, spread:K or "
                                  "carry:K, as in carry:16.");
}

void set_kept_views(const Model& model, const ReuseOptions& options, ocellus_limits* limits) {
  limits->kept_views = options.kept_views.value_or(options.keeps_views ? useful_views(model, *limits) : 0);
  limits->view_change = options.view_change;
}

std::string reuse_text(const ocellus_limits& limits) {
  const std::string name = kReuseNames[limits.reuse];
  if (!takes_rows(limits.reuse)) return name;
  return name + ":" + (limits.reuse_rows < 0 ? "all" : std::to_string(limits.reuse_rows));
}

}  // namespace ocellus::app
