#include "runtime/models/model.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "mm/views/image_prompt.h"
#include "runtime/models/model_shapes.h"

namespace ocellus {
namespace {

/// Sums the rows and hands out pieces of one block of heap memory.
class HeapSink : public RowSink {
 public:
  explicit HeapSink(std::byte* memory) : at_(memory) {}
  Status take(const RowSpec& row, std::byte** out) override {
    *out = at_;
    if (at_ != nullptr) at_ += aligned_bytes(row.bytes);
    total_ += aligned_bytes(row.bytes);
    return {};
  }
  int64_t total_bytes() const { return total_; }

 private:
  std::byte* at_;
  int64_t total_ = 0;
};

template <size_t kCapacity>
void copy_text(char (&out)[kCapacity], std::string_view text) {
  std::snprintf(out, kCapacity, "%.*s", static_cast<int>(std::min(text.size(), kCapacity - 1)), text.data());
}

int64_t count_parameters(const GgufFile& file) {
  int64_t count = 0;
  for (const GgufTensor& tensor : file.tensors()) count += tensor.rows() * tensor.cols();
  return count;
}

/// Text in brackets must be a single token: spelled out it would mean nothing to the model.
Status check_mark(const Model& model, std::string_view text) {
  constexpr std::string_view kOpen = "<[";
  for (size_t open = text.find_first_of(kOpen); open != text.npos; open = text.find_first_of(kOpen, 1)) {
    text.remove_prefix(open);
    const std::string_view token = text.substr(0, text.find(text[0] == '<' ? '>' : ']') + 1);
    int64_t count = 0;
    OCELLUS_TRY(model.count_tokens(token, true, &count));
    if (count != 1)
      return OCELLUS_FAIL(
          Code::kBadFile,
          "tokenizer.ggml.tokens has no '%.*s', which %s writes around pictures: the two files are not a pair",
          static_cast<int>(token.size()), token.data(), family_of(model.vision())->name);
  }
  return {};
}

/// If no pictures are planned, none is larger than a frame.
void set_clips(const ClipRules& clips, const ocellus_limits& limits, PreprocessConfig* config) {
  if (clips.views != nullptr) config->rules = clips.views;
  if (clips.rows == nullptr) return;
  config->clip_views = clips.frame_views;
  config->clip_rows = std::min(config->view_rows, clips.rows(limits.max_clip_frames));
  if (limits.max_images == 0) config->view_rows = config->clip_rows;
}

}  // namespace

WeightFormat usual_format(const GgufFile& file) {
  int64_t bytes[kWeightFormatCount] = {};
  for (const GgufTensor& tensor : file.tensors()) bytes[static_cast<int>(tensor.format)] += tensor.bytes;
  return static_cast<WeightFormat>(std::max_element(bytes, bytes + kWeightFormatCount) - bytes);
}

Status Model::open(const char* model_path, const char* mmproj_path) {
  OCELLUS_TRY(text_file_.open(model_path));
  OCELLUS_TRY(prefix_failure(read_text(), model_path));
  if (mmproj_path == nullptr) return {};
  OCELLUS_TRY(vision_file_.open(mmproj_path));
  OCELLUS_TRY(prefix_failure(read_vision(), mmproj_path));
  return prefix_failure(measure_delimiters(), model_path);
}

Status Model::open_shape(const ModelShape& shape, FileType type) {
  Buffer<uint8_t> header;
  OCELLUS_TRY(describe_text_model(shape, type, &header));
  OCELLUS_TRY(text_file_.open_header(std::move(header)));
  OCELLUS_TRY(prefix_failure(read_text(), shape.name));
  if (!shape.has_vision()) return {};
  OCELLUS_TRY(describe_vision_model(shape, type, &header));
  OCELLUS_TRY(vision_file_.open_header(std::move(header)));
  OCELLUS_TRY(prefix_failure(read_vision(), shape.name));
  return prefix_failure(measure_delimiters(), shape.name);
}

Status Model::open_shape(const char* name, const char* format, int32_t layers) {
  const ModelShape* shape = nullptr;
  FileType type;
  OCELLUS_TRY(find_model_shape(name, &shape));
  OCELLUS_TRY(find_file_type(format, &type));
  ModelShape cut;
  OCELLUS_TRY(with_layers(*shape, layers, &cut));
  return open_shape(cut, type);
}

Status Model::read_text() {
  TextModel checked;
  OCELLUS_TRY(read_text_config(text_file_, &text_));
  OCELLUS_TRY(bind_text_model(text_file_, text_, {}, &checked));
  OCELLUS_TRY(read_vocabulary_facts(text_file_, &vocabulary_));
  OCELLUS_TRY(check_vocabulary_fits());
  OCELLUS_TRY(build_tokenizer());
  std::string_view jinja;
  OCELLUS_TRY(text_file_.read_string("tokenizer.chat_template", &jinja));
  chat_template_ = detect_chat_template(jinja, tokenizer_);
  tool_calls_ = find_tool_calls(jinja);
  OCELLUS_TRY(thought_marks_.read(jinja, tokenizer_));
  return choose_layout();
}

/// The family is known once its tower's file is: then the layout is chosen again.
Status Model::choose_layout() {
  const Family* const family = family_of(vision_);
  std::string_view jinja;
  OCELLUS_TRY(text_file_.read_string("tokenizer.chat_template", &jinja));
  layout_ = &find_layout(family == nullptr ? "" : family->name, chat_template_, jinja);
  std::string_view system = layout_->system_text;
  if (system.empty() && chat_template_ == ChatTemplate::kChatMl) system = default_system_prompt(jinja);
  const bool escapes = system.empty() && chat_template_ == ChatTemplate::kMistral;
  if (escapes) system = default_system_message(jinja);
  OCELLUS_TRY(default_system_.resize(std::ssize(system) + 1));
  char* out = default_system_.data();
  for (size_t i = 0; i < system.size(); ++i) {
    const bool escaped = escapes && system[i] == '\\' && i + 1 < system.size();
    *out++ = escaped && system[i + 1] == 'n' ? '\n' : escaped ? system[i + 1] : system[i];
    if (escaped) ++i;
  }
  *out = '\0';
  return {};
}

Status Model::read_vision() {
  VisionModel checked;
  OCELLUS_TRY(read_vision_config(vision_file_, vision_families(), &vision_));
  OCELLUS_TRY(choose_layout());
  vision_.plain_prompts = layout_->is_plain;
  OCELLUS_TRY(bind_vision_model(vision_file_, vision_, nullptr, &checked));
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  OCELLUS_TRY(check_preprocess(preprocess_config(vision_, limits)));
  if (vision_.output_width != text_.width)
    return OCELLUS_FAIL(Code::kBadFile, "%s is %d, but the language model has rows of %d: the two files are not a pair",
                        vision_.family->output_width_from, vision_.output_width, text_.width);
  if (vision_.deepstack_count != text_.deepstack_layers)
    return OCELLUS_FAIL(Code::kBadFile,
                        "%d layers have tensors 'v.deepstack.*', but the language model takes the rows of %d "
                        "(n_deepstack_layers): the two files are not a pair",
                        vision_.deepstack_count, text_.deepstack_layers);
  if (vision_.views()->has_grid_positions && !text_.rope.sections.used())
    return OCELLUS_FAIL(Code::kBadFile,
                        "clip.projector_type '%s' makes rows whose positions are lines and columns, which %s models do "
                        "not have: the two files are not a pair",
                        vision_.family->projector, text_.architecture->name);
  return {};
}

/// Checks and counts the tokens of every delimiter text of the largest possible picture.
Status Model::measure_delimiters() {
  const ImageMarks& marks = vision_.views()->marks;
  const auto count = [&](const char* text, int64_t* total) {
    int64_t tokens = 0;
    OCELLUS_TRY(check_mark(*this, text));
    OCELLUS_TRY(count_tokens(text, true, &tokens));
    *total += tokens;
    return Status();
  };
  for (const char* text :
       {marks.before, marks.before_overview, marks.after, layout_->picture.before, layout_->picture.after})
    OCELLUS_TRY(count(text, &picture_tokens_));
  if (marks.line_breaks > 0) {
    const ShapeText breaks("%.*s", marks.line_breaks, "\n\n\n\n");
    OCELLUS_TRY(count(breaks.text(), &picture_tokens_));
    OCELLUS_TRY(count(breaks.text(), &picture_tokens_));
  }
  OCELLUS_TRY(count(marks.after_tile_row, &row_break_tokens_));
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  const PreprocessConfig config = preprocess_config(vision_, limits);
  const ViewBounds bounds = view_bounds(config, {});
  const int32_t side = marks.before_tile[0] == '\0' ? 0 : bounds.tile_rows;
  for (int32_t place = 0; place < side * side; ++place) {
    if ((place / side + 1) * (place % side + 1) > bounds.tiles) continue;  // no grid has it
    char text[sizeof ImagePiece::text];
    int64_t tokens = 0;
    std::snprintf(text, sizeof text, marks.before_tile, place / side + 1, place % side + 1);
    OCELLUS_TRY(count(text, &tokens));
    tile_tokens_ = std::max(tile_tokens_, tokens);
  }
  has_vision_ = true;
  return {};
}

int64_t Model::delimiter_tokens(const ViewBounds& bounds) const {
  return bounds.tiles * tile_tokens_ + std::max(0, bounds.tile_rows - 1) * row_break_tokens_ + picture_tokens_;
}

Status Model::check_vocabulary_fits() const {
  if (vocabulary_.token_count == text_.vocabulary) return {};
  return OCELLUS_FAIL(Code::kBadFile, "tokenizer.ggml.tokens has %d tokens, but tensor 'token_embd.weight' has %d rows",
                      vocabulary_.token_count, text_.vocabulary);
}

Status Model::build_tokenizer() {
  HeapSink sizes(nullptr);
  OCELLUS_TRY(tokenizer_.build(text_file_, vocabulary_, sizes));
  OCELLUS_TRY(tokenizer_memory_.resize(sizes.total_bytes() + kRowAlignment));
  const uintptr_t start = reinterpret_cast<uintptr_t>(tokenizer_memory_.data());
  HeapSink memory(tokenizer_memory_.data() + (kRowAlignment - start % kRowAlignment) % kRowAlignment);
  return tokenizer_.build(text_file_, vocabulary_, memory);
}

void Model::describe(ocellus_model_facts* out) const {
  *out = {};
  out->clip_group = 1;
  std::string_view name;
  // The name is optional: a file without one, or with one of another type, still runs.
  if (text_file_.read_string("general.name", &name).ok()) copy_text(out->name, name);
  copy_text(out->architecture, text_.architecture->name);
  copy_text(out->weight_format, format_info(usual_format(text_file_)).name);
  copy_text(out->chat_template, chat_template_name(chat_template_));
  out->parameter_count = count_parameters(text_file_);
  out->text_weight_bytes = text_file_.data_bytes();
  out->step_weight_bytes = out->text_weight_bytes;
  // A step reads a row of each table alone; the embedding may be the unembedding, too.
  const GgufTensor* embedding = text_file_.find_tensor("token_embd.weight");
  if (embedding != nullptr && text_file_.find_tensor("output.weight") != nullptr)
    out->step_weight_bytes -= embedding->bytes;
  if (const GgufTensor* inputs = text_file_.find_tensor(kLayerInputTable)) out->step_weight_bytes -= inputs->bytes;
  out->layer_count = text_.layer_count;
  out->width = text_.width;
  out->query_heads = text_.query_heads;
  out->kv_heads = text_.kv_heads;
  out->head_dim = text_.head_dim;
  out->vocabulary_size = text_.vocabulary;
  out->context_length = text_.context_length;
  out->thinking = static_cast<int32_t>(thought_marks_.thinking());
  out->thought_tokens = thought_marks_.standard_tokens();
  out->calls_tools = static_cast<int32_t>(tool_calls_);
  out->image_numbers = layout_->is_plain          ? OCELLUS_NUMBERS_PLAIN
                       : layout_->numbers_several ? OCELLUS_NUMBERS_SEVERAL
                                                  : OCELLUS_NUMBERS_NONE;
  if (!has_vision_) return;
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  copy_text(out->projector, vision_.family->projector);
  out->parameter_count += count_parameters(vision_file_);
  out->vision_weight_bytes = vision_file_.data_bytes();
  out->image_size = vision_.image_size;
  out->tokens_per_view = preprocess_config(vision_, limits).view_rows;
  out->any_image_size = vision_.any_size ? 1 : 0;
  out->max_views = max_view_count(preprocess_config(vision_, limits));
  out->clip_frames = clips_of(vision_).most_frames;
  out->clip_group = clips_of(vision_).group;
  if (const Family* const family = family_of(vision_)) out->place_units = static_cast<int32_t>(family->places);
  out->has_vision = 1;
}

PreprocessConfig preprocess_config(const VisionConfig& vision, const ocellus_limits& limits) {
  PreprocessConfig config;
  config.rules = vision.views();
  config.image_size = vision.image_size;
  config.view_rows = vision.tokens_per_view();
  if (vision.any_size) {
    const int64_t area = int64_t{vision.row_side()} * vision.row_side();
    const int64_t wanted = limits.max_image_rows > 0 ? limits.max_image_rows : vision.usual_rows;
    config.row_side = vision.row_side();
    config.min_pixels = vision.min_pixels;
    config.planned_rows = limits.planned_image_rows;
    config.view_rows = static_cast<int32_t>(std::min(wanted, vision.max_pixels / area));
  }
  config.longest_edge = vision.longest_edge;
  config.min_tiles = vision.min_tiles;
  config.max_tiles = limits.max_tiles > 0 ? limits.max_tiles : vision.max_tiles;
  if (limits.max_clip_frames > 0) set_clips(clips_of(vision), limits, &config);
  config.tiled_size_count = vision.tiled_size_count;
  std::copy_n(vision.tiled_sizes, vision.tiled_size_count, config.tiled_sizes);
  std::copy(vision.image_mean, vision.image_mean + 3, config.mean);
  std::copy(vision.image_std, vision.image_std + 3, config.std);
  return config;
}

ImageLimits image_limits(const ocellus_limits& limits) {
  ImageLimits result;
  result.max_pixels = limits.max_image_pixels;
  result.max_whole_pixels = limits.max_whole_pixels;
  if (limits.max_image_side > 0) result.max_side = limits.max_image_side;
  result.depth = {limits.depth_near, limits.depth_far};
  return result;
}

ImageLimits device_image_limits(const ocellus_limits& limits) {
  constexpr int64_t kUsualPixels = int64_t{1920} * 1080;
  const int64_t most = limits.max_gpu_pixels == 0 ? kUsualPixels : limits.max_gpu_pixels;
  ImageLimits result = image_limits(limits);
  result.max_pixels = std::min(result.max_pixels, most);
  result.max_side = std::min(result.max_side, ImageLimits().max_side);
  return result;
}

}  // namespace ocellus
