#include "apps/hub/hub_listing.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "apps/base/bounded_json.h"
#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/hub/hub_name.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits = {.values = 400'000, .depth = 32, .members = 20'000};

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// 0: none, or no number of bytes.
int64_t bytes_of(const Json& object) {
  const auto found = object.find("size");
  const bool is_number = found != object.end() && found->is_number_integer();
  const bool is_large = is_number && found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX;
  return is_number && !is_large && found->get<int64_t>() > 0 ? found->get<int64_t>() : 0;
}

// Large files have an entry of their own with the SHA-256, others the hash that Git has of them.
HubFile read_file(const Json& entry) {
  HubFile file;
  file.name = text_of(entry, "rfilename");
  const auto large = entry.find("lfs");
  const bool is_large = large != entry.end() && large->is_object();
  file.bytes = bytes_of(is_large ? *large : entry);
  file.hash = is_large ? text_of(*large, "sha256") : text_of(entry, "blobId");
  file.kind = is_large ? DigestKind::kSha256 : DigestKind::kGitBlob;
  if (!is_hex(file.hash, is_large ? kSha256Digits : kSha1Digits)) file.hash.clear();
  return file;
}

}  // namespace

const HubFile* HubListing::find(const std::string& name) const {
  for (const HubFile& file : files)
    if (file.name == name) return &file;
  return nullptr;
}

HubListing read_listing(std::string_view json, const std::string& repository) {
  const auto refuse = [&repository](const std::string& what) {
    return Failure(kExitBadInput, repository + ": the hub's list of files " + what + ".");
  };
  std::string problem;
  const Json object = read_json(json, kLimits, &problem);
  if (object.is_discarded()) throw refuse(problem);
  const auto entries = object.is_object() ? object.find("siblings") : object.end();
  HubListing listing;
  listing.commit = object.is_object() ? text_of(object, "sha") : "";
  if (!is_hex(listing.commit, kSha1Digits)) throw refuse("names no commit");
  if (entries == object.end() || !entries->is_array()) throw refuse("has no files");
  std::unordered_set<std::string> names;
  for (const Json& entry : *entries) {
    if (!entry.is_object()) throw refuse("has an entry that is no file");
    HubFile file = read_file(entry);
    const std::string shown = shorten(make_printable(file.name, Lines::kOne));
    if (!is_safe_path(file.name)) throw refuse("has the name '" + shown + "', which leads out of its folder");
    if (!names.insert(file.name).second) throw refuse("has " + shown + " twice");
    listing.files.push_back(std::move(file));
  }
  return listing;
}

}  // namespace ocellus::app
