// Thoughts: what a thinking model writes between two marks (<think> and </think>; Gemma 4: <|channel> and <channel|>;
// Ministral: [THINK] and [/THINK])
// before its answer, and the tokens that the runtime writes in its place to open, bound and close that.
#pragma once

#include <cstdint>
#include <string_view>

#include "platform/status.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

/// kIfTold: the vocabulary has the marks, and an answer may begin with a thought. kAlways: the chat template opens one
/// in every answer.
enum class Thinking : uint8_t { kNever, kIfTold, kAlways };

/// Maximum tokens of a thought, unless the caller gives another, for models that always think.
inline constexpr int32_t kStandardThoughtTokens = 1024;

/// Text that is written token by token instead of sampled: "<think>", "\n", "\n</think>\n\n", "\n\n</think>\n\n"; by
/// Gemma 4's form "<|channel>", "thought\n", "<channel|>", "thought\n<channel|>"; by Cosmos3-Edge's "<think>", "\n",
/// "\n</think>", "</think>"; Ministral's are marks alone.
enum class ThoughtScript : uint8_t { kNone, kOpen, kLine, kClose, kCloseAtOnce };

/// kClosed: after a thought, before the first visible text of the answer.
enum class AnswerPhase : uint8_t { kAnswer, kStart, kThought, kClosed };

/// Place in an answer; a plain value.
struct ThoughtState {
  AnswerPhase phase = AnswerPhase::kAnswer;
  ThoughtScript script = ThoughtScript::kNone;
  int32_t written = 0;       // tokens of the script so far
  int32_t count = 0;         // tokens of the thought, without its marks
  int32_t most = INT32_MAX;  // tokens of the thought that leave room for the answer
};

/// Part of an answer that an accepted token belongs to. kMark: the two marks, and what the runtime writes around them.
enum class ThoughtPart : uint8_t { kAnswer, kThought, kMark };

/// The marks of a model's thoughts, and the state machine of an answer. Gemma 4's form has other words at each place,
/// and "thought\n" is written after its first mark, whoever wrote that.
///
///   start    a model that always thinks is given <think>; another may write it
///   thought  after `most` tokens without </think> the runtime writes "\n</think>\n\n";
///            with `most` 0 it writes "\n\n</think>\n\n" right after <think>, as Qwen's templates do
///   answer   all that follows
class ThoughtMarks {
 public:
  /// `jinja`: the file's chat template; may be empty.
  Status read(std::string_view jinja, const Tokenizer& tokenizer);

  Thinking thinking() const { return thinking_; }
  /// The mark that begins a thought, or kNoToken.
  TokenId begin_token() const { return begin_; }
  /// Returns kStandardThoughtTokens if the model always thinks, else 0.
  int32_t standard_tokens() const { return thinking_ == Thinking::kAlways ? kStandardThoughtTokens : 0; }
  /// Maximum number of tokens around the thought of one answer.
  int32_t mark_tokens() const;

  /// Returns the state at the beginning of an answer.
  ThoughtState begin() const;
  /// Returns the token that comes next whatever the model says; kNoToken if the model chooses.
  TokenId next(const ThoughtState& state) const;
  /// True if next() may return a token after one more token, which is not known yet. `most`: maximum tokens of the
  /// thought.
  bool may_write_after_next(const ThoughtState& state, int32_t most) const;
  /// Moves on by the next token of the answer.
  ThoughtPart accept(TokenId token, int32_t most, ThoughtState* state) const;
  /// Returns the maximum number of tokens before the first one of the answer.
  int64_t most_left(const ThoughtState& state, int32_t most) const;

 private:
  static constexpr int32_t kMaxScriptTokens = 16;
  struct Tokens {
    TokenId ids[kMaxScriptTokens];
    int32_t count = 0;
  };
  static Status append(const Tokenizer& tokenizer, std::string_view text, Tokens* out);
  const Tokens& tokens_of(ThoughtScript script) const { return scripts_[static_cast<int>(script)]; }
  void run(ThoughtScript script, ThoughtState* state) const;

  bool has_title_ = false;  // kLine follows the first mark also where the model wrote that
  Thinking thinking_ = Thinking::kNever;
  TokenId begin_ = kNoToken;
  TokenId end_ = kNoToken;
  Tokens scripts_[5];  // by ThoughtScript
};

/// Returns a piece of an answer without the white space between a thought and the answer.
std::string_view visible_text(std::string_view text, ThoughtState* state);

}  // namespace ocellus
