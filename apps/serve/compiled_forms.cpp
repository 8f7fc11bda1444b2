#include "apps/serve/compiled_forms.h"

#include <algorithm>

#include "apps/serve/request_error.h"

namespace ocellus::app {

CompiledForms::~CompiledForms() {
  for (const Entry& entry : entries_) ocellus_constraint_destroy(entry.compiled);
}

const ocellus_constraint* CompiledForms::take(const AnswerForm& form) {
  if (most_ == 0) {
    throw RequestError(400, "Forms of answers were not planned: start the server without --schemas 0.", form.param);
  }
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.form.kind == form.kind && entry.form.text == form.text;
  });
  if (known != entries_.end()) {
    ++known->users;
    known->taken = ++taken_;
    return known->compiled;
  }
  make_room();
  ocellus_constraint_params params;
  ocellus_constraint_params_init(&params);
  params.kind = form.kind;
  params.text = form.text.data();
  params.text_bytes = std::ssize(form.text);
  ocellus_constraint* compiled = nullptr;
  if (const ocellus_status status = ocellus_constraint_create(engine_, &params, &compiled); status != OCELLUS_OK) {
    const RequestError error = library_error(status, form.param);
    throw RequestError(error.status(), error.what(), form.param);  // full: of the form's memory, not of the context
  }
  entries_.push_back({form, compiled, 1, ++taken_});
  return compiled;
}

void CompiledForms::give_back(const ocellus_constraint* compiled) {
  for (Entry& entry : entries_) {
    if (entry.compiled == compiled) --entry.users;
  }
}

// Drops the form that is not in use and was used longest ago.
void CompiledForms::make_room() {
  if (std::ssize(entries_) < most_) return;
  const auto rank = [](const Entry& entry) { return std::pair(entry.users > 0, entry.taken); };
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [&](const Entry& a, const Entry& b) { return rank(a) < rank(b); });
  ocellus_constraint_destroy(oldest->compiled);
  entries_.erase(oldest);
}

}  // namespace ocellus::app
