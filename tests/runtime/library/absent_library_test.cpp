#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "runtime/library/image_library.h"

namespace ocellus {

TEST_CASE("an image library that is not open says so, or that this build has none") {
  ImageLibrary library;
  LibraryUse use;
  LibraryReport report;
  LibraryEntry entry;
  LibraryKey key;
  Buffer<NearEntry> near;
  bool found = false;
  const Code code = library.describe_all(&use).code();
  CHECK((code == Code::kBadArgument || code == Code::kUnsupported));
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
  CHECK(std::string(last_failure().sentence).size() > 10);
  if (code != Code::kUnsupported) return;
  const std::string folder = (std::filesystem::temp_directory_path() / "ocellus-no-library").string();
  CHECK(library.open({.path = folder.c_str()}).code() == code);
  CHECK(std::string(last_failure().sentence).find("SQLite") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder));
}

}  // namespace ocellus
