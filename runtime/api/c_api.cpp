// The C API: checks pointers and converts Status to ocellus_status.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "mm/pictures/image_decode.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/gpu_probe.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/picture_source.h"
#include "runtime/engine/plan_work.h"
#include "runtime/models/clip.h"
#include "runtime/models/family.h"
#include "runtime/models/random_weights.h"
#include "runtime/ocellus.h"
#include "runtime/session/api_frame.h"
#include "runtime/session/picture_rows.h"
#include "runtime/session/session.h"

struct ocellus_model {
  ocellus::Model model;
};
struct ocellus_engine {
  std::unique_ptr<ocellus::Engine> engine;
  std::unique_ptr<ocellus::Session[]> sessions;  // as many as are planned
};

namespace {

using ocellus::Code;
using ocellus::Session;
using ocellus::Status;

/// Probing a picture uses no planned limits.
constexpr ocellus::ImageLimits kAnyPicture = {.max_pixels = int64_t{1} << 28, .max_whole_pixels = int64_t{1} << 29};

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

ocellus_status result(Status status) { return static_cast<ocellus_status>(status.code()); }

// A session handle is the session itself.
Session* unwrap(ocellus_session* session) { return reinterpret_cast<Session*>(session); }
ocellus_session* wrap(Session* session) { return reinterpret_cast<ocellus_session*>(session); }

ocellus_status null_argument(const char* function, const char* name) {
  return result(OCELLUS_FAIL(Code::kBadArgument, "%s: %s is null", function, name));
}

/// Checks made by every call on a session.
Status check_session(const ocellus_session* session, const char* function) {
  if (session == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "%s: the session is null", function);
  if (!reinterpret_cast<const Session*>(session)->is_open())
    return OCELLUS_FAIL(Code::kBadArgument, "%s: the session is closed", function);
  return {};
}

template <class Call>
ocellus_status on_session(ocellus_session* session, const char* function, Call&& call) {
  Status status = check_session(session, function);
  if (status.ok()) {
    unwrap(session)->engine().queue().enter();
    status = unwrap(session)->acknowledge_cancel(call(*unwrap(session)));
  }
  return result(status);
}

}  // namespace

#define OCELLUS_REQUIRE(argument) \
  if ((argument) == nullptr) return null_argument(__func__, #argument)

// Fields of both structs have equal sizes.
static_assert(sizeof(ocellus_failure::file) == sizeof(ocellus::Failure::file));
static_assert(sizeof(ocellus_failure::sentence) == sizeof(ocellus::Failure::sentence));
static_assert(static_cast<int>(Code::kInternal) == OCELLUS_INTERNAL);
static_assert(static_cast<int>(ocellus::PixelFormat::kI420) == OCELLUS_I420);
static_assert(static_cast<int>(ocellus::ColorMatrix::kBt709) == OCELLUS_BT709);
static_assert(static_cast<int>(ocellus::PlaceUnits::kResizedPixels) == OCELLUS_PLACES_RESIZED_PIXELS);

const char* ocellus_status_name(ocellus_status status) { return ocellus::code_name(static_cast<Code>(status)); }

const ocellus_failure* ocellus_last_error(void) {
  static thread_local ocellus_failure copy;
  const ocellus::Failure& failure = ocellus::last_failure();
  copy.status = static_cast<int32_t>(failure.code);
  copy.line = failure.line;
  copy.device_error = failure.device_error;
  std::memcpy(copy.file, failure.file, sizeof copy.file);
  std::memcpy(copy.sentence, failure.sentence, sizeof copy.sentence);
  return &copy;
}

const char* ocellus_version(void) { return OCELLUS_VERSION; }

ocellus_status ocellus_model_open(const char* model_path, const char* mmproj_path, ocellus_model** out) {
  OCELLUS_REQUIRE(model_path);
  OCELLUS_REQUIRE(out);
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

ocellus_status ocellus_model_sample_clip(const ocellus_model* model, int32_t frame_count, double duration, int32_t most,
                                         int32_t* indices, int32_t* count) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(indices);
  OCELLUS_REQUIRE(count);
  return result(ocellus::sample_clip(model->model, frame_count, duration, most, indices, count));
}

ocellus_status ocellus_model_template_tokens(const ocellus_model* model, int32_t* out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(out);
  const ocellus::TurnText& texts = ocellus::turn_text(model->model.chat_template());
  // The beginning-of-text token, if the model has one.
  int64_t total = 1 + model->model.thought_marks().mark_tokens();
  const std::string_view system = model->model.default_system();
  const bool has_system = !system.empty();
  for (const std::string_view text : {std::string_view(has_system ? texts.system_open : ""), system,
                                      std::string_view(has_system ? texts.system_close : ""),
                                      std::string_view(texts.user_first), std::string_view(texts.user_close)}) {
    int64_t count = 0;
    if (const Status status = model->model.count_tokens(text, true, &count); !status.ok()) return result(status);
    total += count;
  }
  *out = static_cast<int32_t>(total);
  return OCELLUS_OK;
}

ocellus_status ocellus_image_probe(const void* bytes, int64_t byte_count, ocellus_image_facts* out) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(out);
  ocellus::ImageFacts facts;
  const Status status = ocellus::probe_image(static_cast<const uint8_t*>(bytes), byte_count, kAnyPicture, &facts);
  if (status.ok()) *out = {facts.width, facts.height, facts.whole_pixels, facts.scratch_bytes};
  return result(status);
}

ocellus_status ocellus_image_decode(const void* bytes, int64_t byte_count, void* memory, int64_t memory_bytes) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(memory);
  if (reinterpret_cast<uintptr_t>(memory) % 16 != 0)
    return result(OCELLUS_FAIL(Code::kBadArgument, "ocellus_image_decode: the memory is not aligned to 16 bytes"));
  ocellus::ImageDecoder decoder;
  const Status opened = decoder.open();
  if (!opened.ok()) return result(opened);
  ocellus::RgbImage image;
  return result(decoder.decode(static_cast<const uint8_t*>(bytes), byte_count, kAnyPicture,
                               {static_cast<std::byte*>(memory), memory_bytes}, &image));
}

void ocellus_limits_init(ocellus_limits* limits) {
  if (limits == nullptr) return;
  *limits = {};
  limits->struct_bytes = sizeof *limits;
  limits->max_sessions = 1;
  limits->max_images = 1;
  limits->max_text_tokens = 512;
  limits->max_image_pixels = int64_t{1920} * 1080;
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

void ocellus_engine_config_init(ocellus_engine_config* config) {
  if (config == nullptr) return;
  *config = {};
  config->struct_bytes = sizeof *config;
  ocellus_limits_init(&config->limits);
}

int32_t ocellus_built_with_cuda(void) { return ocellus::built_with_cuda() ? 1 : 0; }

int32_t ocellus_gpu_count(void) { return ocellus::cuda_device_count(); }

ocellus_status ocellus_probe_gpu(int32_t index, ocellus_gpu_facts* out) {
  OCELLUS_REQUIRE(out);
  return result(ocellus::probe_gpu(index, out));
}

ocellus_status ocellus_engine_create(const ocellus_model* model, const ocellus_engine_config* config,
                                     ocellus_engine** out) {
  OCELLUS_REQUIRE(model);
  OCELLUS_REQUIRE(config);
  OCELLUS_REQUIRE(out);
  std::unique_ptr<ocellus_engine> engine(new (std::nothrow) ocellus_engine);
  if (engine == nullptr) return result(OCELLUS_FAIL(Code::kIo, "the system has no memory for an engine"));
  const Status status = ocellus::Engine::create(model->model, *config, &engine->engine);
  if (!status.ok()) return result(status);
  const int32_t count = engine->engine->shape().sessions;
  engine->sessions.reset(new (std::nothrow) Session[static_cast<size_t>(count)]);
  if (engine->sessions == nullptr)
    return result(OCELLUS_FAIL(Code::kIo, "the system has no memory for %d sessions", count));
  *out = engine.release();
  return OCELLUS_OK;
}

void ocellus_engine_destroy(ocellus_engine* engine) { delete engine; }

ocellus_status ocellus_engine_resized_size(const ocellus_engine* engine, int32_t width, int32_t height,
                                           int32_t* resized_width, int32_t* resized_height) {
  OCELLUS_REQUIRE(engine);
  OCELLUS_REQUIRE(resized_width);
  OCELLUS_REQUIRE(resized_height);
  const ocellus::PictureShape& pictures = engine->engine->shape().pictures;
  if (!pictures.planned()) return result(OCELLUS_FAIL(Code::kBadArgument, "the engine was created without pictures"));
  ocellus::ViewPlan plan;
  const Status status = plan_picture(pictures, {.width = width, .height = height}, &plan);
  if (!status.ok()) return result(status);
  *resized_width = plan.view_size().width;
  *resized_height = plan.view_size().height;
  return OCELLUS_OK;
}

ocellus_status ocellus_engine_get_stats(const ocellus_engine* engine, ocellus_engine_stats* out) {
  OCELLUS_REQUIRE(engine);
  OCELLUS_REQUIRE(out);
  engine->engine->describe(out);
  return OCELLUS_OK;
}

ocellus_status ocellus_session_open(ocellus_engine* engine, ocellus_session** out) {
  OCELLUS_REQUIRE(engine);
  OCELLUS_REQUIRE(out);
  int32_t slot = 0;
  const Status status = engine->engine->take_slot(&slot);
  if (!status.ok()) return result(status);
  engine->sessions[slot].open(*engine->engine, slot);
  *out = wrap(&engine->sessions[slot]);
  return OCELLUS_OK;
}

ocellus_status ocellus_session_reset(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) {
    s.reset();
    return Status();
  });
}

void ocellus_session_close(ocellus_session* session) {
  if (check_session(session, __func__).ok()) unwrap(session)->close();
}

ocellus_status ocellus_session_add_system(ocellus_session* session, const char* text, int64_t text_bytes) {
  OCELLUS_REQUIRE(text);
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (text_bytes < 0)
      return OCELLUS_FAIL(Code::kBadArgument, "text_bytes is negative: %lld", static_cast<long long>(text_bytes));
    return s.add_system({text, static_cast<size_t>(text_bytes)});
  });
}

ocellus_status ocellus_session_begin_turn(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return s.begin_turn(); });
}

ocellus_status ocellus_session_end_turn(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return s.end_turn(); });
}

ocellus_status ocellus_session_add_text(ocellus_session* session, const char* text, int64_t text_bytes,
                                        uint32_t flags) {
  OCELLUS_REQUIRE(text);
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (text_bytes < 0)
      return OCELLUS_FAIL(Code::kBadArgument, "a text cannot have %lld bytes", static_cast<long long>(text_bytes));
    return s.add_text({text, static_cast<size_t>(text_bytes)}, (flags & OCELLUS_TEXT_PARSE_SPECIAL) != 0);
  });
}

ocellus_status ocellus_session_add_tokens(ocellus_session* session, const int32_t* tokens, int32_t count) {
  OCELLUS_REQUIRE(tokens);
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (count < 0) return OCELLUS_FAIL(Code::kBadArgument, "there cannot be %d tokens", count);
    return s.add_tokens(tokens, count);
  });
}

ocellus_status ocellus_session_add_image(ocellus_session* session, const ocellus_frame* frame) {
  OCELLUS_REQUIRE(frame);
  return on_session(session, __func__, [&](Session& s) -> Status {
    ocellus::Frame own;
    OCELLUS_TRY(ocellus::to_frame(*frame, &own));
    return s.add_frame(own);
  });
}

ocellus_status ocellus_session_add_encoded_image(ocellus_session* session, const void* bytes, int64_t byte_count) {
  OCELLUS_REQUIRE(bytes);
  return on_session(session, __func__,
                    [&](Session& s) { return s.add_encoded_image(static_cast<const uint8_t*>(bytes), byte_count); });
}

ocellus_status ocellus_session_add_parts(ocellus_session* session, const ocellus_part* parts, int32_t count,
                                         int32_t* failed_part) {
  OCELLUS_REQUIRE(parts);
  int32_t failed = -1;
  const ocellus_status status = on_session(session, __func__, [&](Session& s) -> Status {
    if (count < 0) return OCELLUS_FAIL(Code::kBadArgument, "there cannot be %d parts", count);
    return s.add_parts(parts, count, &failed);
  });
  if (failed_part != nullptr) *failed_part = failed;
  return status;
}

ocellus_status ocellus_session_add_synthetic_image(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return s.add_synthetic_image(); });
}

ocellus_status ocellus_session_set_rolling(ocellus_session* session, int32_t images, int32_t sink_tokens) {
  return on_session(session, __func__, [&](Session& s) { return s.set_rolling(images, sink_tokens); });
}

ocellus_status ocellus_session_get_ncar(ocellus_session* session, float* theta, int32_t capacity, int32_t* count,
                                        int32_t* switch_layer) {
  OCELLUS_REQUIRE(count);
  OCELLUS_REQUIRE(switch_layer);
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (!s.engine().shape().policy.watches_ncar())
      return OCELLUS_FAIL(Code::kBadArgument,
                          "NCAR is observed only by eviction method david among all rows of a prompt: plan that");
    if (capacity < 0 || (capacity > 0 && theta == nullptr))
      return OCELLUS_FAIL(Code::kBadArgument, "there is no room for %d values of NCAR", capacity);
    const ocellus::NcarState* ncar = s.ncar();
    *switch_layer = ncar == nullptr ? ocellus::NcarState::kNotYet : ncar->switch_layer;
    *count = ncar == nullptr ? 0 : ncar->layers(s.engine().text().config.global_layers());
    if (ncar != nullptr) std::copy_n(ncar->theta, std::min(*count, capacity), theta);
    return {};
  });
}

void ocellus_generate_params_init(ocellus_generate_params* params) {
  if (params == nullptr) return;
  *params = {};
  params->struct_bytes = sizeof *params;
  params->max_tokens = 128;
  params->top_p = 1.0f;
  params->repetition_penalty = 1.0f;
}

ocellus_status ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                        ocellus_generate_stats* stats) {
  OCELLUS_REQUIRE(params);
  ocellus_generate_stats unwanted;
  return on_session(session, __func__, [&](Session& s) {
    Session* const one = &s;
    return ocellus::generate(&one, params, stats != nullptr ? stats : &unwanted, 1);
  });
}

ocellus_status ocellus_session_score(ocellus_session* session, const int32_t* tokens, int32_t count,
                                     float* log_probabilities, ocellus_generate_stats* stats) {
  OCELLUS_REQUIRE(tokens);
  OCELLUS_REQUIRE(log_probabilities);
  ocellus_generate_stats unwanted;
  return on_session(session, __func__, [&](Session& s) {
    return ocellus::score(s, {tokens, count, log_probabilities}, stats != nullptr ? stats : &unwanted);
  });
}

ocellus_status ocellus_batch_generate(ocellus_session* const* sessions, const ocellus_generate_params* params,
                                      ocellus_generate_stats* stats, int32_t count) {
  OCELLUS_REQUIRE(sessions);
  OCELLUS_REQUIRE(params);
  OCELLUS_REQUIRE(stats);
  for (int32_t i = 0; i < count; ++i)
    if (const Status status = check_session(sessions[i], __func__); !status.ok()) return result(status);
  if (count > 0) unwrap(sessions[0])->engine().queue().enter();
  return result(ocellus::generate(reinterpret_cast<Session* const*>(sessions), params, stats, count));
}

void ocellus_session_cancel(ocellus_session* session) {
  if (session != nullptr) unwrap(session)->stop_signal().cancel();
}

void ocellus_session_set_deadline(ocellus_session* session, int64_t deadline_ns) {
  if (session != nullptr) unwrap(session)->stop_signal().set_deadline(deadline_ns);
}
