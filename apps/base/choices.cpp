#include "apps/base/choices.h"

#include <algorithm>
#include <cmath>

namespace ocellus::app {

ocellus_status score_choices(ocellus_session* session, const std::vector<std::string>& texts,
                             std::vector<Choice>* out) {
  std::vector<ocellus_choice> choices;
  for (const std::string& text : texts) choices.push_back({text.data(), std::ssize(text), 0, 0, 0});
  const auto count = static_cast<int32_t>(choices.size());
  const ocellus_status status = ocellus_session_score_choices(session, choices.data(), count);
  if (status != OCELLUS_OK) return status;
  const auto is_less = [](const ocellus_choice& a, const ocellus_choice& b) {
    return a.log_probability < b.log_probability;
  };
  const double most = std::max_element(choices.begin(), choices.end(), is_less)->log_probability;
  double total = 0;
  for (const ocellus_choice& choice : choices) total += std::exp(choice.log_probability - most);
  out->clear();
  for (const ocellus_choice& choice : choices) {
    const double probability = std::exp(choice.log_probability - most) / total;
    out->push_back({texts[out->size()], choice.token_count, choice.log_probability, probability});
  }
  return status;
}

}  // namespace ocellus::app
