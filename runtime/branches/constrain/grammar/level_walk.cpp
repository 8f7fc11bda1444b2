#include "runtime/branches/constrain/grammar/level_walk.h"

namespace ocellus {

LevelWalk::LevelWalk(Matcher* matcher) : matcher_(*matcher), before_(matcher->mark()) {
  if (++matcher_.walk_ == 0) matcher_.forget_levels();
}

LevelWalk::~LevelWalk() {
  matcher_.kept_ = {};
  matcher_.drop_after(before_);
}

/// Known levels take half of the room at most. All that was made before a known level stays, too.
bool LevelWalk::keeps_level() {
  const Matcher::Mark now = matcher_.mark();
  if (now.heads >= Matcher::kHeads / 2 || now.nodes >= CallStacks::kNodes / 2) return false;
  matcher_.kept_ = now;
  return true;
}

uint64_t LevelWalk::hash_reached() const {
  uint64_t sum = 0;
  for (int32_t i = 0; i < matcher_.reached_count_; ++i) {
    const Head& way = matcher_.reached_[i];
    if (way.state >= 0) sum += join_hashes(matcher_.stacks_[way.stack].hash, static_cast<uint64_t>(way.state) + 1);
  }
  return sum;
}

/// A level is known by its first head as long as its walk lasts, if it is kept. It has heads.
MatchLevel LevelWalk::step(const MatchLevel& from, uint8_t byte) {
  Matcher& m = matcher_;
  const uint64_t key = static_cast<uint64_t>(from.first) << 8 | byte;
  KnownLevel& next = m.next_levels_.data[(key ^ key >> 10) % Matcher::kKnown];
  if (next.walk == m.walk_ && next.key == key) return next.level;
  m.read(from, byte);
  if (m.reached_count_ == 0) {
    if (from.first < m.kept_.heads) next = {key, m.walk_, {}};
    return {m.head_count_, 0};
  }
  const uint64_t ways = hash_reached();
  KnownLevel& made = m.made_levels_.data[mix_bits(ways) % Matcher::kKnown];
  MatchLevel level = made.level;
  bool is_kept = made.walk == m.walk_ && made.key == ways;
  if (!is_kept) {
    level = m.close();
    is_kept = keeps_level();
    if (is_kept) made = {ways, m.walk_, level};
  }
  if (is_kept && from.first < m.kept_.heads) next = {key, m.walk_, level};
  return level;
}

}  // namespace ocellus
