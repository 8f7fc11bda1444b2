// Given answers, and how probable the model finds each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ocellus.h"

namespace ocellus::app {

struct Choice {
  std::string text;
  int32_t tokens = 0;          // its end token included
  double log_probability = 0;  // natural logarithm: the model says this and ends
  double probability = 0;      // among the choices
};

// Scores answers to the prompt that a session has, in their order, as ocellus_session_score_choices does; without
// OCELLUS_OK *out stays as it is.
ocellus_status score_choices(ocellus_session* session, const std::vector<std::string>& texts, std::vector<Choice>* out);

}  // namespace ocellus::app
