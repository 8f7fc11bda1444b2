// LevelWalk: a walk of many texts from where a matcher stands.
//
// It keeps the levels that it has made, as a lazy automaton does: most bytes lead from one of few levels to another.
#pragma once

#include "runtime/branches/constrain/grammar/byte_trie.h"
#include "runtime/branches/constrain/grammar/matcher.h"
#include "runtime/branches/constrain/grammar/token_code.h"

namespace ocellus {

class LevelWalk {
 public:
  /// The matcher takes no other step while the walk lives; then all that the walk made is dropped.
  explicit LevelWalk(Matcher* matcher);
  ~LevelWalk();
  LevelWalk(const LevelWalk&) = delete;
  LevelWalk& operator=(const LevelWalk&) = delete;

  /// Calls visit(node) for every node of a trie that can be read from the heads of `start`.
  template <class Visit>
  void visit_trie(const ByteTrie& trie, const MatchLevel& start, Visit visit) {
    MatchLevel levels[ByteTrie::kMostDepth];
    Matcher::Mark marks[ByteTrie::kMostDepth];
    int32_t ends[ByteTrie::kMostDepth];
    int32_t depth = 0;
    if (start.count == 0) return;
    for (int32_t n = 0; n < trie.node_count && matcher_.spend(1);) {
      while (depth > 0 && ends[depth - 1] <= n) matcher_.drop_after(marks[--depth]);
      const ByteTrie::Node& node = trie.nodes[n];
      const Matcher::Mark here = matcher_.mark();
      const MatchLevel next = step(depth > 0 ? levels[depth - 1] : start, node.byte);
      if (next.count == 0) {
        matcher_.drop_after(here);
        n = node.end;
        continue;
      }
      visit(n);
      marks[depth] = here;
      levels[depth] = next;
      ends[depth++] = node.end;
      ++n;
    }
  }

  /// Calls visit(token) for every token below `count` whose code can be read from where the matcher stands.
  template <class Visit>
  void visit_codes(int32_t count, Visit visit) {
    const MatchLevel marked = step(matcher_.level(), TokenCode::kMark);
    if (marked.count > 0) visit_digits(marked, 0, 0, count, visit);
  }

 private:
  MatchLevel step(const MatchLevel& from, uint8_t byte);
  bool keeps_level();
  uint64_t hash_reached() const;

  template <class Visit>
  void visit_digits(const MatchLevel& from, int place, int32_t token, int32_t count, Visit& visit) {
    for (int digit = 0; digit < TokenCode::kBase && matcher_.spend(1); ++digit) {
      const int32_t next = token * TokenCode::kBase + digit;
      const int32_t first = next << 3 * (TokenCode::kDigits - 1 - place);
      if (first >= count) return;
      const Matcher::Mark here = matcher_.mark();
      const MatchLevel level = step(from, static_cast<uint8_t>(TokenCode::kFirstDigit + digit));
      if (level.count > 0 && place + 1 == TokenCode::kDigits) visit(next);
      if (level.count > 0 && place + 1 < TokenCode::kDigits) visit_digits(level, place + 1, next, count, visit);
      matcher_.drop_after(here);
    }
  }

  Matcher& matcher_;
  Matcher::Mark before_;
};

}  // namespace ocellus
