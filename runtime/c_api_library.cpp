// The C API of the image library.
#include <cstring>
#include <new>

#include "runtime/engine.h"
#include "runtime/image_library.h"
#include "runtime/ocellus.h"

struct ocellus_library {
  ocellus::ImageLibrary library;
};

namespace {

using ocellus::Code;
using ocellus::Status;

ocellus_status result(Status status) { return static_cast<ocellus_status>(status.code()); }

ocellus_status null_argument(const char* function, const char* name) {
  return result(OCELLUS_FAIL(Code::kBadArgument, "%s: %s is null", function, name));
}

ocellus_library_report to_report(const ocellus::LibraryReport& from) {
  return {.checked = from.checked,
          .sound = from.sound,
          .set_aside = from.set_aside,
          .expired = from.expired,
          .unfinished = from.unfinished,
          .adopted = from.adopted,
          .dropped = from.dropped};
}

struct Visitor {
  ocellus_library_visit visit;
  void* user;
};

bool visit_item(void* user, const ocellus::LibraryItem& from) {
  const auto& visitor = *static_cast<const Visitor*>(user);
  ocellus_library_item item = {};
  std::memcpy(item.key, ocellus::key_text(from.key).text, sizeof item.key);
  item.shared = from.part == ocellus::LibraryPart::kShared ? 1 : 0;
  item.bits = from.facts.bits;
  item.tokens = from.facts.token_count;
  item.views = from.facts.view_count;
  item.pinned = from.labels.pinned ? 1 : 0;
  item.bytes = from.bytes;
  item.created = from.created;
  item.last_used = from.last_used;
  item.expires = from.labels.expires;
  return visitor.visit(visitor.user, &item) == 0;
}

}  // namespace

#define OCELLUS_REQUIRE(argument) \
  if ((argument) == nullptr) return null_argument(__func__, #argument)

ocellus_status ocellus_library_open(const char* path, int64_t quota_bytes, ocellus_library** out) {
  OCELLUS_REQUIRE(path);
  OCELLUS_REQUIRE(out);
  *out = nullptr;
  std::unique_ptr<ocellus_library> opened(new (std::nothrow) ocellus_library);
  if (opened == nullptr) return result(OCELLUS_FAIL(Code::kIo, "there is no memory for an image library"));
  const Status status = opened->library.open({.path = path, .quota_bytes = quota_bytes});
  if (status.ok()) *out = opened.release();
  return result(status);
}

void ocellus_library_close(ocellus_library* library) { delete library; }

ocellus_status ocellus_session_set_library(ocellus_session* session, ocellus_library* library, const char* owner) {
  OCELLUS_REQUIRE(session);
  if (library != nullptr && owner == nullptr) return null_argument(__func__, "owner");
  auto* const opened = reinterpret_cast<ocellus::Session*>(session);
  if (!opened->is_open()) return result(OCELLUS_FAIL(Code::kBadArgument, "%s: the session is closed", __func__));
  return result(opened->set_library(library == nullptr ? nullptr : &library->library, owner == nullptr ? "" : owner));
}

ocellus_status ocellus_library_list(ocellus_library* library, const char* owner, ocellus_library_visit visit,
                                    void* user) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(visit);
  Visitor visitor{visit, user};
  return result(library->library.list(owner, visit_item, &visitor));
}

ocellus_status ocellus_library_remove(ocellus_library* library, const char* owner, const char* key, int32_t* found) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(key);
  OCELLUS_REQUIRE(found);
  ocellus::LibraryKey parsed;
  if (!ocellus::parse_key(key, &parsed))
    return result(OCELLUS_FAIL(Code::kBadArgument, "a key has 32 hexadecimal digits"));
  bool removed = false;
  const Status status = library->library.remove(owner, ocellus::LibraryPart::kOwn, parsed, &removed);
  *found = removed ? 1 : 0;
  return result(status);
}

ocellus_status ocellus_library_verify(ocellus_library* library, ocellus_library_report* report) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(report);
  ocellus::LibraryReport found;
  const Status status = library->library.verify(&found);
  *report = to_report(found);
  return result(status);
}

ocellus_status ocellus_library_collect_garbage(ocellus_library* library, ocellus_library_report* report) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(report);
  ocellus::LibraryReport found;
  const Status status = library->library.collect_garbage(&found);
  *report = to_report(found);
  return result(status);
}
