// The latest captions and answers, with small pictures of their frames; thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "apps/watch/record.h"

namespace ocellus::app {

class WatchLog {
 public:
  static constexpr size_t kMaxRecords = 500, kMaxAnswers = 50;

  // `thumbnail`: a JPEG file, empty if there is none. Replaces the oldest record.
  void add(Record record, std::vector<uint8_t> thumbnail);
  void add(QuestionAnswer answer);

  // Returns at most `count` records older than the record `before` (0: no limit), newest first.
  std::vector<Record> records(int64_t before, size_t count) const;
  std::vector<QuestionAnswer> answers(size_t count) const;
  // Empty if the log no longer holds it.
  std::vector<uint8_t> thumbnail(int64_t id) const;
  // Returns the record, if the log still holds it.
  bool find(int64_t id, Record* record) const;

 private:
  struct Kept {
    Record record;
    std::vector<uint8_t> thumbnail;
  };
  const Kept* find_kept(int64_t id) const;

  mutable std::mutex mutex_;
  std::deque<Kept> records_;
  std::deque<QuestionAnswer> answers_;
};

}  // namespace ocellus::app
