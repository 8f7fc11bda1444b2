// What engines plan for pictures, for tests of the program: its owners of ocellus.hpp have the names of the library's
// own classes, so that no source can include both.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/ocellus.h"

namespace ocellus {

struct EngineShape;

namespace test {

class EngineRows {
 public:
  EngineRows();
  ~EngineRows();
  EngineRows(EngineRows&&) noexcept;
  EngineRows& operator=(EngineRows&&) noexcept;

  // Plans an engine. On failure the sentence is that of ocellus_last_error.
  ocellus_status plan(const ocellus_model* model, const ocellus_limits& limits);
  // Rows that a session gives a picture; -1 if it refuses it.
  int64_t of(int32_t width, int32_t height) const;
  // Rows that memory is planned for.
  int64_t planned() const;
  // Rows that the method `reduce` keeps of as many.
  int64_t kept_of(int64_t rows) const;

 private:
  std::unique_ptr<EngineShape> shape_;
};

}  // namespace test
}  // namespace ocellus
