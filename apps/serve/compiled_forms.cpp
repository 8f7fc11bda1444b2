#include "apps/serve/compiled_forms.h"

#include <algorithm>
#include <utility>

#include "apps/serve/tools.h"

namespace ocellus::app {

CompiledForms::~CompiledForms() {
  if (work_ && work_->thread.joinable()) work_->thread.join();
}

CompiledForms::Entry* CompiledForms::find(const AnswerForm& form) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.form.kind == form.kind && entry.form.text == form.text;
  });
  return known == entries_.end() ? nullptr : &*known;
}

const ocellus_constraint* CompiledForms::take(const AnswerForm& form, const Session& session, bool is_wanted) {
  if (most_ == 0) {
    throw RequestError(400, "Forms of answers were not planned: start the server without --schemas 0.", form.param);
  }
  if (compiles_for(session)) {
    {
      const std::lock_guard lock(mutex_);
      if (!work_->is_done) return nullptr;
    }
    work_->thread.join();
    std::optional<RequestError> error = std::move(work_->error);
    if (work_->was_cancelled && is_wanted) error.reset();
    if (work_->compiled) entries_.push_back({work_->form, std::move(work_->compiled), 0, 0});
    work_.reset();
    done_();  // others may ask again
    if (error) throw RequestError(*error);
  }
  Entry* const known = find(form);
  if (known == nullptr) {
    if (!work_) begin(form, session);
    return nullptr;
  }
  ++known->users;
  known->taken = ++taken_;
  return known->compiled.get();
}

void CompiledForms::begin(const AnswerForm& form, const Session& session) {
  make_room();
  work_.emplace();
  work_->form = form;
  work_->session = session.get();
  work_->thread = std::thread([this] { compile(); });
}

void CompiledForms::compile() {
  const AnswerForm& form = work_->form;
  ocellus_constraint_params params = constraint_params();
  params.kind = form.kind;
  params.text = form.text.data();
  params.text_bytes = std::ssize(form.text);
  params.session = work_->session;
  std::optional<RequestError> error;
  Result<Constraint> compiled = Constraint::create(engine_, params);
  const ocellus_status status = compiled.status().code();
  if (status != OCELLUS_OK) {
    const RequestError failure = library_error(status, form.param);
    // Full: of the form's memory, not of the context.
    error.emplace(name_tool(
        form, {failure.status(), failure.what(), form.param, status == OCELLUS_DEADLINE ? failure.code() : ""}));
  }
  {
    const std::lock_guard lock(mutex_);
    work_->compiled = *std::move(compiled);
    work_->was_cancelled = status == OCELLUS_CANCELLED;
    work_->error = std::move(error);
    work_->is_done = true;
  }
  done_();
}

void CompiledForms::give_back(const ocellus_constraint* compiled) {
  for (Entry& entry : entries_) {
    if (entry.compiled.get() == compiled) --entry.users;
  }
}

// Drops the form that is not in use and was used longest ago.
void CompiledForms::make_room() {
  if (std::ssize(entries_) < most_) return;
  const auto rank = [](const Entry& entry) { return std::pair(entry.users > 0, entry.taken); };
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [&](const Entry& a, const Entry& b) { return rank(a) < rank(b); });
  entries_.erase(oldest);
}

}  // namespace ocellus::app
