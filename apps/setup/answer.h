// One turn of a conversation: pictures and text in, an answer out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/base/choices.h"
#include "apps/setup/options.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct Answer {
  std::string text;               // without white space at both ends
  std::string thought;            // likewise; empty: none
  std::vector<Choice> choices;    // the most probable one first
  nlohmann::ordered_json tokens;  // objects of token, logprob, top; null without CommonOptions::top_logprobs
  ocellus_generate_stats stats = {};
  bool interrupted = false;  // by Ctrl-C; `text` is what was generated before
};

// The model's likelihood of a given answer.
struct Likelihood {
  double nll = 0;  // sum of the negative natural logarithms of its tokens' probabilities
  int64_t tokens = 0;
  bool interrupted = false;
};

enum class Streaming { kOff, kToStdout };

// Adds one user turn and generates. With kToStdout the answer is printed as it streams, with `label` before it and no
// newline after it. `choices` are scored first.
Answer answer_turn(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options,
                   Streaming streaming, const std::string& label = "", const std::vector<std::string>& choices = {});

// Adds one user turn and forces the answer, given as tokens; prints nothing.
Likelihood score_turn(Session* session, const std::vector<PromptPart>& parts, const CommonOptions& options,
                      const std::vector<int32_t>& answer);

// Returns the tokens of the longest of the answers, with its end token.
int64_t most_answer_tokens(const Model& model, const std::vector<std::string>& answers);

// Returns the tokens of a text; flags as in ocellus_model_tokenize.
std::vector<int32_t> tokenize(const Model& model, const std::string& text, uint32_t flags);

// Reports on stderr, unless quiet, that the only answer of a conversation was cut by the planned text tokens or the
// model's positions, or ended inside its thought.
void remark_on_end(const Answer& answer, const Model& model, const CommonOptions& options);

// Returns "end", "length", "callback", "full", "cancelled", "deadline" or "failed".
const char* stop_name(int32_t stop);

// Returns generated tokens per second after the first one; 0 if there were none.
double decode_tokens_per_second(const ocellus_generate_stats& stats);

// Returns the stop reason and speed for --json.
nlohmann::ordered_json stats_json(const ocellus_generate_stats& stats);

nlohmann::ordered_json choices_json(const std::vector<Choice>& choices);
// Returns the answer, or its choices, with log-probabilities for --json.
nlohmann::ordered_json answer_json(const Answer& answer);
// Returns what is printed after a streamed answer: its choices, or log-probabilities.
std::string end_of_answer(const Answer& answer);

// Returns one line; text that is not UTF-8 (a path may be anything) is repaired.
std::string json_line(const nlohmann::ordered_json& object);

}  // namespace ocellus::app
