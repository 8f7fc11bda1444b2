#include "apps/serve/token_logprobs.h"

#include <algorithm>

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity.
Json finite(const std::optional<float>& logprob) {
  return logprob ? Json(std::max(static_cast<double>(*logprob), -9999.0)) : Json(nullptr);
}

Json token_json(const TokenLogprob& token) {
  Json bytes = Json::array();
  for (const char c : token.text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token.text}, {"logprob", finite(token.logprob)}, {"bytes", std::move(bytes)}};
}

}  // namespace

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

TokenLogprob TokenLogprob::of(const ocellus_token_probability& chosen, const ocellus_token_probability* top,
                              int32_t count) {
  TokenLogprob token = {{chosen.text, static_cast<size_t>(chosen.text_bytes)}, chosen.log_probability, {}};
  for (int32_t i = 0; i < count; ++i) token.top.push_back(of(top[i], nullptr, 0));
  return token;
}

Json chat_logprobs(const std::vector<TokenLogprob>& tokens) {
  Json content = Json::array();
  for (const TokenLogprob& token : tokens) {
    Json json = token_json(token);
    json["top_logprobs"] = Json::array();
    for (const TokenLogprob& one : token.top) json["top_logprobs"].push_back(token_json(one));
    content.push_back(std::move(json));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const std::vector<TokenLogprob>& tokens, int64_t* offset) {
  Json json = {{"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
  for (const TokenLogprob& token : tokens) {
    json["tokens"].push_back(token.text);
    json["token_logprobs"].push_back(finite(token.logprob));
    Json top = Json::object();
    for (const TokenLogprob& one : token.top) top[one.text] = finite(one.logprob);
    json["top_logprobs"].push_back(token.logprob ? std::move(top) : Json(nullptr));
    json["text_offset"].push_back(std::max<int64_t>(*offset, 0));
    *offset += count_characters(token.text);
  }
  return json;
}

}  // namespace ocellus::app
