// Requests for answers: to /v1/chat/completions, and what /v1/completions has in common with them. Fully validated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/answer_form.h"
#include "apps/serve/json_fields.h"
#include "apps/serve/tools.h"
#include "apps/serve/unknown_fields.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Text, a picture or a video.
struct ChatPart {
  bool is_image = false;  // a picture or a video
  std::string text = {};
  std::string_view picture = {};              // bytes, in the body of the request
  bool is_quoted = false;                     // a text of a tool: marks in it ask for nothing
  bool is_overview = false;                   // the picture is seen without tiles
  std::string key = {};                       // in place of them: an entry of the user's image library
  std::string param = {};                     // its field in the request
  std::vector<std::string_view> frames = {};  // a video's: pictures in the body of the request
  double frames_per_second = 1;
  std::string_view content() const { return is_image ? picture : text; }
  bool is_picture() const { return is_image && frames.empty(); }
};

// One message, or several of a role that the model reads as one.
struct ChatTurn {
  int32_t role = OCELLUS_ROLE_USER;  // ocellus_role
  std::vector<ChatPart> parts = {};
  std::string param = "messages";  // its field in the request
  bool goes_on = false;            // the last one: the answer goes on from it
};

// An entry of the user's image library that was found by words.
struct RetrievedPicture {
  std::string query, key;
  double score = 0;
  std::string caption;
};

// A prompt without a chat template.
struct RawPrompt {
  std::string text;             // shown before the answer with `echo`
  std::string first;            // the first token's text
  std::vector<int32_t> tokens;  // one or more
};

struct ChatRequest {
  std::string model;  // empty: the only one
  std::vector<ChatTurn> turns;
  bool opens_answer = true;        // after the last turn, unless it goes on
  bool continues = false;          // the answer is the rest of the last message's
  bool numbers_several = false;    // pictures have numbers in a turn with several
  bool numbers_images = false;     // the pictures have numbers, see OCELLUS_IMAGE_NUMBERED
  bool is_told_to_think = false;   // in words, see bound_answer
  std::vector<RawPrompt> prompts;  // in place of the turns
  bool echo = false;               // only with prompts
  int32_t choices = 1;             // answers to each prompt
  ocellus_generate_params params;
  std::vector<ocellus_logit_bias> logit_bias;  // in place of that of `params`
  std::vector<std::string> stops;
  bool shows_stop = false;  // the answer ends with the stop string that ended it
  std::optional<AnswerForm> form;
  Tools tools;                          // only with turns
  std::optional<int32_t> top_logprobs;  // nullopt: no log-probabilities of the answer's tokens
  std::vector<std::string> scored;      // answers whose probabilities are found, in place of one of the model's own
  bool stream = false;
  bool include_usage = false;  // only with a stream
  std::string user;            // the request's user, if stated
  FieldNames unknown_fields;
  std::vector<RetrievedPicture> retrieved;  // instead of marks in the messages
  std::string echoed = {};                  // only of /v1/responses, see ResponseEvents::Facts
  // The answer has log-probabilities of the prompt's tokens, too.
  bool scores_prompt() const { return echo && top_logprobs.has_value(); }
  int32_t answer_count() const { return choices * std::max(static_cast<int32_t>(prompts.size()), 1); }
  int64_t image_count() const;
  int64_t frame_count() const;  // all videos' frames
  int64_t text_bytes() const;
};

// Maximum tokens of an answer or a thought that a request may ask for; with that many it has no limit of its own.
inline constexpr int64_t kMaxTokens = 1 << 20;
// Maximum memory for reading one request, besides its body, and for finding the tokens of its longest text.
inline constexpr int64_t kMaxReadingBytes = int64_t{16} << 20;
inline constexpr int64_t kMaxTokenizingBytes = int64_t{64} << 20;
// Log-probabilities that an answer may have as a whole, and the maximum memory for writing one.
inline constexpr int64_t kMaxLogprobs = 65'536;
inline constexpr int64_t kMaxWritingBytes = int64_t{48} << 20;

// The form of a model's conversations.
struct PromptForm {
  PromptForm(const ToolSyntax& tools) : syntax(tools) {}  // NOLINT: tests have tools only

  // True where no tool is shown and none is called.
  bool leaves_out(const Tools& tools) const {
    return tools.choice == ToolChoice::kNone || (tools.choice == ToolChoice::kAuto && !has_tools);
  }

  const ToolSyntax& syntax;
  bool has_tools = true;       // the model's chat template has them
  bool is_plain = false;       // OCELLUS_NUMBERS_PLAIN
  bool cuts_thoughts = false;  // earlier answers lose what is between <think> and </think>
  std::string default_system;  // before tools where a conversation has no system message
};

// Absent fields have the values of `defaults`. Pictures are decoded in place: *body is changed, must not move, and must
// outlive them. Throws a RequestError.
ChatRequest parse_chat_request(std::string* body, const ocellus_generate_params& defaults, const PromptForm& form);

// The fields that requests for answers share, as an endpoint has them.
struct AnswerFields {
  std::span<const std::string_view> own;  // others that it reads
  int64_t least_tokens = 1;               // least value of max_tokens
  bool is_flat = false;                   // as in /v1/responses
};

// Reads the fields that requests for answers share: model, user, n, sampling, stop strings, stream. Fields besides
// these and `fields.own` are unknown or refused.
void parse_answer_fields(const RequestJson& body, const AnswerFields& fields, ChatRequest* request);
// Reads the tools, and shows them to the model.
void parse_called_tools(const RequestJson& body, const PromptForm& form, bool is_flat, ChatRequest* request);
// Reads the limit of an answer; -1 and more than a conversation has room for: no other limit than that.
std::optional<int64_t> parse_limit(const RequestJson& body, const std::string& name, int64_t least);
// Reads OpenAI's name of how long the model thinks.
void read_effort(const RequestJson& value, const std::string& at, ChatRequest* request);

// Brings the parts of the users' turns into the order of a model with OCELLUS_NUMBERS_PLAIN, as arrange_parts does.
void arrange_turns(ChatRequest* request);

// Returns a turn's parts in the order in which such a model reads them. Pictures before or after all text go first, a
// single one of the conversation as it is, others as "Image 1:<image>\n", as in `ocellus chat`; if text stands between
// pictures, or on both sides of them, the order is the request's. Adjacent texts are joined.
std::vector<ChatPart> arrange_parts(std::vector<ChatPart> parts, int64_t earlier_images);

// Counts pictures, and not videos.
int64_t count_images(const std::vector<ChatPart>& parts);

}  // namespace ocellus::app
