#include "platform/arena.h"

#include <algorithm>
#include <cinttypes>

namespace ocellus {

const char* lifetime_name(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kWeights: return "weights";
    case Lifetime::kSession: return "session";
    case Lifetime::kScratch: return "scratch";
    case Lifetime::kStaging: return "staging";
  }
  return "unknown";
}

Status Arena::add(Extent extent, bool for_device, bool for_host) {
  if (extent.data == nullptr || extent.bytes <= 0) return OCELLUS_FAIL(Code::kBadArgument, "a memory extent is empty");
  if (reinterpret_cast<uintptr_t>(extent.data) % kRowAlignment != 0)
    return OCELLUS_FAIL(Code::kBadArgument, "a memory extent must start on a multiple of %" PRId64 " bytes",
                        kRowAlignment);
  if (extent_count_ == kMaxExtents)
    return OCELLUS_FAIL(Code::kBadArgument, "at most %d memory extents are supported", kMaxExtents);
  bounds_[extent_count_++] = {extent, {for_device, for_host}, 0, extent.bytes};
  if (!for_device || !for_host) {
    separate_places_ = true;
    shares_host_memory_ = false;
  }
  return {};
}

Status Arena::take(const RowSpec& row, std::byte** out) {
  const bool scratch = row.lifetime == Lifetime::kScratch;
  if (scratch && scope_depth_ == 0)
    return OCELLUS_FAIL(Code::kInternal, "scratch row '%s' taken outside a scope", row.name);
  const int64_t bytes = aligned_bytes(row.bytes);
  for (int i = 0; i < extent_count_; ++i) {
    Bounds& b = bounds_[i];
    if (!b.holds[static_cast<int>(row.place)]) continue;
    // An extent whose size is no multiple of the alignment must not misalign rows taken from its end.
    const int64_t end = b.high / kRowAlignment * kRowAlignment;
    if (bytes > end - b.low) continue;
    if (scratch) {
      b.high = end - bytes;
      *out = b.extent.data + b.high;
    } else {
      *out = b.extent.data + b.low;
      b.low += bytes;
      if (row_count_ < kMaxRows) rows_[row_count_++] = row;
    }
    const int k = account(row);
    used_[k] += bytes;
    high_water_[k] = std::max(high_water_[k], used_[k]);
    return {};
  }
  return OCELLUS_FAIL(Code::kInternal, "no memory extent has %" PRId64 " free bytes for row '%s'", bytes, row.name);
}

int64_t Arena::capacity_bytes() const {
  int64_t total = 0;
  for (int i = 0; i < extent_count_; ++i) total += bounds_[i].extent.bytes;
  return total;
}

int64_t Arena::capacity_bytes(Place place) const {
  int64_t total = 0;
  for (int i = 0; i < extent_count_; ++i)
    if (bounds_[i].holds[static_cast<int>(place)]) total += bounds_[i].extent.bytes;
  return total;
}

void Arena::note_session_use(int64_t bytes) { session_use_high_water_ = std::max(session_use_high_water_, bytes); }

Status take_activations(RowSink& sink, const char* name, Lifetime lifetime, Phase phase, ActivationType type,
                        int64_t rows, int64_t cols, ActivationView* out) {
  if (type == ActivationType::kF16) {
    DeviceView<Half> halves;
    OCELLUS_TRY(take_rows(sink, name, lifetime, phase, rows, cols, &halves));
    *out = halves;
    return {};
  }
  DeviceView<float> floats;
  OCELLUS_TRY(take_rows(sink, name, lifetime, phase, rows, cols, &floats));
  *out = floats;
  return {};
}

ArenaScope::ArenaScope(Arena& arena) : arena_(arena) {
  std::copy(arena.used_, arena.used_ + kLifetimeCount, saved_used_);
  for (int i = 0; i < arena.extent_count_; ++i) saved_high_[i] = arena.bounds_[i].high;
  ++arena_.scope_depth_;
}

ArenaScope::~ArenaScope() {
  for (int i = 0; i < arena_.extent_count_; ++i) arena_.bounds_[i].high = saved_high_[i];
  for (const Lifetime lifetime : {Lifetime::kScratch, Lifetime::kStaging})
    arena_.used_[Arena::index(lifetime)] = saved_used_[Arena::index(lifetime)];
  --arena_.scope_depth_;
}

}  // namespace ocellus
