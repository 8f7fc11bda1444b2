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
      std::bit_cast<XXH64_hash_t>(rate) ^ static_cast<XXH64_hash_t>(step.kind) ^ (XXH64_hash_t{step.flags} << 8);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(step.content.data(), step.content.size(), seed);
  return {hash.high64, hash.low64};
}

std::string_view bytes_of(std::span<const int32_t> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

// `is_scored`: only the first one is read before the answer.
std::vector<PromptStep> list_tokens(const RawPrompt& prompt, bool is_scored) {
  std::span<const int32_t> tokens(prompt.tokens);
  if (is_scored) tokens = tokens.first(1);
  std::vector<PromptStep> steps;
  if (tokens.size() > 1) steps.push_back({StepKind::kTokens, bytes_of(tokens.first(tokens.size() - 1)), "prompt"});
  // A session that has read it as the beginning of another prompt has nothing to answer.
  const uint32_t flags = is_scored ? 1 : 0;
  steps.push_back({StepKind::kTokens, bytes_of(tokens.last(1)), "prompt", nullptr, flags});
  return steps;
}

PromptStep part_step(const ChatPart& part, uint32_t flags) {
  if (!part.key.empty()) return {StepKind::kEntry, part.key, part.param, nullptr, flags};
  if (!part.frames.empty()) {  // in the request's body one after the other
    const char* const begin = part.frames.front().data();
    const char* const end = part.frames.back().data() + part.frames.back().size();
    return {StepKind::kClip, {begin, static_cast<size_t>(end - begin)}, part.param, &part, flags};
  }
  if (!part.is_image) return {StepKind::kText, part.content(), part.param};
  if (part.is_overview) flags |= OCELLUS_IMAGE_OVERVIEW;
  return {StepKind::kPicture, part.content(), part.param, nullptr, flags};
}

}  // namespace

std::vector<PromptStep> list_steps(const ChatRequest& request, size_t index) {
  if (!request.prompts.empty()) return list_tokens(request.prompts[index], request.scores_prompt());
  std::vector<PromptStep> steps = {
      {.kind = StepKind::kThink, .flags = request.params.max_thought_tokens > 0 ? 1u : 0u}};
  for (const ChatTurn& turn : request.turns) {
    const bool is_last = &turn == &request.turns.back();
    const bool is_numbered = request.numbers_images || (request.numbers_several && count_images(turn.parts) > 1);
    const uint32_t goes_on = is_last && turn.goes_on ? kGoesOn : 0;
    steps.push_back({StepKind::kBegin, {}, turn.param, nullptr, static_cast<uint32_t>(turn.role) | goes_on});
    for (const ChatPart& part : turn.parts) steps.push_back(part_step(part, is_numbered ? OCELLUS_IMAGE_NUMBERED : 0));
    if (is_last && turn.goes_on) return steps;
    if (is_last && request.opens_answer && turn.role == OCELLUS_ROLE_USER) {
      steps.push_back({StepKind::kEndTurn, {}, turn.param});
    } else {
      steps.push_back({StepKind::kEnd, {}, turn.param});
      if (is_last && request.opens_answer) steps.push_back({StepKind::kOpenAnswer});
    }
  }
  return steps;
}

std::vector<size_t> list_marks(const std::vector<PromptStep>& steps) {
  std::vector<size_t> marks;
  if (!steps.empty() && steps.back().kind == StepKind::kTokens) {
    if (steps.size() > 1) marks.push_back(steps.size() - 1);
    return marks;
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepKind kind = steps[i].kind;
    if (kind == StepKind::kPicture || kind == StepKind::kClip || kind == StepKind::kEntry || kind == StepKind::kBegin) {
      marks.push_back(i + 1);
    }
  }
  return marks;
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
