// Endpoints whose requests are read apart from the server's thread: one row each in chat_server.cpp, one source each.
#pragma once

#include "apps/http/http_server.h"
#include "apps/serve/chat_request.h"
#include "apps/serve/kept_files.h"
#include "apps/serve/reply_form.h"
#include "apps/serve/serve_options.h"
#include "apps/serve/unknown_fields.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct ChatJob;

struct ServeContext {
  const ocellus_model* model;
  const ServeOptions& options;
  const KeptFiles& files;
  UnknownFields& unknown;
};

// Reads the request in job->body. The job then has either an answer already (ChatJob::answer), or work for a session
// (ChatJob::work), or prompts to be answered (ChatJob::request). Throws a RequestError.
using ReadRequest = void (*)(const ServeContext& context, const HttpRequest& head, ChatJob* job);

struct Endpoint {
  const char* method;
  const char* path;
  ReadRequest read;
  bool is_counted;  // in ocellus_requests_total: the model answers it
};

void read_chat(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_response(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_kept_response(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_completion(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_embeddings(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_tokenize(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_detokenize(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_tokenizer_info(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_file_upload(const ServeContext& context, const HttpRequest& head, ChatJob* job);
void read_file_question(const ServeContext& context, const HttpRequest& head, ChatJob* job);

// The form of the model's conversations.
PromptForm prompt_form(const ServeOptions& options);
// Begins the answers to job->request, a conversation. Throws a RequestError, as the checks below.
void begin_chat(const ServeContext& context, ReplyForm form, ChatJob* job);

// Checks, for endpoints.
RequestError no_such_model(const std::string& name, const ServedNames& names);
// An empty name is the only model.
void check_model(const ServeContext& context, const std::string& name);
// More tokens than a conversation has room for are no limit.
void bound_answer(const ServeContext& context, ChatRequest* request);
void check_choices(const ServeContext& context, const ChatRequest& request);
void check_biases(const ServeContext& context, const ChatRequest& request);
void check_logprobs(const ChatRequest& request);
// Refuses a picture of a model without a vision part.
void check_sees(const ServeContext& context, const std::string& param);
// Names the first picture that is one too many.
void check_images(const ServeContext& context, const ChatRequest& request);

}  // namespace ocellus::app
