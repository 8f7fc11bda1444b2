#include "apps/commands/plan_choices.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "apps/base/sizes.h"
#include "apps/base/table.h"

namespace ocellus::app {
namespace {

constexpr int32_t kBits[] = {16, 8, 4, 2, 1};
constexpr int32_t kKeepPercents[] = {100, 50, 20, 10, 5};

bool fits(const Model& model, const Needs& needs, CommonOptions options) {
  options.quiet = true;  // no remarks on tentative choices
  ocellus_limits limits = make_limits(model, options, needs);
  limits.budget_bytes = 0;  // no advice wanted
  return plan_memory(model, limits, options).total_bytes <= *options.budget_bytes;
}

// A change that makes a plan smaller and leaves the model's arithmetic as it is.
struct Change {
  std::string_view flags;
  bool (*is_new)(const CommonOptions& options);
  void (*apply)(CommonOptions* options);
};
constexpr int32_t kFewTokens = 128, kFewRows = 64;
constexpr Change kChanges[] = {
    {"--lean", [](const CommonOptions& o) { return !o.lean; }, [](CommonOptions* o) { o->lean = true; }},
    {"--whole-pixels 1", [](const CommonOptions& o) { return !o.whole_pixels; },
     [](CommonOptions* o) { o->whole_pixels = 1; }},
    {"--prompt-rows 64", [](const CommonOptions& o) { return o.prompt_rows == 0; },
     [](CommonOptions* o) { o->prompt_rows = kFewRows; }},
    {"--text-tokens 128", [](const CommonOptions& o) { return o.text_tokens.value_or(0) > kFewTokens; },
     [](CommonOptions* o) { o->text_tokens = kFewTokens; }},
};

// Explains rows that keep less and need more.
std::string growth_text(const std::vector<PlannedChoice>& choices) {
  for (size_t i = 1; i < choices.size(); ++i)
    if (choices[i].choice.bits == choices[i - 1].choice.bits && choices[i].total_bytes > choices[i - 1].total_bytes)
      return "\nWhere less is kept and more is planned: a picture may be the only one of its prompt, and all that the "
             "prompt keeps may be of it, in whole blocks and pages.\n";
  return "";
}

}  // namespace

CommonOptions with_choice(CommonOptions options, const CacheChoice& choice) {
  options.cache.set_bits(choice.bits);
  options.cache.keep = choice.keep;
  if (choice.bits == 16) options.cache.calibration = "none";
  if (choice.keep < 1 && options.cache.evict == "none") options.cache.evict = "david";
  if (choice.keep == 1) options.cache.evict = "none";
  return options;
}

bool solve_bits(const Model& model, const Needs& needs, CommonOptions* options) {
  const CommonOptions given = *options;
  for (const int32_t bits : kBits) {
    *options = with_choice(given, {bits, given.cache.keep});
    if (fits(model, needs, *options)) return true;
  }
  return false;
}

bool solve_keep(const Model& model, const Needs& needs, CommonOptions* options) {
  const CommonOptions given = *options;
  for (int32_t percent = 100; percent > 0; --percent) {
    *options = with_choice(given, {given.cache.bits, static_cast<float>(percent) / 100.0f});
    options->cache.value_bits = given.cache.value_bits;
    options->cache.layer_bits = given.cache.layer_bits;
    options->cache.calibration = given.cache.calibration;
    if (fits(model, needs, *options)) return true;
  }
  return false;
}

MostPictures most_pictures(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan) {
  MostPictures most{.in_budget = plan.images_in_budget};
  const int64_t positions = int64_t{model.facts.context_length} - limits.max_text_tokens;
  if (model.facts.context_length > 0 && plan.positions_per_image > 0) {
    most.in_context = static_cast<int32_t>(std::max<int64_t>(positions, 0) / plan.positions_per_image);
  }
  return most;
}

std::optional<FittingFlags> find_fitting_flags(const Model& model, const Needs& needs, const CommonOptions& options) {
  std::vector<Change> changes;
  for (const Change& change : kChanges)
    if (change.is_new(options)) changes.push_back(change);
  std::optional<FittingFlags> best;
  const auto try_them = [&](std::initializer_list<Change> tried) {
    CommonOptions with = options;
    with.quiet = true;
    std::string flags;
    for (const Change& change : tried) {
      change.apply(&with);
      flags += (flags.empty() ? "" : " ") + std::string(change.flags);
    }
    const ocellus_limits limits = make_limits(model, with, needs);
    const int32_t pictures = most_pictures(model, limits, plan_memory(model, limits, with)).count();
    if (pictures > (best ? best->pictures : 0)) best = FittingFlags{flags, pictures};
  };
  for (const Change& one : changes) try_them({one});
  for (size_t i = 0; !best && i < changes.size(); ++i)
    for (size_t k = i + 1; k < changes.size(); ++k) try_them({changes[i], changes[k]});
  return best;
}

int64_t full_cache_bytes(const Model& model, ocellus_limits limits) {
  ocellus_limits defaults;
  ocellus_limits_init(&defaults);
  limits.cache = defaults.cache;
  limits.budget_bytes = 0;
  return plan_memory(model, limits, {}).kv_bytes_per_session;
}

std::vector<PlannedChoice> plan_choices(const Model& model, const Needs& needs, const CommonOptions& options) {
  std::vector<PlannedChoice> choices;
  for (const int32_t bits : kBits) {
    for (const int32_t percent : kKeepPercents) {
      PlannedChoice planned;
      planned.choice = {bits, static_cast<float>(percent) / 100.0f};
      CommonOptions tried = with_choice(options, planned.choice);
      tried.quiet = true;
      const ocellus_limits limits = make_limits(model, tried, needs);
      const ocellus_plan plan = plan_memory(model, limits, tried);
      planned.limits = limits;
      planned.kv_bytes = plan.kv_bytes_per_session;
      planned.total_bytes = plan.total_bytes;
      planned.most = most_pictures(model, limits, plan);
      choices.push_back(planned);
    }
  }
  return choices;
}

std::string choices_table(const std::vector<PlannedChoice>& choices, const CommonOptions& options) {
  const bool bounded = options.budget_bytes.has_value();
  Table table(bounded ? "rrrrrrlr" : "rrrrrr");
  table.add_row({"bits", "kept", "cache of a session", "MiB", "total of the plan", "MiB", "fits", "most pictures"});
  for (const PlannedChoice& planned : choices) {
    if (planned.choice.keep == 1) table.add_rule();
    table.add_row({std::to_string(planned.choice.bits), format_number(100.0 * planned.choice.keep, 0) + " %",
                   std::to_string(planned.kv_bytes), format_mib(planned.kv_bytes), std::to_string(planned.total_bytes),
                   format_mib(planned.total_bytes),
                   bounded && planned.total_bytes <= *options.budget_bytes ? "yes" : "no",
                   std::to_string(planned.most.count())});
  }
  return table.plain_text() + growth_text(choices);
}

nlohmann::ordered_json choices_json(const std::vector<PlannedChoice>& choices, const CommonOptions& options) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlannedChoice& planned : choices) {
    nlohmann::ordered_json object = {{"kv_bytes_per_session", planned.kv_bytes}, {"total_bytes", planned.total_bytes}};
    if (options.budget_bytes) {
      object["fits"] = planned.total_bytes <= *options.budget_bytes;
      object["images_in_budget"] = planned.most.in_budget;
      object["most_images"] = planned.most.count();
    }
    object["policy"] = policy_json(planned.limits);
    list.push_back(object);
  }
  return list;
}

}  // namespace ocellus::app
