// CompiledForms: forms of answers as the engine has compiled them; the last ones stay for requests that want the same.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "apps/serve/answer_form.h"
#include "apps/serve/request_error.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

// Used by the engine's thread alone. A thread beside it compiles, one form at a time, so that other answers go on.
class CompiledForms {
 public:
  // `most`: limits.max_constraints, as many as there are sessions or more; 0: requests for forms are refused. `done` is
  // called on either thread whenever who waits should ask again.
  CompiledForms(const Engine& engine, int32_t most, std::function<void()> done)
      : engine_(engine), most_(most), done_(std::move(done)) {}
  ~CompiledForms();
  CompiledForms(const CompiledForms&) = delete;
  CompiledForms& operator=(const CompiledForms&) = delete;

  // Returns the form for an answer, until it is given back; nullptr while one is compiled: ask again when that is done.
  // The session stays the asker's until then, whose cancellation and deadline end the compiling; it begins again if
  // `is_wanted`, as the session's last answer was meant then. Throws a RequestError that names the form's field.
  const ocellus_constraint* take(const AnswerForm& form, const Session& session, bool is_wanted);
  // True from a take() that began compiling to the one that ends it: the session must stay open.
  bool compiles_for(const Session& session) const { return work_ && work_->session == session.get(); }
  void give_back(const ocellus_constraint* compiled);  // nullptr: nothing

 private:
  struct Entry {
    AnswerForm form;
    Constraint compiled;
    int32_t users;
    int64_t taken;  // number of its last use
  };
  // The form that is compiled now, for a session.
  struct Work {
    AnswerForm form;
    ocellus_session* session;
    std::thread thread;
    bool is_done = false;  // this and what follows: under the mutex while the thread runs
    Constraint compiled;
    bool was_cancelled = false;
    std::optional<RequestError> error;
  };
  Entry* find(const AnswerForm& form);
  void begin(const AnswerForm& form, const Session& session);
  void compile();
  void make_room();

  const Engine& engine_;
  int32_t most_;
  std::function<void()> done_;
  std::vector<Entry> entries_;
  std::mutex mutex_;
  std::optional<Work> work_;
  int64_t taken_ = 0;
};

}  // namespace ocellus::app
