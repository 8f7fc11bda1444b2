#include "apps/serve/model_tokens.h"

#include <array>

#include "apps/serve/request_error.h"

namespace ocellus::app {
namespace {

int64_t vocabulary_size(const ocellus_model* model) {
  ocellus_model_facts facts;
  return ocellus_model_get_facts(model, &facts) == OCELLUS_OK ? facts.vocabulary_size : 0;
}

}  // namespace

std::vector<int32_t> tokenize(const ocellus_model* model, std::string_view text, uint32_t flags,
                              const std::string& param) {
  std::vector<int32_t> tokens(text.size() + 32);  // at most one per byte, plus those around the text
  int32_t count = 0;
  const ocellus_status status = ocellus_model_tokenize(model, text.data(), std::ssize(text), flags, tokens.data(),
                                                       static_cast<int32_t>(tokens.size()), &count);
  if (status != OCELLUS_OK) throw library_error(status, param);
  tokens.resize(static_cast<size_t>(count));
  tokens.shrink_to_fit();
  return tokens;
}

std::string token_text(const ocellus_model* model, int32_t token) {
  std::array<char, 1024> text;
  int32_t bytes = 0;
  const ocellus_status status = ocellus_model_token_text(model, token, OCELLUS_TEXT_PARSE_SPECIAL, text.data(),
                                                         static_cast<int32_t>(text.size()), &bytes);
  if (status != OCELLUS_OK) throw library_error(status);
  return {text.data(), std::min(static_cast<size_t>(bytes), text.size())};
}

std::vector<int32_t> expect_tokens(const ocellus_model* model, const RequestJson& value, const std::string& param) {
  if (!value.is_array()) throw RequestError(400, param + " must be an array of tokens.", param);
  const int64_t most = vocabulary_size(model) - 1;
  std::vector<int32_t> tokens;
  for (const RequestJson& one : value) {
    const std::optional<int64_t> token = whole_number(one);
    if (!token || *token < 0 || *token > most) {
      throw RequestError(400, param + " must hold whole numbers between 0 and " + std::to_string(most) + ".", param);
    }
    tokens.push_back(static_cast<int32_t>(*token));
  }
  return tokens;
}

}  // namespace ocellus::app
