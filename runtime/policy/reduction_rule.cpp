#include "runtime/policy/reduction_rule.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/hash_term.h"
#include "kernels/cache/spread_rows.h"
#include "runtime/policy/visionzip_rule.h"

namespace ocellus {
namespace {

void spread(const RowsToChoose& a, SpreadBy by, Queue& queue) {
  spread_rows({.rows = a.rows,
               .ids = a.ids,
               .least = a.least,
               .mean = a.mean,
               .picks = a.picks,
               .count = static_cast<int32_t>(a.keep),
               .by = by},
              queue);
}

void choose_far_angles(const RowsToChoose& a, const MethodValues&, Queue& queue) { spread(a, SpreadBy::kAngle, queue); }

void choose_far(const RowsToChoose& a, const MethodValues&, Queue& queue) { spread(a, SpreadBy::kPlace, queue); }

/// Selection sampling: every candidate is taken with the probability that is due to it (Knuth, volume 2, algorithm S).
void choose_at_random(const RowsToChoose& a, const MethodValues& options, Queue& queue) {
  const auto seed = static_cast<uint32_t>(options.number("seed"));
  int64_t taken = 0;
  for_each_candidate(a, [&](int32_t row, int64_t number) {
    const uint64_t drawn =
        hash_term(seed, static_cast<uint32_t>(hash_term(static_cast<uint32_t>(number), static_cast<uint32_t>(a.seed))));
    const auto left = static_cast<uint64_t>(a.candidates - number);
    if (drawn % left < static_cast<uint64_t>(a.keep - taken)) a.host_picks[taken++] = row;
  });
  pass_on(a, queue);
}

void choose_evenly(const RowsToChoose& a, const MethodValues&, Queue& queue) {
  int64_t taken = 0;
  for_each_candidate(a, [&](int32_t row, int64_t number) {
    if (taken < a.keep && number == (2 * taken + 1) * a.candidates / (2 * a.keep)) a.host_picks[taken++] = row;
  });
  pass_on(a, queue);
}

constexpr ocellus_method_option kRandomOptions[] = {{"seed", nullptr, 0, 1e9, 1, "0", "Seed of the choice."}};

constexpr ReductionRule kRules[] = {
    {recommend(describe_method("spread-rows", "ours, after Gonzalez 1985",
                               "Rows far from each other: the one nearest to the mean, then always the farthest one.")),
     choose_far},
    {describe_method("divprune", "DivPrune, Alvar et al. 2025",
                     "As published: rows at wide angles to each other (max-min diversity)."),
     choose_far_angles},
    {describe_method("visionzip", "VisionZip, Yang et al. 2024",
                     "Rows with the most attention in the tower; some of the others, merged with what is like them.",
                     kVisionZipOptions),
     choose_visionzip, true},
    {describe_method("even-rows", "baseline", "Every second, fourth, ... row: the picture at fewer rows."),
     choose_evenly},
    {describe_method("random-rows", "baseline", "Rows chosen at random.", kRandomOptions), choose_at_random}};

}  // namespace

const ReductionRule* reduction_rule_at(int32_t index) {
  return index >= 0 && index < std::ssize(kRules) ? &kRules[index] : nullptr;
}

Status parse_reduction(const char (&text)[OCELLUS_METHOD_TEXT], const ReductionRule** rule, MethodValues* options) {
  MethodText parts;
  OCELLUS_TRY(split_method_text("reduction", text, &parts));
  *rule = nullptr;
  if ((parts.name.empty() || parts.name == "none") && parts.options.empty()) return {};
  const auto* const found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const auto& r) { return r.method.name == parts.name; });
  if (found != std::end(kRules)) {
    *rule = found;
    return parse_method_options(found->method, parts.options, options);
  }
  const MethodNameList names([](int32_t i) {
    const ReductionRule* const known = reduction_rule_at(i);
    return known == nullptr ? nullptr : known->method.name;
  });
  return refuse_method("reduction of pictures", parts.name, "none, ", names);
}

Status plan_reduction(const ocellus_limits& limits, Reduction* out) {
  if (!(limits.reduce_keep > 0 && limits.reduce_keep <= 1))
    return OCELLUS_FAIL(
        Code::kBadArgument,
        "the share of a picture's rows that is read (reduce_keep) must be above 0 and at most 1, not %g",
        static_cast<double>(limits.reduce_keep));
  OCELLUS_TRY(parse_reduction(limits.reduce, &out->rule, &out->options));
  if (limits.reduce_keep < 1 && out->rule == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "a method chooses the rows of pictures that are read (reduce_keep): name one (reduce)");
  if (limits.reduce_keep == 1) out->rule = nullptr;
  out->keep = limits.reduce_keep;
  return {};
}

int64_t Reduction::kept_of(int64_t rows) const {
  if (!planned() || rows == 0) return rows;
  const auto kept = static_cast<int64_t>(static_cast<double>(keep) * static_cast<double>(rows) + 0.5);
  return std::clamp<int64_t>(kept, 1, rows);
}

}  // namespace ocellus
