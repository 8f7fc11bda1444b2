// Questions and settings typed, or piped in, while a watch runs.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "apps/watch/watcher.h"

namespace ocellus::app {

// Reads stdin on a thread of its own until it ends. "/prompt TEXT", "/every S", "/change X", "/pause", "/resume",
// "/stats", "/quit"; any other line is a question.
class TypedQuestions {
 public:
  explicit TypedQuestions(Watcher* watcher);
  ~TypedQuestions();
  TypedQuestions(const TypedQuestions&) = delete;
  TypedQuestions& operator=(const TypedQuestions&) = delete;

 private:
  void read_lines();
  void obey(const std::string& line);

  Watcher* watcher_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace ocellus::app
