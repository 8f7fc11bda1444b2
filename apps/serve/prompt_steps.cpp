#include "apps/serve/prompt_steps.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace ocellus::app {
namespace {

Beginning::Digest digest_of(const PromptStep& step) {
  const double rate = step.clip == nullptr ? 0 : step.clip->frames_per_second;
  const auto seed =
      std::bit_cast<XXH64_hash_t>(rate) ^ static_cast<XXH64_hash_t>(step.kind) ^ (step.is_overview ? 256 : 0);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(step.content.data(), step.content.size(), seed);
  return {hash.high64, hash.low64};
}

std::string_view bytes_of(std::span<const int32_t> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

std::vector<PromptStep> list_tokens(const RawPrompt& prompt) {
  const std::span<const int32_t> tokens(prompt.tokens);
  std::vector<PromptStep> steps;
  if (tokens.size() > 1) steps.push_back({StepKind::kTokens, bytes_of(tokens.first(tokens.size() - 1)), "prompt"});
  steps.push_back({StepKind::kTokens, bytes_of(tokens.last(1)), "prompt"});
  return steps;
}

PromptStep part_step(const ChatPart& part) {
  if (!part.key.empty()) return {StepKind::kEntry, part.key, part.param};
  if (!part.frames.empty()) {  // in the request's body one after the other
    const char* const begin = part.frames.front().data();
    const char* const end = part.frames.back().data() + part.frames.back().size();
    return {StepKind::kClip, {begin, static_cast<size_t>(end - begin)}, part.param, &part};
  }
  return {part.is_image ? StepKind::kPicture : StepKind::kText, part.content(), part.param, nullptr, part.is_overview};
}

}  // namespace

std::vector<PromptStep> list_steps(const ChatRequest& request, size_t index) {
  if (!request.prompts.empty()) return list_tokens(request.prompts[index]);
  std::vector<PromptStep> steps;
  if (!request.system.empty()) steps.push_back({StepKind::kSystem, request.system});
  for (const ChatTurn& turn : request.turns) {
    steps.push_back({StepKind::kBeginTurn});
    for (const ChatPart& part : turn.parts) steps.push_back(part_step(part));
    steps.push_back({StepKind::kEndTurn});
    if (&turn != &request.turns.back() || !turn.answer.empty()) steps.push_back({StepKind::kAnswer, turn.answer});
  }
  return steps;
}

size_t find_mark(const std::vector<PromptStep>& steps) {
  if (!steps.empty() && steps.back().kind == StepKind::kTokens) return steps.size() - 1;
  const auto last = std::find_if(steps.rbegin(), steps.rend(), [](const PromptStep& step) {
    return step.kind == StepKind::kPicture || step.kind == StepKind::kClip || step.kind == StepKind::kEntry ||
           step.kind == StepKind::kBeginTurn;
  });
  return static_cast<size_t>(steps.rend() - last);
}

void Beginning::set(const std::string& owner, std::span<const PromptStep> steps) {
  user = owner;
  digests.clear();
  for (const PromptStep& step : steps) digests.push_back(digest_of(step));
}

bool Beginning::begins(const std::string& owner, const std::vector<PromptStep>& steps) const {
  if (digests.empty() || user != owner || digests.size() > steps.size()) return false;
  return std::equal(digests.begin(), digests.end(), steps.begin(),
                    [](const Digest& digest, const PromptStep& step) { return digest == digest_of(step); });
}

}  // namespace ocellus::app
