// Log-probabilities of an answer's tokens, as OpenAI's API has them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ocellus.h"

namespace ocellus::app {

struct TokenLogprob {
  std::string text;               // possibly part of a character
  std::optional<float> logprob;   // nullopt: nothing comes before it
  std::vector<TokenLogprob> top;  // the most probable tokens in its place

  // Copies what ocellus_generate_params.on_token receives.
  static TokenLogprob of(const ocellus_token_probability& chosen, const ocellus_token_probability* top, int32_t count);
};

// Counts the bytes that begin a character.
int64_t count_characters(std::string_view text);

// The `logprobs` of a chat's choice, or of a piece of it.
nlohmann::ordered_json chat_logprobs(const std::vector<TokenLogprob>& tokens);
// The same of a completion. *offset: place of the first token in its text, in characters; moved to the end of the last
// one.
nlohmann::ordered_json completion_logprobs(const std::vector<TokenLogprob>& tokens, int64_t* offset);

}  // namespace ocellus::app
