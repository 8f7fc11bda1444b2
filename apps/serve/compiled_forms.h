// CompiledForms: forms of answers as the engine has compiled them; the last ones stay for requests that want the same.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/serve/answer_form.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Used by the engine's thread alone.
class CompiledForms {
 public:
  // `most`: limits.max_constraints, as many as there are sessions or more; 0: requests for forms are refused.
  CompiledForms(ocellus_engine* engine, int32_t most) : engine_(engine), most_(most) {}
  ~CompiledForms();
  CompiledForms(const CompiledForms&) = delete;
  CompiledForms& operator=(const CompiledForms&) = delete;

  // Returns the form for an answer, until it is given back. Throws a RequestError that names the form's field.
  const ocellus_constraint* take(const AnswerForm& form);
  void give_back(const ocellus_constraint* compiled);  // nullptr: nothing

 private:
  struct Entry {
    AnswerForm form;
    ocellus_constraint* compiled;
    int32_t users;
    int64_t taken;  // number of its last use
  };
  void make_room();

  ocellus_engine* engine_;
  int32_t most_;
  std::vector<Entry> entries_;
  int64_t taken_ = 0;
};

}  // namespace ocellus::app
