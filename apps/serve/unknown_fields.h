// The fields that an object of a request may have, at every level. Nothing that was given is dropped in silence: what
// would change the answer is read or refused by its place; other fields are unknown to this server, which refuses them
// or ignores them with one note.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/json_fields.h"
#include "apps/serve/serve_options.h"

namespace ocellus::app {

// A field that would change the answer, unless its value asks for nothing.
struct RefusedField {
  std::string_view name;
  std::string_view instead = {};  // the field to use; '@' stands for the object with its dot
  std::string_view neutral = {};  // a JSON list of values that ask for nothing; empty: false, 0 and what is empty
};

struct FieldRules {
  std::span<const std::string_view> known = {};  // fields that are read, or change nothing
  std::span<const std::string_view> also = {};   // more of them
  std::span<const RefusedField> refused = {};
  std::string_view media = {};  // use this in place of the fields below; empty: they are like others
};

// Fields in which other programs' requests have pictures and such, which are parts of a message's content here.
inline constexpr std::string_view kMediaFields[] = {
    "images", "image",     "image_url",        "image_urls",  "image_data", "video",
    "videos", "video_url", "multi_modal_data", "pictures",    "media",      "files",
    "file",   "file_ids",  "file_data",        "attachments", "documents",  "input_audio"};

using FieldNames = std::vector<std::string>;

// `at`: the object's place, as "messages[0]"; empty for the request itself. Adds the places of unknown fields to
// `unknown`, which keeps the first ones. Throws a RequestError that names a refused one.
void check_fields(const RequestJson& object, const std::string& at, const FieldRules& rules, FieldNames* unknown);
void note_unknown(const std::string& place, FieldNames* unknown);
// The error of a field that this server does not support. `instead` may be empty.
RequestError unsupported_field(const std::string& place, const std::string& instead);

// Not thread-safe.
class UnknownFields {
 public:
  explicit UnknownFields(const ServeOptions& options) : options_(options) {}
  // With --strict throws a RequestError.
  void take(const FieldNames& places);
  // Notes the words, the first time.
  void note_once(const std::string& words);

 private:
  void note(const std::string& place);

  const ServeOptions& options_;
  std::set<std::string> noted_;
};

}  // namespace ocellus::app
