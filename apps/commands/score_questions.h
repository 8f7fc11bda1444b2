// Answers to a file's questions, counted: printed by eval and compared by calibrate.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/setup/answer.h"
#include "apps/setup/options.h"
#include "apps/setup/questions.h"
#include "apps/setup/setup.h"

namespace CLI {
class App;
}

namespace ocellus::app {

// Selects questions of a file; the flags are eval's and calibrate's.
struct QuestionOptions {
  std::string path;
  int64_t images_each = -1;
  int64_t limit = 0;
  int32_t rolling = 0;  // pictures of a rolling session that reads each question; 0: the session holds all
};
void add_question_options(CLI::App* command, QuestionOptions* options);
std::vector<Question> read_questions(const QuestionOptions& options, const Model& model);

// The result of one question.
struct Outcome {
  Answer answer;
  bool is_exact = false;
  Likelihood expected;  // likelihood of the expected answer; no tokens unless requested
};

struct Score {
  int64_t questions = 0;
  int64_t exact = 0;
  double nll = 0;  // sum over the expected answers, if their probabilities are requested
  int64_t forced_tokens = 0;
  double accuracy() const { return questions == 0 ? 0 : static_cast<double>(exact) / static_cast<double>(questions); }
  double perplexity() const { return std::exp(nll / static_cast<double>(forced_tokens)); }
  void add(const Outcome& outcome) {
    ++questions;
    exact += outcome.is_exact ? 1 : 0;
    nll += outcome.expected.nll;
    forced_tokens += outcome.expected.tokens;
  }
};

// Sums over all questions.
struct Totals {
  Score all;
  std::map<std::string, Score> by_kind;
  std::map<int64_t, Score> by_images;
  Score by_choice;               // the most probable one of a question's choices counts as its answer
  double right_probability = 0;  // sum over these questions
  int64_t kv_bytes = 0;
  int64_t kv_scale_bytes = 0;
  int64_t kv_waste_bytes = 0;
  int64_t kv_block_bytes = 0;
  int64_t kv_block_elements = 0;
  int64_t kv_bytes_full = 0;
  int64_t decoded_tokens = 0;
  double first_token_ms = 0;
  double decode_ms = 0;

  // Bits per number in image blocks, offsets and steps included; 0 without such blocks.
  double bits_per_element() const {
    return kv_block_elements == 0 ? 0
                                  : 8.0 * static_cast<double>(kv_block_bytes) / static_cast<double>(kv_block_elements);
  }
  void add(const Question& question, const Outcome& outcome);
  double mean_right_probability() const { return right_probability / static_cast<double>(by_choice.questions); }
  double mean(double sum) const { return all.questions == 0 ? 0 : sum / static_cast<double>(all.questions); }
  int64_t mean(int64_t sum) const { return all.questions == 0 ? 0 : sum / all.questions; }
  double decode_tokens_per_second() const;
};

// Makes score_questions() also force every expected answer and the end token after it: their probability tells more
// than exact matches. The questions are read a second time for it.
void ask_for_probabilities(const Model& model, std::vector<Question>* questions);

// Returns the limits of one engine that can answer every question.
Needs needs_of(const std::vector<Question>& questions, const Model& model, const CommonOptions& options);

// Called after each answer, with the sums so far.
using OnAnswer = std::function<void(const Question& question, const Outcome& outcome, const Totals& sums)>;

// Answers each question in a session of its own; an answer counts if, trimmed, it equals the expected one. Failures
// name the file that was asked. Returns false if the user interrupted it.
bool score_questions(Running& running, const std::vector<Question>& questions, const QuestionOptions& asked,
                     const CommonOptions& options, const OnAnswer& on_answer, Totals* totals);

}  // namespace ocellus::app
