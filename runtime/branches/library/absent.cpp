// Builds without the branch: pictures are kept on the device alone.
#include "runtime/api/handles.h"
#include "runtime/branches/all.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  return limits.library == 0 && limits.library_cache_bytes == 0 ? Status()
                                                                : left_out(kLibraryBranch, "image library (library)");
}

ocellus_status refuse() { return result(left_out(kLibraryBranch, "image library")); }

}  // namespace

const Branch kLibraryBranch = {.facts = {.name = "library", .is_built = 0}, .check = check};

}  // namespace ocellus

using ocellus::refuse;

ocellus_status ocellus_library_open(const char*, int64_t, ocellus_library** out) {
  if (out != nullptr) *out = nullptr;
  return refuse();
}

void ocellus_library_close(ocellus_library*) {}

ocellus_status ocellus_library_list(ocellus_library*, const char*, ocellus_library_visit, void*) { return refuse(); }

ocellus_status ocellus_library_describe_entry(ocellus_library*, const char*, const char*, ocellus_library_item*,
                                              int32_t*) {
  return refuse();
}

ocellus_status ocellus_library_remove(ocellus_library*, const char*, int32_t, const char*, int32_t*) {
  return refuse();
}

ocellus_status ocellus_library_set_pinned(ocellus_library*, const char*, int32_t, const char*, int32_t, int32_t*) {
  return refuse();
}

ocellus_status ocellus_library_relabel(ocellus_library*, const char*, const char*, const ocellus_library_keep*,
                                       int32_t*) {
  return refuse();
}

ocellus_status ocellus_library_create_shared(ocellus_library*, const char*) { return refuse(); }

ocellus_status ocellus_library_set_owner_quota(ocellus_library*, const char*, int64_t) { return refuse(); }

ocellus_status ocellus_library_describe_use(ocellus_library*, const char*, ocellus_library_use*) { return refuse(); }

ocellus_status ocellus_library_search_text(ocellus_library*, const char*, const char*, int64_t, ocellus_library_hit*,
                                           int32_t, int32_t* count) {
  if (count != nullptr) *count = 0;
  return refuse();
}

ocellus_status ocellus_library_verify(ocellus_library*, ocellus_library_report*) { return refuse(); }

ocellus_status ocellus_library_collect_garbage(ocellus_library*, ocellus_library_report*) { return refuse(); }

/// Without a library the owner separates shared images.
ocellus_status ocellus_session_set_library(ocellus_session* session, ocellus_library* library, const char* owner) {
  if (library != nullptr) return refuse();
  return ocellus::on_session(session, __func__,
                             [&](ocellus::Session& s) { return s.set_store(nullptr, owner == nullptr ? "" : owner); });
}

ocellus_status ocellus_session_set_library_keep(ocellus_session*, const ocellus_library_keep*) { return refuse(); }

ocellus_status ocellus_session_get_library_image(ocellus_session*, ocellus_library_image*) { return refuse(); }

ocellus_status ocellus_session_add_library_image(ocellus_session*, const char*) { return refuse(); }

ocellus_status ocellus_session_search_library(ocellus_session*, const void*, int64_t, ocellus_library_hit*, int32_t,
                                              int32_t* count) {
  if (count != nullptr) *count = 0;
  return refuse();
}
