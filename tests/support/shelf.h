// Image libraries for sessions: on folders of their own, with clocks that stand still.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/branches/library/library_session.h"
#include "tests/support/packed_sessions.h"
#include "tools/library_walk.h"

namespace ocellus::test {

/// A library in a folder of its own, which goes away with it.
struct Shelf {
  Shelf() {
    std::string name = (std::filesystem::temp_directory_path() / "ocellus-shelf-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
    REQUIRE_MESSAGE(library.open({.path = path.c_str(), .clock = &clock}).ok(), last_failure().sentence);
  }
  ~Shelf() {
    library.close();
    std::filesystem::remove_all(path);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path + "/entries"))
      if (entry.is_regular_file()) all.push_back(entry.path());
    return all;
  }

  std::string path;
  walk::SetClock clock;
  ImageLibrary library;
};

ocellus_limits shelf_limits(int32_t images, int32_t rows, int32_t bits = 16, int32_t reuse = OCELLUS_REUSE_MPIC);

Session& open_with(Engine& engine, Shelf& shelf, const char* owner);

void check_hits(const Answer& answer, int32_t hits, int32_t misses);

}  // namespace ocellus::test
