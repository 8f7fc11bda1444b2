#include "apps/serve/asked_retrieval.h"

#include <algorithm>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxQueryBytes = 256;  // a longer one is text

// One row a family; a family without a row has the last one's. Public models are not trained to ask: they do so when
// the system message tells them how.
const RetrievalForm kForms[] = {
    {.chat_template = "", .begin = "<retrieve:", .end = ">", .after_picture = "\n", .nothing_found = " (none)\n"},
};

}  // namespace

RetrievalForm find_retrieval_form(std::string_view chat_template, const std::string& pattern) {
  RetrievalForm form = std::end(kForms)[-1];
  for (const RetrievalForm& row : kForms) {
    if (row.chat_template == chat_template) form = row;
  }
  if (pattern.empty()) return form;
  constexpr std::string_view kBetween = "...";
  const size_t between = pattern.find(kBetween);
  if (between == 0 || between == std::string::npos || between + kBetween.size() == pattern.size()) {
    throw Failure(kExitUsage, "--retrieve-pattern " + pattern + ": write BEGIN...END, as in '<retrieve:...>'.");
  }
  form.begin = pattern.substr(0, between);
  form.end = pattern.substr(between + kBetween.size());
  return form;
}

std::string AskedRetrieval::push(std::string_view piece) {
  unmatched_ += piece;
  if (has_query_) return "";
  std::string text;
  while (left_ > 0) {
    const size_t begin = find_beginning(unmatched_, form_.begin);
    text += unmatched_.substr(0, begin);
    unmatched_.erase(0, begin);
    const size_t end = unmatched_.find(form_.end, form_.begin.size());
    if (unmatched_.size() < form_.begin.size() || (end == std::string::npos && unmatched_.size() <= kMaxQueryBytes)) {
      return text;
    }
    query_ = trim(unmatched_.substr(form_.begin.size(), end - form_.begin.size()));
    if (end != std::string::npos && end <= kMaxQueryBytes && !query_.empty()) {
      unmatched_.erase(0, end + form_.end.size());
      has_query_ = true;
      --left_;
      return text;
    }
    text += unmatched_[0];  // no request
    unmatched_.erase(0, 1);
  }
  return text + std::exchange(unmatched_, "");
}

std::string AskedRetrieval::take_query() {
  has_query_ = false;
  return std::exchange(query_, "");
}

std::string AskedRetrieval::finish() { return std::exchange(unmatched_, ""); }

}  // namespace ocellus::app
