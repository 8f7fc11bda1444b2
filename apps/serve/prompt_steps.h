// The steps in which a session is given a request, and those that it has read before and need not read again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/chat_request.h"

namespace ocellus::app {

// kThink: if the model is told to think, before the first message. kEndTurn: kEnd and kOpenAnswer.
enum class StepKind : char { kThink, kBegin, kText, kPicture, kClip, kEntry, kEnd, kEndTurn, kOpenAnswer, kTokens };

inline constexpr uint32_t kGoesOn = 4;  // kBegin, beside the ocellus_role: the answer goes on from this message

struct PromptStep {
  StepKind kind;
  std::string_view content = {};  // text, bytes of a picture, key of a library's entry, or tokens
  std::string_view param = "messages";
  const ChatPart* clip = nullptr;
  uint32_t flags = 0;  // ocellus_part's, or a role, or 1: think
};

// Lists the steps of the index-th of the request's prompts, or of its conversation. They point into the request.
std::vector<PromptStep> list_steps(const ChatRequest& request, size_t index);

// Returns the numbers of steps after which the session may be marked, ascending: what comes before may come again. In a
// conversation, all up to a picture, a video or the beginning of a turn; of a prompt, all tokens but the last. Steps
// that begin alike have the same places in their beginning.
std::vector<size_t> list_marks(const std::vector<PromptStep>& steps);

// The steps that a session has read up to its mark. Empty: it has no mark.
struct Beginning {
  using Digest = std::array<uint64_t, 2>;

  std::string user;             // only this user's requests may go on from it
  std::vector<Digest> digests;  // one a step
  int64_t tokens = 0;
  int64_t used = 0;  // number of the request that used it last

  void set(const std::string& owner, std::span<const PromptStep> steps);
  // True if the steps begin with these, and are the same user's.
  bool begins(const std::string& owner, const std::vector<PromptStep>& steps) const;
};

}  // namespace ocellus::app
