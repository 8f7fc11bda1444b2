#include "apps/commands/plan_choices.h"

#include <algorithm>

#include "apps/base/limit_flags.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/setup/policy_report.h"

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
  options.pack.set_bits(choice.bits);
  options.evict.keep = choice.keep;
  if (choice.bits == 16) options.pack.calibration = "none";
  if (choice.keep < 1 && options.evict.method == "none") options.evict.method = "david";
  if (choice.keep == 1) options.evict.method = "none";
  return options;
}

bool solve_bits(const Model& model, const Needs& needs, CommonOptions* options) {
  const CommonOptions given = *options;
  for (const int32_t bits : kBits) {
    *options = with_choice(given, {bits, given.evict.keep});
    if (fits(model, needs, *options)) return true;
  }
  return false;
}

bool solve_keep(const Model& model, const Needs& needs, CommonOptions* options) {
  const CommonOptions given = *options;
  for (int32_t percent = 100; percent > 0; --percent) {
    *options = with_choice(given, {given.pack.bits, static_cast<float>(percent) / 100.0f});
    options->pack.value_bits = given.pack.value_bits;
    options->pack.layer_bits = given.pack.layer_bits;
    options->pack.calibration = given.pack.calibration;
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

FittingChange find_fitting_change(const Model& model, const Needs& needs, const CommonOptions& options) {
  constexpr int32_t kMostPictures = 1024;
  FittingChange found;
  CommonOptions tried = options;
  tried.quiet = true;
  ocellus_limits limits = make_limits(model, tried, needs);
  const MostPictures most = most_pictures(model, limits, plan_memory(model, limits, tried));
  int32_t too_many = (most.in_context < 0 ? kMostPictures : most.in_context) + 1;
  while (found.pictures + 1 < too_many) {
    limits.max_images = found.pictures + (too_many - found.pictures) / 2;
    const ocellus_plan plan = plan_memory(model, limits, tried);
    const ocellus_advice* const end = plan.advice + plan.advice_count;
    const auto* const enough =
        std::find_if(plan.advice, end, [](const ocellus_advice& a) { return a.keeps_images != 0; });
    if (enough == end)
      too_many = limits.max_images;
    else
      found = {limits.max_images, name_flags(enough->text)};
  }
  return found;
}

int64_t full_cache_bytes(const Model& model, ocellus_limits limits) {
  limits.cache = ocellus::limits().cache;
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
