// The tensor section of a file in memory: whole, or with one stretch apart from the rest.
#pragma once

#include <cstdint>

namespace ocellus {

/// Bytes [begin, end) of a tensor section; empty: none.
struct SectionStretch {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  bool holds(int64_t offset) const { return offset >= begin && offset < end; }
};

/// `Byte`: of memory that is filled or only read.
template <class Byte>
struct LoadedSection {
  Byte* data = nullptr;   // the section without the stretch; null: it is not loaded
  Byte* apart = nullptr;  // the stretch
  SectionStretch stretch = {};

  Byte* at(int64_t offset) const {
    if (data == nullptr) return nullptr;
    if (stretch.holds(offset)) return apart + (offset - stretch.begin);
    return data + (offset < stretch.end ? offset : offset - stretch.bytes());
  }
};

}  // namespace ocellus
