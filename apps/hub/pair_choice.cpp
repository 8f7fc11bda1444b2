#include "apps/hub/pair_choice.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kModelOrder[] = {"Q8_0",   "Q4_K_M", "Q6_K",   "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0",
                                            "Q4_K_S", "IQ4_NL", "IQ4_XS", "Q4_1",   "Q4_0",   "F16",  "BF16",
                                            "F32",    "Q3_K_L", "Q3_K_M", "Q3_K_S", "MXFP4",  "Q2_K"};
constexpr std::string_view kMmprojOrder[] = {"Q8_0", "F16", "BF16", "F32"};
constexpr std::string_view kEnding = ".gguf";
constexpr int kMostParts = 999;

using Names = std::vector<std::string>;

// A model's file, or the first one of a split model.
struct Candidate {
  std::string name;
  std::string stem;  // in lower case, without part and ending
  int parts = 1;
};

// Name of a split model's part: `first` is that of the first one.
std::string part_name(const std::string& first, int part, int parts) {
  char ending[32];
  const int bytes = std::snprintf(ending, sizeof ending, "-%05d-of-%05d.gguf", part, parts);
  return first.substr(0, first.size() - static_cast<size_t>(bytes)) + ending;
}

Candidate make_candidate(const std::string& name) {
  constexpr size_t kPartBytes = sizeof("-00001-of-00003") - 1;
  Candidate candidate{.name = name, .stem = to_lower(name.substr(0, name.size() - kEnding.size())), .parts = 1};
  int part = 0, parts = 0, used = 0;
  if (candidate.stem.size() <= kPartBytes) return candidate;
  const size_t begin = candidate.stem.size() - kPartBytes;
  std::sscanf(candidate.stem.c_str() + begin, "-%5d-of-%5d%n", &part, &parts, &used);
  if (used != static_cast<int>(kPartBytes) || parts < 1 || parts > kMostParts) return candidate;
  candidate.parts = part == 1 ? parts : 0;  // 0: another part
  candidate.stem.resize(begin);
  return candidate;
}

bool ends_with_quant(const std::string& stem, std::string_view quant) {
  const std::string wanted = to_lower(quant);
  if (!stem.ends_with(wanted)) return false;
  return stem.size() == wanted.size() ||
         std::string_view("-._/").find(stem[stem.size() - wanted.size() - 1]) != std::string_view::npos;
}

std::vector<Candidate> with_quant(const std::vector<Candidate>& all, std::string_view quant) {
  std::vector<Candidate> some;
  for (const Candidate& one : all)
    if (ends_with_quant(one.stem, quant)) some.push_back(one);
  return some;
}

std::string list_names(const std::vector<Candidate>& candidates) {
  constexpr size_t kMost = 12;
  Names names;
  for (size_t i = 0; i < std::min(candidates.size(), kMost); ++i) names.push_back(candidates[i].name);
  return join_words(names, ", ") + (candidates.size() > kMost ? " and more" : "");
}

// Adds the model's parts. Returns false if one is missing.
bool add_parts(const Candidate& model, const Names& names, PairChoice* choice) {
  if (model.parts == 1 && !model.name.ends_with("-00001-of-00001.gguf")) {
    choice->model.push_back(model.name);
    return true;
  }
  for (int part = 1; part <= model.parts; ++part) {
    choice->model.push_back(part_name(model.name, part, model.parts));
    if (std::find(names.begin(), names.end(), choice->model.back()) != names.end()) continue;
    choice->problem = "its part " + choice->model.back() + " is missing";
    choice->model.clear();
    return false;
  }
  return true;
}

std::string choose_mmproj(const std::vector<Candidate>& candidates, const std::string& model_quant) {
  if (candidates.size() == 1) return candidates[0].name;
  if (!model_quant.empty()) {
    const auto same = with_quant(candidates, model_quant);
    if (!same.empty()) return same[0].name;
  }
  for (const std::string_view quant : kMmprojOrder) {
    const auto some = with_quant(candidates, quant);
    if (!some.empty()) return some[0].name;
  }
  return candidates.empty() ? "" : candidates[0].name;
}

}  // namespace

Names PairChoice::files() const {
  Names all = model;
  if (!mmproj.empty()) all.push_back(mmproj);
  return all;
}

PairChoice choose_pair(const Names& names, const std::string& quant) {
  std::vector<Candidate> models, mmprojs;
  for (const std::string& name : names) {
    const std::string lower = to_lower(name), base = lower.substr(lower.rfind('/') + 1);
    if (!lower.ends_with(kEnding) || base.find("imatrix") != std::string::npos) continue;
    const Candidate candidate = make_candidate(name);
    const bool is_mmproj = base.find("mmproj") != std::string::npos;
    if (candidate.parts > 0) (is_mmproj ? mmprojs : models).push_back(candidate);
  }
  PairChoice choice;
  std::string chosen_quant = quant;
  std::vector<Candidate> chosen = quant.empty() ? std::vector<Candidate>{} : with_quant(models, quant);
  if (quant.empty()) {
    for (const std::string_view wanted : kModelOrder) {
      if (!(chosen = with_quant(models, wanted)).empty()) {
        chosen_quant = wanted;
        break;
      }
    }
    if (chosen.empty()) chosen = models;
  }
  if (chosen.size() == 1 && add_parts(chosen[0], names, &choice)) {
    choice.mmproj = choose_mmproj(mmprojs, chosen_quant);
  } else if (models.empty()) {
    choice.problem = "it has no GGUF file of a model";
  } else if (chosen.empty()) {
    choice.problem = "no file is " + quant + "; it has " + list_names(models);
  } else if (chosen.size() > 1) {
    choice.problem = "several files are meant, " + list_names(chosen) + ": name more of the end, as in :" + "NAME-" +
                     (chosen_quant.empty() ? "Q8_0" : chosen_quant);
  }
  return choice;
}

}  // namespace ocellus::app
