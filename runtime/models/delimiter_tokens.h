// Tokens of the delimiter texts around the views of an image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mm/views/image_prompt.h"
#include "platform/status.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

/// Delimiter texts are short; their tokens and the workspace fit on the stack.
class DelimiterTokens {
 public:
  Status encode(const Tokenizer& tokenizer, const char* text) {
    if (Tokenizer::workspace_bytes(kMaxBytes) > static_cast<int64_t>(sizeof workspace_))
      return OCELLUS_FAIL(Code::kInternal, "the workspace for image delimiters is too small");
    return tokenizer.encode(text, true, workspace_, sizeof workspace_, ids_, kMaxBytes, &count_);
  }
  const TokenId* ids() const { return ids_; }
  int64_t count() const { return count_; }

 private:
  static constexpr int64_t kMaxBytes = sizeof(ImagePiece::text);
  std::byte workspace_[16384];
  TokenId ids_[kMaxBytes];
  int64_t count_ = 0;
};

}  // namespace ocellus
