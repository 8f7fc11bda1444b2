// The answer to one chat request, as a whole or as server-sent events.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/request_error.h"

namespace ocellus::app {

struct ChatUsage {
  int32_t prompt_tokens = 0;      // pictures included
  int32_t completion_tokens = 0;  // thought and its marks included
  int32_t reasoning_tokens = 0;   // the thought's, without its marks
};

class ChatReply {
 public:
  struct Style {
    std::string model;
    bool stream = false;
    bool include_usage = false;
  };
  ChatReply(std::shared_ptr<HttpExchange> exchange, std::string request_id);

  void set_style(Style style) { style_ = std::move(style); }
  bool is_open() const { return exchange_->is_open(); }
  // Returns false if the client has left.
  bool add(const std::string& text);
  // Adds to the thought before the answer.
  bool add_thought(const std::string& text);
  // Reports pictures that were found by words, as "retrieved" beside the choices of the last message.
  void note_retrieved(const std::vector<RetrievedPicture>& pictures);
  // Sends an object that is no answer of the model.
  void send(const nlohmann::ordered_json& object);
  // `reason`: "stop" or "length".
  void finish(const char* reason, const ChatUsage& usage);
  // Sends the error; after the first piece of a stream, as its last event.
  void fail(const RequestError& error);

 private:
  void begin_stream();
  bool write_delta(const char* field, const std::string& text);
  std::string event(const std::string& delta_json, const char* reason) const;

  std::shared_ptr<HttpExchange> exchange_;
  std::string request_id_;
  std::string completion_id_;
  int64_t created_s_;
  Style style_;
  std::string text_, thought_;
  std::vector<RetrievedPicture> retrieved_;
  bool has_begun_ = false;
};

// Returns the client's own x-request-id if it is well-formed, else a new one.
std::string choose_request_id(const HttpRequest& request);

}  // namespace ocellus::app
