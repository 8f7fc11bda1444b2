// Model: the read-only facts of one file pair. Opening validates the files and loads no weights.
#pragma once

#include <memory>
#include <span>

#include "mm/tower/vision_model.h"
#include "mm/views/preprocess.h"
#include "platform/buffer.h"
#include "quant/gguf.h"
#include "runtime/models/file_type.h"
#include "runtime/models/prompt_layout.h"
#include "runtime/models/text_model.h"
#include "runtime/ocellus.h"
#include "runtime/vocabulary/chat_template.h"
#include "runtime/vocabulary/thought.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

struct ModelShape;  // runtime/models/model_shapes.h

/// The role of a text in a conversation; see the OCELLUS_TEXT_ flags.
struct TextRole {
  bool parse_special = false;  // special tokens in it are recognised
  bool starts = false;         // the beginning-of-text token comes first, if the model has one
  bool answers = false;        // an answer of the model: with the space before it and the end token after it
};

class Model {
 public:
  /// `mmproj_path` may be null. Fails with the path and the key, tensor or type at fault.
  Status open(const char* model_path, const char* mmproj_path);
  /// Opens a model of this shape without files; an engine gives it random weights. By name: see find_model_shape(), and
  /// with_layers().
  Status open_shape(const ModelShape& shape, FileType type);
  Status open_shape(const char* name, const char* format, int32_t layers = 0);

  /// True if an engine gives it random weights.
  bool is_made_up() const { return !text_file_.has_data(); }
  const GgufFile& text_file() const { return text_file_; }
  const GgufFile& vision_file() const { return vision_file_; }
  bool has_vision() const { return has_vision_; }
  const TextConfig& text() const { return text_; }
  const VisionConfig& vision() const { return vision_; }
  const VocabularyFacts& vocabulary() const { return vocabulary_; }
  const PromptLayout& layout() const { return *layout_; }
  /// The system prompt of conversations that are given none; may be empty.
  std::string_view default_system() const { return default_system_text(); }
  const char* default_system_text() const { return default_system_.size() > 0 ? default_system_.data() : ""; }
  const ThoughtMarks& thought_marks() const { return thought_marks_; }
  void describe(ocellus_model_facts* out) const;
  /// Maximum text tokens around one picture.
  int64_t delimiter_tokens(const ViewBounds& bounds) const;

  /// Tokenises with tables of its own, to size plans before there is an engine. Allocates.
  Status count_tokens(std::string_view text, bool parse_special, int64_t* count, bool continues = false) const;
  /// Counts the text tokens of a first user's message with these parts, and of what the layout puts around it and
  /// before the answer; rows of pictures and the marks of their family are not counted.
  Status count_turn(std::span<const ocellus_part> parts, int64_t* count) const;
  Status tokenize(std::string_view text, const TextRole& role, Buffer<TokenId>* out) const;
  /// The token at the end of an answer; kNoToken: none.
  TokenId end_of_answer() const;
  /// See Tokenizer::piece.
  std::string_view token_text(TokenId id, bool show_special) const { return tokenizer_.piece(id, show_special); }

 private:
  Status read_text();
  Status read_vision();
  Status choose_layout();
  Status check_vocabulary_fits() const;
  Status build_tokenizer();
  Status measure_delimiters();
  Status append_tokens(std::string_view text, bool parse_special, Buffer<TokenId>* out, bool continues = false) const;
  Status append_answer(std::string_view text, bool parse_special, Buffer<TokenId>* out) const;

  GgufFile text_file_;
  GgufFile vision_file_;
  bool has_vision_ = false;
  TextConfig text_;
  VisionConfig vision_;
  VocabularyFacts vocabulary_;
  ChatTemplate chat_template_ = ChatTemplate::kRaw;
  const PromptLayout* layout_ = nullptr;
  ToolCalls tool_calls_ = ToolCalls::kNone;
  Buffer<char> default_system_;  // zero-terminated
  ThoughtMarks thought_marks_;
  int64_t tile_tokens_ = 0;       // maximum text tokens before a tile
  int64_t row_break_tokens_ = 0;  // between rows of tiles
  int64_t picture_tokens_ = 0;    // before and after the picture and its overview
  Tokenizer tokenizer_;
  Buffer<std::byte> tokenizer_memory_;
};

/// Returns the format of most of a file's weight bytes.
WeightFormat usual_format(const GgufFile& file);

/// Returns the preprocessing that follows from the model and the limits together.
PreprocessConfig preprocess_config(const VisionConfig& vision, const ocellus_limits& limits);

/// Returns the maximum size of pictures under these limits.
ImageLimits image_limits(const ocellus_limits& limits);
/// Returns the same for pictures that a GPU resizes.
ImageLimits device_image_limits(const ocellus_limits& limits);

}  // namespace ocellus
