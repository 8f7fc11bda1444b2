// The answers to one request, as a whole or as server-sent events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/chat_usage.h"
#include "apps/serve/reply_form.h"
#include "apps/serve/request_error.h"
#include "apps/serve/response_events.h"

namespace ocellus::app {

// An answer that is none of the model's: whole or, where it may be long, in pieces that are made while it is sent.
struct ReadyAnswer {
  ReadyAnswer(nlohmann::ordered_json object) : json(std::move(object)) {}
  explicit ReadyAnswer(std::function<std::string()> more) : pieces(std::move(more)) {}
  explicit ReadyAnswer(std::string whole) : text(std::move(whole)) {}

  nlohmann::ordered_json json;
  std::string text = {};                // in place of `json`
  std::function<std::string()> pieces;  // as HttpResponse::more; empty: it is `json`
};

class ChatReply {
 public:
  struct Style {
    ReplyForm form = ReplyForm::kChat;
    std::string model;
    std::string fingerprint;
    bool stream = false;
    bool include_usage = false;
    bool has_logprobs = false;
    std::string echoed = {};  // see ResponseEvents::Facts
  };
  ChatReply(std::shared_ptr<HttpExchange> exchange, std::string request_id);

  void set_style(Style style);
  bool is_open() const { return exchange_->is_open(); }
  // These add to the current answer. They return false if the client has left.
  bool add(const std::string& text);
  // Adds to the thought before the answer.
  bool add_thought(const std::string& text);
  // Adds calls of tools after the text.
  void add_calls(const std::vector<ToolCall>& calls);
  // Adds given answers; the most probable one becomes the text.
  void add_scores(std::vector<Choice> scores);
  // Adds a token's log-probability; in a stream it goes with the next text.
  void add_token(TokenLogprob token) { choice_.tokens.push_back(std::move(token)); }
  // The text that was added so far is not of the answer's tokens.
  void skip_text(int64_t characters) { choice_.offset = characters; }
  // Reports pictures that were found by words, as "retrieved" beside the choices of the last message.
  void note_retrieved(const std::vector<RetrievedPicture>& pictures);
  void send(ReadyAnswer answer);
  // Ends the current answer, and begins the next one. `reason`: "stop", which is "tool_calls" if it has some, or
  // "length".
  void end_choice(const char* reason);
  // Sends the answers, or the end of their stream.
  void finish(const ChatUsage& usage);
  // Sends the error; after the first piece of a stream, as its last event.
  void fail(const RequestError& error);

 private:
  void begin_choice();
  bool write_piece(const ReplyPiece& piece);
  bool write_events();
  nlohmann::ordered_json further() const;
  nlohmann::ordered_json object(nlohmann::ordered_json choices) const;
  void end_stream(const ChatUsage& usage);

  std::shared_ptr<HttpExchange> exchange_;
  std::string request_id_;
  std::string identifier_;
  int64_t created_s_;
  Style style_;
  std::optional<ResponseEvents> response_;  // in this form
  std::vector<ReplyChoice> ended_;
  ReplyChoice choice_;  // the current one
  std::vector<RetrievedPicture> retrieved_;
  bool has_begun_ = false;         // the stream
  bool has_begun_choice_ = false;  // in the stream
};

// Returns the client's own x-request-id if it is well-formed, else a new one.
std::string choose_request_id(const HttpRequest& request);

}  // namespace ocellus::app
