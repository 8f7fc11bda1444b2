// The C API of the image library.
#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/api/handles.h"
#include "runtime/branches/library/library_session.h"

struct ocellus_library {
  ocellus::ImageLibrary library;
};

namespace {

using ocellus::Code;
using ocellus::ImageLibrary;
using ocellus::LibraryKey;
using ocellus::LibraryPart;
using ocellus::Status;

ocellus_library_report to_report(const ocellus::LibraryReport& from) {
  return {.checked = from.checked,
          .sound = from.sound,
          .set_aside = from.set_aside,
          .expired = from.expired,
          .unfinished = from.unfinished,
          .adopted = from.adopted,
          .dropped = from.dropped,
          .outdated = from.outdated};
}

template <size_t kCapacity>
void copy_text(std::string_view from, char (&to)[kCapacity]) {
  const size_t count = std::min(from.size(), kCapacity - 1);
  std::memcpy(to, from.data(), count);
  to[count] = '\0';
}

void to_item(const ocellus::LibraryItem& from, ocellus_library_item* out) {
  *out = {};
  copy_text(ocellus::key_text(from.key).text, out->key);
  out->shared = from.part == LibraryPart::kShared ? 1 : 0;
  out->bits = from.facts.bits;
  out->tokens = from.facts.token_count;
  out->views = from.facts.view_count;
  out->pinned = from.labels.pinned ? 1 : 0;
  out->bytes = from.bytes;
  out->created = from.created;
  out->last_used = from.last_used;
  out->expires = from.labels.expires;
  out->layers = from.facts.layer_count;
  out->input_rows = from.facts.stored_input_rows;
  out->block_slots = from.facts.block_rows;
  out->has_embedding = from.has_embedding ? 1 : 0;
  out->embedding_width = from.facts.embedding_width;
  out->tag_count = from.labels.tags.count;
  for (int32_t i = 0; i < out->tag_count; ++i) copy_text(from.labels.tags.tags[i].view(), out->tags[i]);
  copy_text(from.labels.caption.view(), out->caption);
}

struct Visitor {
  ocellus_library_visit visit;
  void* user;
};

bool visit_item(void* user, const ocellus::LibraryItem& from) {
  const auto& visitor = *static_cast<const Visitor*>(user);
  ocellus_library_item item;
  to_item(from, &item);
  return visitor.visit(visitor.user, &item) == 0;
}

LibraryPart part_of(int32_t shared) { return shared != 0 ? LibraryPart::kShared : LibraryPart::kOwn; }

Status parse_key(const char* text, LibraryKey* out) {
  if (ocellus::parse_key(text, out)) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "a key has 32 hexadecimal digits");
}

/// Calls call(key, exists) for the entry of this key.
template <class Call>
ocellus_status on_entry(const char* key, int32_t* found, Call call) {
  LibraryKey parsed;
  bool exists = false;
  Status status = parse_key(key, &parsed);
  if (status.ok()) status = call(parsed, &exists);
  *found = exists ? 1 : 0;
  return result(status);
}

/// Returns a view of a text that may be null.
std::string_view text_of(const char* text) { return text == nullptr ? std::string_view() : text; }

Status to_labels(const ocellus_library_keep& keep, ocellus::EntryLabels* out) {
  if (keep.struct_bytes != sizeof keep)
    return OCELLUS_FAIL(Code::kBadArgument, "an ocellus_library_keep that was not initialised");
  if (keep.tag_count < 0 || (keep.tag_count > 0 && keep.tags == nullptr))
    return OCELLUS_FAIL(Code::kBadArgument, "an ocellus_library_keep counts %d tags and has no list of them",
                        keep.tag_count);
  std::string_view tags[ocellus::kMaxTags + 1];  // room for one more, which is refused
  const int32_t count = std::min(keep.tag_count, ocellus::kMaxTags + 1);
  for (int32_t i = 0; i < count; ++i) tags[i] = text_of(keep.tags[i]);
  return ocellus::make_labels({tags, static_cast<size_t>(count)}, text_of(keep.caption), keep.expires, keep.pinned != 0,
                              out);
}

Status check_search(const ocellus_library_hit* hits, int32_t capacity) {
  if (hits != nullptr && capacity > 0) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "a search needs room for at least one entry");
}

/// Leaves out entries removed meanwhile.
Status add_hit(ImageLibrary& library, std::string_view owner, const LibraryKey& key, double score,
               ocellus_library_hit* hits, int32_t* count) {
  ocellus::LibraryItem item;
  bool found = false;
  OCELLUS_TRY(library.describe_entry(owner, key, &item, &found));
  if (!found) return {};
  to_item(item, &hits[*count].item);
  hits[(*count)++].score = score;
  return {};
}

Status search_text(ImageLibrary& library, std::string_view owner, std::string_view text, ocellus_library_hit* hits,
                   int32_t capacity, int32_t* count) {
  ocellus::Buffer<ocellus::FoundText> found;
  OCELLUS_TRY(check_search(hits, capacity));
  OCELLUS_TRY(library.search_text(owner, text, capacity, &found));
  for (const ocellus::FoundText& one : found) OCELLUS_TRY(add_hit(library, owner, one.key, one.score, hits, count));
  return {};
}

Status search_image(ocellus::Session& session, const uint8_t* bytes, int64_t byte_count, ocellus_library_hit* hits,
                    int32_t capacity, int32_t* count) {
  ocellus::Buffer<ocellus::NearEntry> found;
  OCELLUS_TRY(check_search(hits, capacity));
  OCELLUS_TRY(search_library(session, bytes, byte_count, capacity, &found));
  ImageLibrary& library = library_of(session)->library();
  for (const ocellus::NearEntry& one : found)
    OCELLUS_TRY(add_hit(library, session.owner().view(), one.key, double{one.similarity}, hits, count));
  return {};
}

/// Returns the session, or null and a failure if it is closed.
ocellus::Session* open_session(ocellus_session* session, const char* function) {
  auto* const opened = reinterpret_cast<ocellus::Session*>(session);
  if (opened->is_open()) return opened;
  (void)OCELLUS_FAIL(Code::kBadArgument, "%s: the session is closed", function);
  return nullptr;
}

}  // namespace

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
  if (library != nullptr && owner == nullptr) return ocellus::null_argument(__func__, "owner");
  ocellus::Session* const opened = open_session(session, __func__);
  if (opened == nullptr) return OCELLUS_BAD_ARGUMENT;
  return result(set_library(*opened, library == nullptr ? nullptr : &library->library, owner == nullptr ? "" : owner));
}

ocellus_status ocellus_library_list(ocellus_library* library, const char* owner, ocellus_library_visit visit,
                                    void* user) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(visit);
  Visitor visitor{visit, user};
  return result(library->library.list(owner, visit_item, &visitor));
}

ocellus_status ocellus_library_describe_entry(ocellus_library* library, const char* owner, const char* key,
                                              ocellus_library_item* out, int32_t* found) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(key);
  OCELLUS_REQUIRE(out);
  OCELLUS_REQUIRE(found);
  return on_entry(key, found, [&](const LibraryKey& parsed, bool* exists) -> Status {
    ocellus::LibraryItem item;
    bool is_there = false;
    OCELLUS_TRY(library->library.describe_entry(owner, parsed, &item, &is_there));
    if (is_there) to_item(item, out);
    *exists = is_there;
    return {};
  });
}

ocellus_status ocellus_library_remove(ocellus_library* library, const char* owner, int32_t shared, const char* key,
                                      int32_t* found) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(key);
  OCELLUS_REQUIRE(found);
  return on_entry(key, found, [&](const LibraryKey& parsed, bool* exists) {
    return library->library.remove(owner, part_of(shared), parsed, exists);
  });
}

ocellus_status ocellus_library_set_pinned(ocellus_library* library, const char* owner, int32_t shared, const char* key,
                                          int32_t pinned, int32_t* found) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(key);
  OCELLUS_REQUIRE(found);
  return on_entry(key, found, [&](const LibraryKey& parsed, bool* exists) {
    return library->library.set_pinned(owner, part_of(shared), parsed, pinned != 0, exists);
  });
}

ocellus_status ocellus_library_relabel(ocellus_library* library, const char* owner, const char* key,
                                       const ocellus_library_keep* keep, int32_t* found) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(key);
  OCELLUS_REQUIRE(keep);
  OCELLUS_REQUIRE(found);
  return on_entry(key, found, [&](const LibraryKey& parsed, bool* exists) -> Status {
    ocellus::EntryLabels labels;
    OCELLUS_TRY(to_labels(*keep, &labels));
    return library->library.set_labels(owner, part_of(keep->shared), parsed, labels, exists);
  });
}

ocellus_status ocellus_library_create_shared(ocellus_library* library, const char* administrator) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(administrator);
  return result(library->library.create_shared(administrator));
}

ocellus_status ocellus_library_set_owner_quota(ocellus_library* library, const char* owner, int64_t bytes) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  return result(library->library.set_owner_quota(owner, bytes));
}

ocellus_status ocellus_library_describe_use(ocellus_library* library, const char* owner, ocellus_library_use* out) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(out);
  ocellus::LibraryUse use;
  const Status status =
      owner == nullptr ? library->library.describe_all(&use) : library->library.describe_owner(owner, &use);
  *out = {use.entries, use.bytes, use.pinned_bytes, use.quota_bytes};
  return result(status);
}

ocellus_status ocellus_library_search_text(ocellus_library* library, const char* owner, const char* text,
                                           int64_t text_bytes, ocellus_library_hit* hits, int32_t capacity,
                                           int32_t* count) {
  OCELLUS_REQUIRE(library);
  OCELLUS_REQUIRE(owner);
  OCELLUS_REQUIRE(text);
  OCELLUS_REQUIRE(count);
  *count = 0;
  if (text_bytes < 0) return result(OCELLUS_FAIL(Code::kBadArgument, "a text cannot have a negative length"));
  const std::string_view words(text, static_cast<size_t>(text_bytes));
  return result(search_text(library->library, owner, words, hits, capacity, count));
}

ocellus_status ocellus_session_set_library_keep(ocellus_session* session, const ocellus_library_keep* keep) {
  OCELLUS_REQUIRE(session);
  OCELLUS_REQUIRE(keep);
  ocellus::Session* const opened = open_session(session, __func__);
  if (opened == nullptr) return OCELLUS_BAD_ARGUMENT;
  ocellus::EntryLabels labels;
  const Status status = to_labels(*keep, &labels);
  if (!status.ok()) return result(status);
  return result(set_library_keep(*opened, labels, part_of(keep->shared), keep->only_there != 0));
}

ocellus_status ocellus_session_get_library_image(ocellus_session* session, ocellus_library_image* out) {
  OCELLUS_REQUIRE(session);
  OCELLUS_REQUIRE(out);
  ocellus::Session* const opened = open_session(session, __func__);
  if (opened == nullptr) return OCELLUS_BAD_ARGUMENT;
  using Outcome = ocellus::SessionKeep::Outcome;
  ocellus::LibrarySession* const own = library_of(*opened);
  const Status known =
      own == nullptr ? Status() : opened->acknowledge_cancel(own->wait_for_outcome(opened->stop_signal()));
  if (!known.ok()) return result(known);
  if (own == nullptr || own->outcome().outcome == Outcome::kNone)
    return result(OCELLUS_FAIL(Code::kBadArgument, "no image was added with this library yet"));
  const ocellus::SessionKeep& keep = own->outcome();
  if (keep.outcome == Outcome::kFailed) {
    const ocellus::Failure& why = keep.failure;
    return result(ocellus::record_failure(why.code, why.file, why.line, "%s", why.sentence));
  }
  copy_text(ocellus::key_text(keep.last_key).text, out->key);
  out->shared = keep.last_part == LibraryPart::kShared ? 1 : 0;
  out->stored = keep.outcome == Outcome::kStored ? 1 : 0;
  return OCELLUS_OK;
}

ocellus_status ocellus_session_add_library_image(ocellus_session* session, const char* key) {
  OCELLUS_REQUIRE(session);
  OCELLUS_REQUIRE(key);
  ocellus::Session* const opened = open_session(session, __func__);
  if (opened == nullptr) return OCELLUS_BAD_ARGUMENT;
  LibraryKey parsed;
  const Status status = parse_key(key, &parsed);
  if (!status.ok()) return result(status);
  return result(opened->acknowledge_cancel(opened->prompt().add_named_picture(key)));
}

ocellus_status ocellus_session_search_library(ocellus_session* session, const void* bytes, int64_t byte_count,
                                              ocellus_library_hit* hits, int32_t capacity, int32_t* count) {
  OCELLUS_REQUIRE(session);
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(count);
  *count = 0;
  ocellus::Session* const opened = open_session(session, __func__);
  if (opened == nullptr) return OCELLUS_BAD_ARGUMENT;
  return result(opened->acknowledge_cancel(
      search_image(*opened, static_cast<const uint8_t*>(bytes), byte_count, hits, capacity, count)));
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
