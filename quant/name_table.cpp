#include "quant/name_table.h"

#include <bit>

namespace ocellus {
namespace {

// With half of the slots free the longest probe of 65,536 ordinary names stays near 60. The limit keeps the work linear
// for names that were chosen to collide.
constexpr int64_t kMaxProbes = 256;

}  // namespace

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash ^ (hash >> 32);
}

Status NameTable::create(int64_t count) {
  slots_ = Buffer<Slot>();
  const uint64_t wanted = count > 0 ? 2 * static_cast<uint64_t>(count) : 1;
  return slots_.resize(static_cast<int64_t>(std::bit_ceil(wanted)));
}

Status NameTable::insert(std::string_view name, int32_t index, int32_t* earlier) {
  const uint64_t hash = hash_name(name);
  const Slot* slot = probe(name, hash);
  if (slot == nullptr) return OCELLUS_FAIL(Code::kBadFile, "its names were chosen to collide in a hash table");
  *earlier = slot->index;
  if (slot->index < 0) slots_[slot - slots_.data()] = {name, hash, index};
  return {};
}

int32_t NameTable::find(std::string_view name) const {
  const Slot* slot = probe(name, hash_name(name));
  return slot == nullptr ? -1 : slot->index;
}

// Returns the slot that holds the name or, if it is absent, the free slot for it; nullptr after kMaxProbes.
const NameTable::Slot* NameTable::probe(std::string_view name, uint64_t hash) const {
  const int64_t mask = slots_.size() - 1;
  const int64_t first = static_cast<int64_t>(hash & static_cast<uint64_t>(mask));
  for (int64_t i = 0; i < slots_.size() && i < kMaxProbes; ++i) {
    const Slot& slot = slots_[(first + i) & mask];
    if (slot.index < 0 || (slot.hash == hash && slot.name == name)) return &slot;
  }
  return nullptr;
}

}  // namespace ocellus
