// Files of questions with pictures and exact answers: one JSON object a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/setup/prompt.h"

namespace ocellus::app {

struct Question {
  int64_t line = 0;  // counted from 1
  std::string kind;
  std::string answer;
  std::vector<PromptPart> parts;
  int64_t image_count = 0;
  std::vector<std::string> choices = {};    // the answer among them; empty: none are given
  std::vector<int32_t> answer_tokens = {};  // with the end token; empty unless the answer's probability is requested
};

// Reads at most `limit` questions (0: all) with `images_each` pictures (negative: any number), and the sizes of their
// pictures, whose paths are relative to the file. `image_numbers`: ocellus_model_facts.image_numbers. Throws a Failure
// that names the file and the line.
std::vector<Question> read_questions(const std::string& path, int64_t images_each, int64_t limit,
                                     int32_t image_numbers = OCELLUS_NUMBERS_NONE);

}  // namespace ocellus::app
