// Searches of ocellus plan: the most bits, the greatest share, and a table of both.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/setup/options.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Bits of visual keys and values, and the fraction of the cache that is kept.
struct CacheChoice {
  int32_t bits = 16;
  float keep = 1.0f;
};

// The user's flags with this choice; below 1 the method is DAVID unless another was given.
CommonOptions with_choice(CommonOptions options, const CacheChoice& choice);

// Finds the smallest loss whose plan fits the budget; false if none does, and *options then are those with the greatest
// loss. Bits go down from 16 to 1, shares in steps of 1 %.
bool solve_bits(const Model& model, const Needs& needs, CommonOptions* options);
bool solve_keep(const Model& model, const Needs& needs, CommonOptions* options);

// Maximum number of pictures per session, and the limit that sets it.
struct MostPictures {
  int32_t in_budget = -1;   // -1: no budget
  int32_t in_context = -1;  // by the model's positions, after the planned text; -1: the model states no limit
  bool is_known() const { return in_budget >= 0; }
  bool is_bounded_by_context() const { return in_context >= 0 && in_context < in_budget; }
  int32_t count() const { return is_bounded_by_context() ? in_context : in_budget; }
};
MostPictures most_pictures(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan);

// A change of the plan's advice with which pictures fit where not one does without, and how many do then.
struct FittingChange {
  int32_t pictures = 0;  // 0: there is none
  std::string text;
};
// The change, or two, with which the most pictures fit, all as they were planned.
FittingChange find_fitting_change(const Model& model, const Needs& needs, const CommonOptions& options);

// Bytes of a full session's cache in f16, with nothing dropped.
int64_t full_cache_bytes(const Model& model, ocellus_limits limits);

// Plans for each of 16, 8, 4, 2, 1 bits and 100, 50, 20, 10, 5 %.
struct PlannedChoice {
  CacheChoice choice;
  ocellus_limits limits;
  int64_t kv_bytes = 0;  // cache of a full session
  int64_t total_bytes = 0;
  MostPictures most;
};
std::vector<PlannedChoice> plan_choices(const Model& model, const Needs& needs, const CommonOptions& options);

std::string choices_table(const std::vector<PlannedChoice>& choices, const CommonOptions& options);
nlohmann::ordered_json choices_json(const std::vector<PlannedChoice>& choices, const CommonOptions& options);

}  // namespace ocellus::app
