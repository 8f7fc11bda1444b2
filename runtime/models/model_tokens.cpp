// Tokens of texts before there is an engine: to size plans, and for given answers.
#include <algorithm>
#include <cstring>

#include "runtime/models/message_writer.h"
#include "runtime/models/model.h"

namespace ocellus {
namespace {

/// Counts the tokens of texts that touch.
class TextCounter final : public PromptSink {
 public:
  TextCounter(const Model& model, const Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {}

  Status write(std::string_view text, bool parse_special) override {
    for (size_t at = 0; parse_special;) {
      const TokenId token = tokenizer_.find_control(text, &at);
      if (token == kNoToken) break;
      OCELLUS_TRY(append(text.substr(0, at)));
      OCELLUS_TRY(add_seam());
      ++count_;
      continues_ = false;
      text.remove_prefix(at + tokenizer_.piece(token, true).size());
    }
    return append(text);
  }
  Status write_head(std::string_view text) override { return insert(text); }
  void end_head() override { place_ = text_.size(); }
  Status add_seam() override {
    place_ = text_.size();
    return count_head();
  }
  /// Counts what stands before a picture.
  Status count_head() {
    int64_t tokens = 0;
    OCELLUS_TRY(model_.count_tokens({text_.data(), static_cast<size_t>(place_)}, false, &tokens, continues_));
    count_ += tokens;
    continues_ = place_ > 0 || continues_;
    std::copy(text_.begin() + place_, text_.end(), text_.begin());
    OCELLUS_TRY(text_.resize(text_.size() - place_));
    place_ = 0;
    return {};
  }
  void add_picture() { continues_ = false; }
  int64_t count() const { return count_; }

 private:
  Status append(std::string_view text) {
    for (const char c : text) OCELLUS_TRY(text_.push(c));
    return {};
  }
  Status insert(std::string_view text) {
    const int64_t size = std::ssize(text), end = text_.size();
    OCELLUS_TRY(text_.resize(end + size));
    std::copy_backward(text_.begin() + place_, text_.begin() + end, text_.end());
    std::copy(text.begin(), text.end(), text_.begin() + place_);
    place_ += size;
    return {};
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  Buffer<char> text_;
  int64_t place_ = 0;  // the next picture's
  int64_t count_ = 0;
  bool continues_ = false;
};

}  // namespace

Status Model::append_tokens(std::string_view text, bool parse_special, Buffer<TokenId>* out, bool continues) const {
  const int64_t size = static_cast<int64_t>(text.size());
  const int64_t before = out->size();
  Buffer<std::byte> workspace;
  OCELLUS_TRY(workspace.resize(Tokenizer::workspace_bytes(size)));
  const int64_t capacity = size + 16;  // a token covers at least a byte; a space prefix may add one
  OCELLUS_TRY(out->resize(before + capacity));
  int64_t count = 0;
  OCELLUS_TRY(tokenizer_.encode(text, parse_special, workspace.data(), workspace.size(), out->data() + before, capacity,
                                &count, continues));
  return out->resize(before + count);
}

TokenId Model::end_of_answer() const {
  size_t at = 0;
  const TokenId end = tokenizer_.find_control(layout_->answer.after, &at);
  return end == kNoToken ? vocabulary_.eos : end;
}

Status Model::append_answer(std::string_view text, bool parse_special, Buffer<TokenId>* out) const {
  const bool spaced = !text.empty() && begins_with_space(*layout_, vocabulary_.kind);
  Buffer<char> answer;
  OCELLUS_TRY(answer.resize(static_cast<int64_t>(text.size()) + 1));
  answer[0] = ' ';
  std::memcpy(answer.data() + 1, text.data(), text.size());
  const std::string_view whole(answer.data(), text.size() + 1);
  OCELLUS_TRY(append_tokens(spaced ? whole : text, parse_special, out));
  return end_of_answer() != kNoToken ? out->push(end_of_answer()) : Status();
}

Status Model::tokenize(std::string_view text, const TextRole& role, Buffer<TokenId>* out) const {
  if (role.starts && vocabulary_.start_token() != kNoToken) OCELLUS_TRY(out->push(vocabulary_.bos));
  return role.answers ? append_answer(text, role.parse_special, out) : append_tokens(text, role.parse_special, out);
}

Status Model::count_tokens(std::string_view text, bool parse_special, int64_t* count, bool continues) const {
  Buffer<TokenId> tokens;
  OCELLUS_TRY(append_tokens(text, parse_special, &tokens, continues));
  *count = tokens.size();
  return {};
}

Status Model::count_turn(std::span<const ocellus_part> parts, int64_t* count) const {
  TextCounter counter(*this, tokenizer_);
  MessageState state;
  MessageWriter writer(*layout_, state, counter);
  OCELLUS_TRY(writer.begin(Role::kUser, default_system()));
  for (const ocellus_part& part : parts) {
    if (part.kind < OCELLUS_PART_TEXT || part.kind > OCELLUS_PART_ENTRY)
      return OCELLUS_FAIL(Code::kBadArgument, "a part of kind %d does not exist", part.kind);
    if (part.kind == OCELLUS_PART_TEXT) {
      if (part.byte_count < 0 || (part.bytes == nullptr && part.byte_count > 0))
        return OCELLUS_FAIL(Code::kBadArgument, "a part of a prompt has no %lld bytes",
                            static_cast<long long>(part.byte_count));
      const std::string_view text(static_cast<const char*>(part.bytes), static_cast<size_t>(part.byte_count));
      OCELLUS_TRY(writer.add_text(text, (part.flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0));
      continue;
    }
    const bool is_numbered = (part.flags & OCELLUS_IMAGE_NUMBERED) != 0;
    OCELLUS_TRY(writer.begin_picture(part.kind == OCELLUS_PART_CLIP, is_numbered));
    OCELLUS_TRY(counter.count_head());
    counter.add_picture();
    OCELLUS_TRY(writer.end_picture(is_numbered));
  }
  OCELLUS_TRY(writer.end());
  OCELLUS_TRY(writer.open_answer());
  OCELLUS_TRY(counter.add_seam());
  *count = counter.count() + (vocabulary_.start_token() == kNoToken ? 0 : 1);
  return {};
}

}  // namespace ocellus
