#include "apps/http/http_json.h"

#include <string>

namespace ocellus::app {

bool read_json_body(const std::shared_ptr<HttpExchange>& exchange, nlohmann::ordered_json* object,
                    const JsonLimits& limits) {
  const HttpRequest& request = exchange->request();
  const auto refuse = [&exchange](const std::string& sentence) {
    exchange->respond(error_response(400, sentence));
    return false;
  };
  if (request.header("content-type").substr(0, 16) != "application/json") {
    return refuse("The body must be JSON, with Content-Type: application/json.");
  }
  std::string problem;
  *object = read_json(request.body, limits, &problem);
  if (object->is_discarded()) return refuse("The body " + problem + ".");
  return object->is_object() || refuse("The body must be a JSON object.");
}

}  // namespace ocellus::app
