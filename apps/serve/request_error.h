// Errors of requests in the form of OpenAI's API.
#pragma once

#include <stdexcept>
#include <string>

#include "apps/base/plain_text.h"
#include "apps/http/http_server.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

class RequestError : public std::runtime_error {
 public:
  // `param`: the field at fault, as "messages[0].content"; empty if none. `code` may be empty, too. Very long texts are
  // cut.
  RequestError(int status, const std::string& sentence, const std::string& param = "", std::string code = "")
      : std::runtime_error(shorten_sentence(sentence)),
        status_(status),
        param_(shorten(param, 200)),
        code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string param_;
  std::string code_;
};

// The refusal where all that requests hold has its maximum.
RequestError overloaded_error();

// Returns the library's last failure on this thread: 400 for what the client can change, 504 for a deadline, else 500.
RequestError library_error(ocellus_status status, const std::string& param = "");

// {"error": {"message", "type", "param", "code"}} without the outer braces' newline.
std::string error_json(const RequestError& error);
HttpResponse error_reply(const RequestError& error);

}  // namespace ocellus::app
