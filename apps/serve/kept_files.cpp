#include "apps/serve/kept_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/retrieval_mark.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kKeyDigits = sizeof(ocellus_library_item::key) - 1;
constexpr int64_t kDefaultListed = 10'000;
constexpr std::string_view kTag = "file";

// The tag is one word that no one searches for: "file" NAME_BYTES "x" FILE_BYTES PURPOSE.
struct FileFacts {
  size_t name_bytes = 0;  // the first ones of the caption
  int64_t bytes = 0;
  std::string purpose;
};

std::string write_tag(const FileUpload& upload) {
  return std::string(kTag) + std::to_string(upload.filename.size()) + "x" + std::to_string(upload.picture.size()) +
         (upload.purpose == "vision" ? "v" : "u");
}

std::optional<FileFacts> read_tag(std::string_view tag) {
  if (tag.substr(0, kTag.size()) != kTag) return std::nullopt;
  FileFacts facts;
  const char* const end = tag.data() + tag.size();
  const auto name = std::from_chars(tag.data() + kTag.size(), end, facts.name_bytes);
  if (name.ec != std::errc() || name.ptr == end || *name.ptr != 'x') return std::nullopt;
  const auto bytes = std::from_chars(name.ptr + 1, end, facts.bytes);
  if (bytes.ec != std::errc() || end - bytes.ptr != 1 || (*bytes.ptr != 'v' && *bytes.ptr != 'u')) return std::nullopt;
  facts.purpose = *bytes.ptr == 'v' ? "vision" : "user_data";
  return facts;
}

std::optional<FileFacts> read_facts(const ocellus_library_item& item) {
  for (int32_t i = 0; item.shared == 0 && i < item.tag_count; ++i) {
    if (auto facts = read_tag(item.tags[i])) return facts;
  }
  return std::nullopt;
}

Json file_json(const ocellus_library_item& item, const FileFacts& facts) {
  Json object = {{"id", item.key}, {"object", "file"}, {"bytes", facts.bytes}, {"created_at", item.created}};
  object["expires_at"] = item.expires > 0 ? Json(item.expires) : Json(nullptr);
  object["filename"] = std::string(item.caption).substr(0, facts.name_bytes);
  object["purpose"] = facts.purpose;
  object["status"] = "processed";
  return object;
}

void require(Status status) {
  if (!status) throw library_error(status.code());
}

template <class T>
T require(const Result<T>& result) {
  require(result.status());
  return *result;
}

RequestError store_error(ocellus_status status) {
  if (status != OCELLUS_FULL) return library_error(status, "file");
  return RequestError(429, "The file does not fit your quota: delete files that you do not need.", "file",
                      "insufficient_quota");
}

// Finds an entry that the user sees. False for texts that are no keys, as for keys of no entry.
bool find_entry(const Library& library, const std::string& user, const std::string& key, ocellus_library_item* item) {
  if (key.size() != kKeyDigits || key.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  return require(library.describe_entry(user.c_str(), key.c_str(), *item));
}

int64_t list_limit(const HttpRequest& request) {
  const std::string_view text = request.argument("limit");
  if (text.empty()) return kDefaultListed;
  int64_t limit = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || stop != text.data() + text.size() || limit < 1 || limit > kDefaultListed) {
    throw RequestError(400, "limit must be a whole number between 1 and 10000.", "limit");
  }
  return limit;
}

Json list_files(const Library& library, const HttpRequest& request, const std::string& user) {
  std::vector<Json> files;
  const int64_t limit = list_limit(request);
  const std::string_view order = request.argument("order"), after = request.argument("after"),
                         purpose = request.argument("purpose");
  if (!order.empty() && order != "asc" && order != "desc")
    throw RequestError(400, "order must be asc or desc.", "order");
  const auto add = [&](const ocellus_library_item& item) noexcept {
    const auto facts = read_facts(item);
    if (!facts || (!purpose.empty() && facts->purpose != purpose)) return true;
    try {
      files.push_back(file_json(item, *facts));
      return true;
    } catch (...) {
      return false;  // out of memory: the list ends
    }
  };
  require(library.list(user.c_str(), add));
  std::stable_sort(files.begin(), files.end(),
                   [](const Json& a, const Json& b) { return a["created_at"] < b["created_at"]; });
  if (order != "asc") std::reverse(files.begin(), files.end());
  if (!after.empty()) {
    const auto last = std::find_if(files.begin(), files.end(), [&](const Json& file) { return file["id"] == after; });
    if (last == files.end()) throw no_such_file("after");
    files.erase(files.begin(), last + 1);
  }
  const bool has_more = std::ssize(files) > limit;
  if (has_more) files.resize(static_cast<size_t>(limit));
  Json list = {
      {"object", "list"}, {"data", files}, {"first_id", nullptr}, {"last_id", nullptr}, {"has_more", has_more}};
  if (!files.empty()) {
    list["first_id"] = files.front()["id"];
    list["last_id"] = files.back()["id"];
  }
  return list;
}

std::vector<MarkedText> split_marks(const ChatPart& part) {
  try {
    return split_at_retrievals(part.text);
  } catch (const Failure& failure) {
    throw RequestError(400, failure.what(), part.param, "invalid_retrieval");
  }
}

Json delete_file(const Library& library, const std::string& user, const std::string& id) {
  if (!require(library.remove(user.c_str(), id.c_str()))) throw no_such_file("id");
  return {{"id", id}, {"object", "file"}, {"deleted", true}};
}

}  // namespace

RequestError no_such_file(const std::string& param) {
  return RequestError(404, "There is no such file.", param, "file_not_found");
}

void KeptFiles::require_library() const {
  if (library_ != nullptr) return;
  throw RequestError(404, "This server keeps no pictures: start it with --library DIR.", "", "not_found");
}

void KeptFiles::attach(Session* session, const std::string& user) const {
  require(library_ != nullptr ? session->set_library(*library_, user.c_str()) : session->clear_library(user.c_str()));
}

Json KeptFiles::keep(Session* session, const std::string& user, const FileUpload& upload) const {
  const std::string tag = write_tag(upload);
  const char* const tags[] = {tag.c_str()};
  const std::string caption = upload.filename + (upload.caption.empty() ? "" : ": " + upload.caption);
  ocellus_library_keep labels = library_keep();
  labels.only_there = 1;
  labels.pinned = 1;
  // A second more, as both ends are whole ones: a file is kept for as long as was asked, and is there when it is
  // stored.
  labels.expires = upload.lifetime_s > 0 ? std::time(nullptr) + upload.lifetime_s + 1 : 0;
  labels.tags = tags;
  labels.tag_count = 1;
  labels.caption = caption.c_str();
  require(session->set_library_keep(labels));
  const Status added = session->add_encoded_image(upload.picture);
  if (!added) throw library_error(added.code(), "file");
  const Result<ocellus_library_image> image = session->get_library_image();
  if (!image) throw store_error(image.status().code());
  const Result<bool> found =
      image->stored != 0 ? Result<bool>(OCELLUS_OK, true) : library_->relabel(user.c_str(), image->key, labels);
  if (!found) throw store_error(found.status().code());
  ocellus_library_item item = {};
  if (!*found || !find_entry(*library_, user, image->key, &item)) {
    throw RequestError(500, "The file was removed while it was stored.", "file");
  }
  return file_json(item, read_facts(item).value_or(FileFacts()));
}

Json KeptFiles::answer(const HttpRequest& request, const std::string& user) const {
  if (request.path == kFilesPath) return list_files(*library_, request, user);
  const std::string id = request.path.substr(std::string_view(kFilesPath).size() + 1);
  ocellus_library_item item = {};
  const bool is_there = find_entry(*library_, user, id, &item);
  const auto facts = is_there ? read_facts(item) : std::nullopt;
  if (!facts) throw no_such_file("id");
  return request.method == "DELETE" ? delete_file(*library_, user, id) : file_json(item, *facts);
}

std::vector<RetrievedPicture> KeptFiles::search(const std::string& user, const std::string& words,
                                                int32_t count) const {
  std::vector<ocellus_library_hit> hits(static_cast<size_t>(count));
  hits.resize(static_cast<size_t>(require(library_->search_text(user.c_str(), words, hits))));
  std::vector<RetrievedPicture> found;
  for (const ocellus_library_hit& hit : hits) {
    found.push_back({.query = words, .key = hit.item.key, .score = hit.score, .caption = hit.item.caption});
  }
  return found;
}

std::vector<RetrievedPicture> KeptFiles::search_any(const std::string& user, const std::string& words) const {
  try {
    return search(user, words, 1);
  } catch (const RequestError& error) {
    if (error.status() != 400) throw;
    return {};  // nothing that could be searched for
  }
}

void KeptFiles::fill_in(ChatRequest* request, const std::string& user, int64_t most) const {
  for (ChatTurn& turn : request->turns) {
    if (turn.role != OCELLUS_ROLE_USER) continue;  // marks of others ask for nothing
    std::vector<ChatPart> filled;
    for (ChatPart& part : turn.parts) {
      const bool has_marks = !part.is_image && !part.is_quoted && part.text.find(kRetrievalBegin) != std::string::npos;
      if (has_marks || !part.key.empty()) require_library();
      ocellus_library_item item;
      if (!part.key.empty() && !find_entry(*library_, user, part.key, &item)) throw no_such_file(part.param);
      if (has_marks) {
        replace_marks(part, user, most, &filled, &request->retrieved);
      } else {
        filled.push_back(std::move(part));
      }
    }
    turn.parts = std::move(filled);
  }
}

// Adds the texts of a part, and the entries found in place of its marks.
void KeptFiles::replace_marks(const ChatPart& part, const std::string& user, int64_t most,
                              std::vector<ChatPart>* filled, std::vector<RetrievedPicture>* retrieved) const {
  for (const MarkedText& piece : split_marks(part)) {
    if (!piece.mark) {
      filled->push_back({.text = piece.text, .param = part.param});
      continue;
    }
    if (std::ssize(*retrieved) > most) return;  // one too many is refused later
    const int64_t count = std::min<int64_t>(piece.mark->count, most + 1);
    const auto found = search(user, piece.mark->query, static_cast<int32_t>(count));
    if (found.empty()) {
      throw RequestError(404, "None of your pictures fits <retrieve: " + shorten(piece.mark->query) + ">.", part.param,
                         "nothing_retrieved");
    }
    for (const RetrievedPicture& one : found) {
      filled->push_back({.is_image = true, .key = one.key, .param = part.param});
      retrieved->push_back(one);
    }
  }
}

}  // namespace ocellus::app
