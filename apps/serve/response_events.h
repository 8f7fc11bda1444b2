// ResponseEvents: an answer in the form of /v1/responses, and the events of its stream.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/chat_usage.h"
#include "apps/serve/token_logprobs.h"
#include "apps/serve/tool_syntax.h"

namespace ocellus::app {

// Every function notes the events that it causes.
class ResponseEvents {
 public:
  struct Facts {
    std::string identifier;
    std::string model;
    int64_t created_s = 0;
    std::string echoed;  // members of the response that repeat the request, as JSON text: "a":1,"b":2
  };
  explicit ResponseEvents(Facts facts) : facts_(std::move(facts)) {}

  // Returns what was noted since the last call, as server-sent events; the first one begins the stream.
  std::string take() { return std::exchange(events_, {}); }
  void add_thought(const std::string& text);
  void add_text(const std::string& text, const std::vector<TokenLogprob>& tokens);
  void add_calls(const std::vector<ToolCall>& calls);
  // Ends the last item. `is_cut`: by the limit of tokens.
  void end_items(bool is_cut);
  // `more`: further members of the response.
  void end(const ChatUsage& usage, const nlohmann::ordered_json& more);
  void fail(const std::string& sentence);
  // The response as a whole, after end_items.
  std::string whole(const ChatUsage& usage, const nlohmann::ordered_json& more) const;

 private:
  using Json = nlohmann::ordered_json;
  enum class Open : char { kNothing, kThought, kText };

  void event(const char* type, Json fields, std::string_view response_text = {});
  void write_event(const char* type, int64_t number, Json fields, std::string_view response);
  void open(Open kind);
  void close(const char* status);
  void part_event(const char* type, Json fields);
  void item_event(const char* type, const Json& item);
  Json part() const;
  Json item(const char* status, Json content) const;
  std::string response(const char* status, const Json& more) const;

  Facts facts_;
  Json output_ = Json::array();  // items that ended
  Open open_ = Open::kNothing;   // the newest item, if it did not
  std::string item_id_, text_;
  Json logprobs_ = Json::array();
  bool is_cut_ = false;
  std::string events_;
  int64_t sequence_ = 0;
};

}  // namespace ocellus::app
