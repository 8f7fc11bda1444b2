// One request from the queue to its answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/serve/answer_filter.h"
#include "apps/serve/asked_retrieval.h"
#include "apps/serve/chat_reply.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/file_upload.h"
#include "apps/serve/prompt_steps.h"
#include "apps/serve/serve_metrics.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

struct ChatJob {
  // `owner`: the user, unless the request's key names one.
  ChatJob(std::shared_ptr<HttpExchange> exchange, const Endpoint& endpoint, int64_t deadline_ns,
          const std::string& owner);

  // Called once the request is read: its answers will have this form.
  void begin_answers(const ServeContext& context, ReplyForm form);
  // Called before each answer.
  void begin_answer(const ServeOptions& options);
  // Ends an answer; true if another one follows.
  bool end_answer(const char* reason);
  // Number of the prompt that is answered now; true if the answer is its first one.
  size_t prompt_index() const { return static_cast<size_t>(answer_index / request.choices); }
  bool is_prompts_first() const { return answer_index % request.choices == 0; }

  // The callback of ocellus_generate_params; must not throw.
  static int receive(void* job, const char* text, int32_t text_bytes) noexcept;
  static int receive_thought(void* job, const char* text, int32_t text_bytes) noexcept;
  static int receive_token(void* job, const ocellus_token_probability* chosen, const ocellus_token_probability* top,
                           int32_t top_count) noexcept;
  // Returns the parameters of a call; `slice_tokens`: its maximum.
  ocellus_generate_params params(int32_t slice_tokens);
  // Returns the parameters with which the model says one token of the prompt, which `bias` chooses.
  ocellus_generate_params prompt_params(const ocellus_logit_bias* bias);
  // Returns the tokens of the prompt that are still to be said.
  std::span<const int32_t> unscored() const;
  // True if the answer, not counting its thought, has the maximum of tokens.
  bool has_all_tokens() const { return tokens_left() <= 0; }
  double age_s() const;

  std::shared_ptr<HttpExchange> exchange;  // until the request is read
  ChatReply reply;
  const int64_t arrived_ns;
  const int64_t deadline_ns;
  const Endpoint& endpoint;
  const bool has_key;      // the request carries one of --api-keys
  const std::string user;  // owner of the pictures that the request may use
  const std::string door;  // its sender: the user of the key, else the address
  std::string client;      // a part of these: the user that it states, or the connection; both take turns
  HttpBody body;           // while the request refers to pictures in it
  // The request, in one of three forms; see ReadRequest.
  std::optional<ReadyAnswer> answer;
  std::function<std::optional<ReadyAnswer>(Session*)> work;  // a piece of it, until it has an answer
  ChatRequest request;
  AskedRetrieval asked{{}, 0};  // reads the answer before `calls`
  CallReader calls;             // reads it before `filter`
  AnswerFilter filter{{}};
  AnswerFilter thought{{}};
  ChatUsage usage;
  int32_t answer_index = 0;
  int32_t answer_tokens = 0;   // in usage, without thought and marks
  int32_t written_tokens = 0;  // all tokens of this answer
  bool is_answering = false;   // the prompt of this answer was read
  size_t scored_tokens = 0;    // tokens of the prompt whose log-probabilities are known
  ServeMetrics* metrics = nullptr;
  int64_t last_token_ns = 0;
  std::atomic<int64_t> cache_bytes = 0;
  bool has_left = false;                           // the client has left
  Session session;                                 // while it runs
  const ocellus_constraint* constraint = nullptr;  // the request's, while it runs
  bool waits_for_form = false;                     // it is being compiled, or another one is
  double owed_ms = 0;                              // time of its masks above its share of the steps
  Beginning beginning;                             // the steps that the session has read

 private:
  int32_t tokens_left() const { return request.params.max_tokens - answer_tokens; }
  void note_token();
};

}  // namespace ocellus::app
