// Tokens of the model, for endpoints that take or show them. All throw a RequestError that names `param`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/json_fields.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// `flags`: OCELLUS_TEXT_*.
std::vector<int32_t> tokenize(const ocellus_model* model, std::string_view text, uint32_t flags,
                              const std::string& param);

inline int64_t token_bytes(const std::vector<int32_t>& tokens) {
  return std::ssize(tokens) * static_cast<int64_t>(sizeof tokens[0]);
}

// Returns the bytes of a token of the model: possibly part of a UTF-8 sequence; special tokens as they are written.
std::string token_text(const ocellus_model* model, int32_t token);

// Requires an array of tokens of the model.
std::vector<int32_t> expect_tokens(const ocellus_model* model, const RequestJson& value, const std::string& param);

}  // namespace ocellus::app
