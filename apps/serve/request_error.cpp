#include "apps/serve/request_error.h"

#include <nlohmann/json.hpp>

#include "apps/base/limit_flags.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kQuotaCode[] = "insufficient_quota";
constexpr char kSharedImages[] = "--shared-images";

const char* error_type(int status) {
  if (status == 404 || status == 400 || status == 413) return "invalid_request_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status == 504 ? "timeout_error" : "server_error";
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

RequestError overloaded_error() {
  return RequestError(503, "The server is overloaded; try again later.", "", "overloaded");
}

RequestError library_error(ocellus_status status, const std::string& param) {
  std::string sentence = name_flags(ocellus_last_error()->sentence);
  if (sentence.empty()) sentence = ocellus_status_name(status);
  if (sentence.back() != '.') sentence += '.';
  switch (status) {
    case OCELLUS_BAD_IMAGE: return RequestError(400, sentence, param, "invalid_image");
    case OCELLUS_FULL:
      if (sentence.find(kSharedImages) != std::string::npos)  // other conversations have them, for now
        return RequestError(429, sentence, "", "rate_limit_exceeded");
      return RequestError(400, sentence, param.empty() ? "messages" : param, "context_length_exceeded");
    case OCELLUS_BAD_ARGUMENT:
    case OCELLUS_UNSUPPORTED: return RequestError(400, sentence, param);
    case OCELLUS_DEADLINE:
      return RequestError(504, "The request took longer than its deadline.", "", "deadline_exceeded");
    default: return RequestError(500, sentence);
  }
}

std::string error_json(const RequestError& error) {
  const Json fields = {{"message", error.what()},
                       {"type", error.code() == kQuotaCode ? kQuotaCode : error_type(error.status())},
                       {"param", or_null(error.param())},
                       {"code", or_null(error.code())}};
  return Json{{"error", fields}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse error_reply(const RequestError& error) {
  HttpResponse response = {
      .status = error.status(), .content_type = "application/json", .body = error_json(error) + "\n"};
  if (error.code() == kQuotaCode) {
    response.headers = {{"x-should-retry", "false"}};  // OpenAI's clients would try again
  } else if (error.status() == 429 || error.code() == "overloaded") {
    response.headers = {{"Retry-After", "1"}};
  }
  return response;
}

}  // namespace ocellus::app
