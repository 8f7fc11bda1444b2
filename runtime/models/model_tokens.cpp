// Tokens of texts before there is an engine: to size plans, and for given answers.
#include <cstring>

#include "runtime/models/model.h"

namespace ocellus {

Status Model::append_tokens(std::string_view text, bool parse_special, Buffer<TokenId>* out) const {
  const int64_t size = static_cast<int64_t>(text.size());
  const int64_t before = out->size();
  Buffer<std::byte> workspace;
  OCELLUS_TRY(workspace.resize(Tokenizer::workspace_bytes(size)));
  const int64_t capacity = size + 16;  // a token covers at least a byte; a space prefix may add one
  OCELLUS_TRY(out->resize(before + capacity));
  int64_t count = 0;
  OCELLUS_TRY(tokenizer_.encode(text, parse_special, workspace.data(), workspace.size(), out->data() + before, capacity,
                                &count));
  return out->resize(before + count);
}

Status Model::append_answer(std::string_view text, bool parse_special, Buffer<TokenId>* out) const {
  const TurnText& texts = turn_text(chat_template_);
  const bool spaced = !text.empty() && begins_with_space(texts, vocabulary_.kind);
  Buffer<char> answer;
  OCELLUS_TRY(answer.resize(static_cast<int64_t>(text.size()) + 1));
  answer[0] = ' ';
  std::memcpy(answer.data() + 1, text.data(), text.size());
  const std::string_view whole(answer.data(), text.size() + 1);
  OCELLUS_TRY(append_tokens(spaced ? whole : text, parse_special, out));
  if (texts.answer_end[0] != '\0') return append_tokens(texts.answer_end, true, out);
  return vocabulary_.eos != kNoToken ? out->push(vocabulary_.eos) : Status();
}

Status Model::tokenize(std::string_view text, const TextRole& role, Buffer<TokenId>* out) const {
  if (role.starts && vocabulary_.start_token() != kNoToken) OCELLUS_TRY(out->push(vocabulary_.bos));
  return role.answers ? append_answer(text, role.parse_special, out) : append_tokens(text, role.parse_special, out);
}

Status Model::count_tokens(std::string_view text, bool parse_special, int64_t* count) const {
  Buffer<TokenId> tokens;
  OCELLUS_TRY(append_tokens(text, parse_special, &tokens));
  *count = tokens.size();
  return {};
}

}  // namespace ocellus
