// The C API of models and plans.
#include <algorithm>
#include <cstdio>
#include <new>

#include "runtime/api/handles.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/picture_source.h"
#include "runtime/engine/plan_work.h"
#include "runtime/models/clip.h"
#include "runtime/models/family.h"
#include "runtime/models/model_shapes.h"
#include "runtime/models/random_weights.h"

namespace {

using ocellus::Code;
using ocellus::Status;

class CallerSink : public ocellus::ByteSink {
 public:
  CallerSink(ocellus_bytes_function function, void* user) : function_(function), user_(user) {}
  Status take(const void* bytes, int64_t count) override {
    return function_(user_, bytes, count) == 0 ? Status()
                                               : OCELLUS_FAIL(Code::kCancelled, "the caller stopped the file");
  }

 private:
  ocellus_bytes_function function_;
  void* user_;
};

}  // namespace

static_assert(static_cast<int>(ocellus::PlaceUnits::kResizedPixels) == OCELLUS_PLACES_RESIZED_PIXELS);

ocellus_status ocellus_model_open(const char* model_path, const char* mmproj_path, ocellus_model** out) {
  return ocellus_model_open_with_allocator(model_path, mmproj_path, nullptr, out);
}

ocellus_status ocellus_model_open_with_allocator(const char* model_path, const char* mmproj_path,
                                                 const ocellus_allocator* allocator, ocellus_model** out) {
  OCELLUS_REQUIRE(model_path);
  OCELLUS_REQUIRE(out);
  ocellus::Allocator hooks;
  const Status read = read_allocator(allocator, &hooks);
  if (!read.ok()) return result(read);
  const ocellus::AllocatorScope scope(hooks);
  std::unique_ptr<ocellus_model> model(new (std::nothrow) ocellus_model);
  if (model == nullptr) return result(OCELLUS_FAIL(Code::kIo, "the system has no memory for a model"));
  const Status status = model->model.open(model_path, mmproj_path);
  if (status.ok()) *out = model.release();
  return result(status);
}

ocellus_status ocellus_model_open_shape(const char* name, const char* format, int32_t layers, ocellus_model** out) {
  OCELLUS_REQUIRE(name);
  OCELLUS_REQUIRE(format);
  OCELLUS_REQUIRE(out);
  std::unique_ptr<ocellus_model> model(new (std::nothrow) ocellus_model);
  if (model == nullptr) return result(OCELLUS_FAIL(Code::kIo, "the system has no memory for a model"));
  const Status status = model->model.open_shape(name, format, layers);
  if (status.ok()) *out = model.release();
  return result(status);
}

ocellus_status ocellus_known_model_get(int32_t index, ocellus_known_model* out) {
  OCELLUS_REQUIRE(out);
  const int32_t count = ocellus::model_shape_count();
  if (index < 0 || index >= count)
    return result(OCELLUS_FAIL(Code::kBadArgument, "there is no known model number %d: there are %d", index, count));
  const ocellus::ModelShape& shape = ocellus::model_shape(index);
  const ocellus::Family* const family = ocellus::family_of(shape.vision);
  *out = {.name = shape.name,
          .family = family == nullptr ? "" : family->name,
          .published = shape.published,
          .place_units = family == nullptr ? OCELLUS_PLACES_NONE : static_cast<int32_t>(family->places)};
  return OCELLUS_OK;
}

ocellus_status ocellus_model_write(const ocellus_model* model, ocellus_model_file file, uint64_t seed,
                                   ocellus_bytes_function take, void* user) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(take);
  const ocellus::Model& made_up = model->model;
  if (!made_up.is_made_up())
    return result(OCELLUS_FAIL(Code::kBadArgument, "the model was opened from files: copy them instead"));
  if (file != OCELLUS_TEXT_FILE && (file != OCELLUS_MMPROJ_FILE || !made_up.has_vision()))
    return result(OCELLUS_FAIL(Code::kBadArgument, "the model has no file number %d", static_cast<int>(file)));
  CallerSink sink(take, user);
  const ocellus::GgufFile& header = file == OCELLUS_TEXT_FILE ? made_up.text_file() : made_up.vision_file();
  return result(write_random_file(header, seed, sink));
}

void ocellus_model_close(ocellus_model* model) { delete model; }

ocellus_status ocellus_model_get_facts(const ocellus_model* model, ocellus_model_facts* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(out);
  model->model.describe(out);
  return OCELLUS_OK;
}

ocellus_status ocellus_model_count_tokens(const ocellus_model* model, const char* text, int64_t text_bytes,
                                          uint32_t flags, int32_t* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(text);
  OCELLUS_REQUIRE(out);
  if (text_bytes < 0)
    return result(
        OCELLUS_FAIL(Code::kBadArgument, "a text cannot have %lld bytes", static_cast<long long>(text_bytes)));
  int64_t count = 0;
  const std::string_view view(text, static_cast<size_t>(text_bytes));
  const Status status = model->model.count_tokens(view, (flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0, &count);
  if (status.ok()) *out = static_cast<int32_t>(count);
  return result(status);
}

ocellus_status ocellus_model_tokenize(const ocellus_model* model, const char* text, int64_t text_bytes, uint32_t flags,
                                      int32_t* tokens, int32_t capacity, int32_t* count) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(text);
  OCELLUS_REQUIRE(count);
  if (text_bytes < 0 || capacity < 0 || (capacity > 0 && tokens == nullptr))
    return result(OCELLUS_FAIL(Code::kBadArgument, "there is no room for %d tokens of a text of %lld bytes", capacity,
                               static_cast<long long>(text_bytes)));
  const ocellus::TextRole role{.parse_special = (flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0,
                               .starts = (flags & OCELLUS_TEXT_START) != 0,
                               .answers = (flags & OCELLUS_TEXT_ANSWER) != 0};
  ocellus::Buffer<ocellus::TokenId> all;
  const Status status = model->model.tokenize({text, static_cast<size_t>(text_bytes)}, role, &all);
  if (!status.ok()) return result(status);
  std::copy_n(all.data(), std::min<int64_t>(all.size(), capacity), tokens);
  *count = static_cast<int32_t>(all.size());
  return OCELLUS_OK;
}

ocellus_status ocellus_model_token_text(const ocellus_model* model, int32_t token, uint32_t flags, char* text,
                                        int32_t capacity, int32_t* text_bytes) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(text_bytes);
  const int32_t count = model->model.text().vocabulary;
  if (token < 0 || token >= count)
    return result(OCELLUS_FAIL(Code::kBadArgument, "there is no token %d: the model has %d", token, count));
  if (capacity < 0 || (capacity > 0 && text == nullptr))
    return result(OCELLUS_FAIL(Code::kBadArgument, "there is no room for %d bytes of a token", capacity));
  const std::string_view piece = model->model.token_text(token, (flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0);
  std::copy_n(piece.data(), std::min<size_t>(piece.size(), static_cast<size_t>(capacity)), text);
  *text_bytes = static_cast<int32_t>(piece.size());
  return OCELLUS_OK;
}

ocellus_status ocellus_model_sample_clip(const ocellus_model* model, int32_t sampling, int32_t frame_count,
                                         double duration, int32_t most, int32_t* indices, int32_t* count) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(indices);
  OCELLUS_REQUIRE(count);
  return result(ocellus::sample_clip(model->model, sampling, frame_count, duration, most, indices, count));
}

ocellus_status ocellus_model_count_turn(const ocellus_model* model, const ocellus_part* parts, int32_t count,
                                        int32_t* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(out);
  if (count < 0 || (count > 0 && parts == nullptr))
    return result(OCELLUS_FAIL(Code::kBadArgument, "there cannot be %d parts", count));
  int64_t total = 0;
  if (const Status status = model->model.count_turn({parts, static_cast<size_t>(count)}, &total); !status.ok())
    return result(status);
  *out = static_cast<int32_t>(total) + model->model.thought_marks().mark_tokens();
  return OCELLUS_OK;
}

ocellus_status ocellus_model_template_tokens(const ocellus_model* model, int32_t* out) {
  return ocellus_model_count_turn(model, nullptr, 0, out);
}

const char* ocellus_model_default_system(const ocellus_model* model) {
  return model == nullptr ? "" : model->model.default_system_text();
}

void ocellus_allocator_init(ocellus_allocator* allocator) {
  if (allocator == nullptr) return;
  *allocator = {};
  allocator->struct_bytes = sizeof *allocator;
}

void ocellus_limits_init(ocellus_limits* limits) {
  if (limits == nullptr) return;
  *limits = {};
  limits->struct_bytes = sizeof *limits;
  limits->max_sessions = 1;
  limits->max_images = 1;
  limits->max_text_tokens = 512;
  limits->max_image_pixels = int64_t{1920} * 1080;
  limits->reduce_keep = 1.0f;
  std::snprintf(limits->reduce, sizeof limits->reduce, "none");
  limits->cache.kv_bits = 16;
  limits->cache.keep = 1.0f;
  std::snprintf(limits->cache.kv_scheme, sizeof limits->cache.kv_scheme, "per-image");
  std::snprintf(limits->cache.evict, sizeof limits->cache.evict, "none");
}

ocellus_status ocellus_plan_memory(const ocellus_model* model, const ocellus_limits* limits, ocellus_plan* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(limits);
  OCELLUS_REQUIRE(out);
  return result(ocellus::plan_memory(model->model, *limits, out));
}

ocellus_status ocellus_plan_work(const ocellus_model* model, const ocellus_limits* limits, ocellus_work* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(limits);
  OCELLUS_REQUIRE(out);
  return result(ocellus::plan_work(model->model, *limits, out));
}

ocellus_status ocellus_model_count_image_rows(const ocellus_model* model, const ocellus_limits* limits, int32_t width,
                                              int32_t height, int32_t* rows) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(limits);
  OCELLUS_REQUIRE(rows);
  if (!model->model.has_vision())
    return result(OCELLUS_FAIL(Code::kBadArgument, "the model was opened without its vision part"));
  ocellus::PictureShape pictures;
  pictures.limits = ocellus::image_limits(*limits);
  pictures.preprocess = ocellus::preprocess_config(model->model.vision(), *limits);
  ocellus::ViewPlan plan;
  Status status = check_limits(model->model, *limits);
  if (status.ok()) status = plan_picture(pictures, {.width = width, .height = height}, &plan);
  if (!status.ok()) return result(status);
  *rows = static_cast<int32_t>(plan.row_count());
  return OCELLUS_OK;
}
