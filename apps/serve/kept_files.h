// KeptFiles: the pictures that users keep on the server, as entries of the image library. A file is an entry of its
// user's own, pinned, with a tag that names it; its caption is the file's name and the caption given with it. The id is
// the entry's key: the same picture has the same id. Answers on files that are missing, expired or another user's are
// equal byte for byte.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/file_upload.h"
#include "apps/serve/request_error.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

inline constexpr char kFilesPath[] = "/v1/files";

// The answer about every file that the user does not have.
RequestError no_such_file(const std::string& param);

// All functions throw a RequestError.
class KeptFiles {
 public:
  // `library`: nullptr if there is none; every request is then refused. It must outlive this.
  explicit KeptFiles(const Library* library) : library_(library) {}

  void require_library() const;

  // Makes the user's entries those that the session finds and stores; without a library, the user's pictures on the
  // device those that it shares.
  void attach(Session* session, const std::string& user) const;
  // Computes the picture in an empty session and stores it; returns the file's object when it is on the disk.
  nlohmann::ordered_json keep(Session* session, const std::string& user, const FileUpload& upload) const;
  // Answers GET /v1/files, and GET and DELETE /v1/files/ID.
  nlohmann::ordered_json answer(const HttpRequest& request, const std::string& user) const;

  // Checks the entries that messages name, and puts the entries found in place of "<retrieve: words, n>". `most`:
  // pictures that a request may have in all.
  void fill_in(ChatRequest* request, const std::string& user, int64_t most) const;
  // Returns the best entries for the words, at most `count`.
  std::vector<RetrievedPicture> search(const std::string& user, const std::string& words, int32_t count) const;
  // Returns the best entry for any words of a model; empty if there is none.
  std::vector<RetrievedPicture> search_any(const std::string& user, const std::string& words) const;

 private:
  void replace_marks(const ChatPart& part, const std::string& user, int64_t most, std::vector<ChatPart>* filled,
                     std::vector<RetrievedPicture>* retrieved) const;

  const Library* const library_;
};

}  // namespace ocellus::app
