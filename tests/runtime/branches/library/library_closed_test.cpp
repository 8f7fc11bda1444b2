#include <doctest/doctest.h>

#include "runtime/branches/library/image_library.h"

namespace ocellus {

TEST_CASE("an image library that is not open says so") {
  ImageLibrary library;
  LibraryUse use;
  LibraryReport report;
  LibraryEntry entry;
  LibraryKey key;
  Buffer<NearEntry> near;
  bool found = false;
  constexpr Code code = Code::kBadArgument;
  CHECK(library.describe_all(&use).code() == code);
  CHECK(library.put("ann", LibraryPart::kOwn, {}, &key).code() == code);
  CHECK(library.find("ann", {}, &entry, &found).code() == code);
  CHECK(library.find_key("ann", key, &entry, &found).code() == code);
  CHECK(library.remove("ann", LibraryPart::kOwn, key, &found).code() == code);
  CHECK(library.set_pinned("ann", LibraryPart::kOwn, key, true, &found).code() == code);
  CHECK(library.nearest("ann", {}, {}, 1, &near).code() == code);
  Buffer<FoundText> found_text;
  LibraryItem item;
  CHECK(library.search_text("ann", "red", 1, &found_text).code() == code);
  CHECK(library.describe_entry("ann", key, &item, &found).code() == code);
  CHECK(library.set_labels("ann", LibraryPart::kOwn, key, {}, &found).code() == code);
  CHECK(library.check_writer("ann", LibraryPart::kShared).code() == code);
  CHECK(library.create_shared("ann").code() == code);
  CHECK(library.set_owner_quota("ann", 1).code() == code);
  CHECK(library.describe_owner("ann", &use).code() == code);
  CHECK(library.verify(&report).code() == code);
  CHECK(library.collect_garbage(&report).code() == code);
}

}  // namespace ocellus
