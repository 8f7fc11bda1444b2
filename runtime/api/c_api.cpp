// The C API: checks pointers and converts Status to ocellus_status.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "mm/pictures/gif_decoder.h"
#include "mm/pictures/image_decode.h"
#include "runtime/api/handles.h"
#include "runtime/engine/gpu_probe.h"
#include "runtime/engine/picture_source.h"
#include "runtime/session/api_frame.h"
#include "runtime/session/picture_rows.h"

namespace {

using ocellus::check_session;
using ocellus::Code;
using ocellus::on_session;
using ocellus::Session;
using ocellus::Status;
using ocellus::unwrap;

/// Probing a picture uses no planned limits.
constexpr ocellus::ImageLimits kAnyPicture = {
    .max_pixels = int64_t{1} << 28, .max_side = ocellus::kMostImageSide, .max_whole_pixels = int64_t{1} << 29};
/// Nor does converting a frame, of which nothing is planned by its shape.
constexpr ocellus::ImageLimits kAnyFrame = {
    .max_pixels = int64_t{1} << 28, .max_side = ocellus::kMostImageSide, .max_aspect = ocellus::kMostImageSide};

/// Shorter than 20 ms stands for "as fast as may be", which browsers take for 100.
int32_t frame_ms(const ocellus::ImageFacts& facts) {
  if (facts.frame_count < 2) return 0;
  const int64_t mean = 10 * facts.hundredths / facts.frame_count;
  return mean < 20 ? 100 : static_cast<int32_t>(mean);
}

Status check_alignment(const void* memory, const char* function) {
  if (reinterpret_cast<uintptr_t>(memory) % 16 == 0) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "%s: the memory is not aligned to 16 bytes", function);
}

}  // namespace

// Fields of both structs have equal sizes.
static_assert(sizeof(ocellus_failure::file) == sizeof(ocellus::Failure::file));
static_assert(sizeof(ocellus_failure::sentence) == sizeof(ocellus::Failure::sentence));
static_assert(static_cast<int>(Code::kInternal) == OCELLUS_INTERNAL);
static_assert(static_cast<int>(ocellus::PixelFormat::kI444) == OCELLUS_I444);
static_assert(static_cast<int>(ocellus::ColorMatrix::kBt709) == OCELLUS_BT709);
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

const ocellus_branch* ocellus_branch_get(int32_t index) {
  const auto branches = ocellus::all_branches();
  return index >= 0 && static_cast<size_t>(index) < branches.size() ? &branches[static_cast<size_t>(index)]->facts
                                                                    : nullptr;
}

ocellus_status ocellus_image_probe(const void* bytes, int64_t byte_count, ocellus_image_facts* out) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(out);
  ocellus::ImageFacts facts;
  const Status status = ocellus::probe_image(static_cast<const uint8_t*>(bytes), byte_count, kAnyPicture, &facts);
  const bool is_gray16 = facts.bit_depth == 16 && facts.channels < 3;
  if (status.ok())
    *out = {facts.width,       facts.height,      facts.whole_pixels, facts.scratch_bytes,
            is_gray16 ? 1 : 0, facts.frame_count, frame_ms(facts)};
  return result(status);
}

ocellus_status ocellus_image_decode(const void* bytes, int64_t byte_count, void* memory, int64_t memory_bytes) {
  return ocellus_image_decode_depth(bytes, byte_count, 0, 0, memory, memory_bytes);
}

ocellus_status ocellus_image_decode_depth(const void* bytes, int64_t byte_count, int32_t depth_near, int32_t depth_far,
                                          void* memory, int64_t memory_bytes) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(memory);
  ocellus::ImageLimits limits = kAnyPicture;
  limits.depth = {depth_near, depth_far};
  const Status ranged = ocellus::check_depth(limits.depth);
  if (!ranged.ok()) return result(ranged);
  const Status aligned = check_alignment(memory, "ocellus_image_decode");
  if (!aligned.ok()) return result(aligned);
  ocellus::ImageDecoder decoder;
  const Status opened = decoder.open();
  if (!opened.ok()) return result(opened);
  ocellus::RgbImage image;
  return result(decoder.decode(static_cast<const uint8_t*>(bytes), byte_count, limits,
                               {static_cast<std::byte*>(memory), memory_bytes}, &image));
}

ocellus_status ocellus_image_next_frame(const void* bytes, int64_t byte_count, int64_t* place, void* memory,
                                        int64_t memory_bytes) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(place);
  OCELLUS_REQUIRE(memory);
  const auto* const file = static_cast<const uint8_t*>(bytes);
  if (!ocellus::is_gif(file, byte_count))
    return result(OCELLUS_FAIL(Code::kUnsupported, "only GIFs have frames one after another"));
  const Status aligned = check_alignment(memory, "ocellus_image_next_frame");
  if (!aligned.ok()) return result(aligned);
  ocellus::RgbImage image;
  return result(
      ocellus::next_gif_frame(file, byte_count, place, {static_cast<std::byte*>(memory), memory_bytes}, &image));
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
  ocellus::Allocator hooks;
  // Engine::create refuses configurations of other versions.
  const bool has_allocator = config->struct_bytes == sizeof *config;
  const Status read = read_allocator(has_allocator ? config->allocator : nullptr, &hooks);
  if (!read.ok()) return result(read);
  const ocellus::AllocatorScope scope(hooks);
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
  *out = reinterpret_cast<ocellus_session*>(&engine->sessions[slot]);
  return OCELLUS_OK;
}

ocellus_status ocellus_session_reset(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) {
    s.reset();
    return Status();
  });
}

ocellus_status ocellus_session_mark(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return s.mark(); });
}

ocellus_status ocellus_session_rewind(ocellus_session* session, int32_t* found) {
  OCELLUS_REQUIRE(found);
  return on_session(session, __func__, [&](Session& s) {
    *found = s.rewind() ? 1 : 0;
    return Status();
  });
}

ocellus_status ocellus_session_count_tokens(ocellus_session* session, int64_t* out) {
  OCELLUS_REQUIRE(out);
  return on_session(session, __func__, [&](Session& s) {
    *out = s.conversation().state().row_count;
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

ocellus_status ocellus_session_begin_message(ocellus_session* session, int32_t role) {
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (role < OCELLUS_ROLE_SYSTEM || role > OCELLUS_ROLE_ASSISTANT)
      return OCELLUS_FAIL(Code::kBadArgument, "a role %d does not exist", role);
    return s.prompt().text().begin_message(static_cast<ocellus::Role>(role));
  });
}

ocellus_status ocellus_session_end_message(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) -> Status {
    if (!s.conversation().state().message.is_open)
      return OCELLUS_FAIL(Code::kBadArgument, "no message is open: begin one first");
    return s.prompt().text().end_message();
  });
}

ocellus_status ocellus_session_open_answer(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return s.prompt().text().open_answer(); });
}

ocellus_status ocellus_session_let_think(ocellus_session* session, int32_t thinks) {
  return on_session(session, __func__, [&](Session& s) { return s.prompt().text().let_think(thinks != 0); });
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

ocellus_status ocellus_frame_convert(const ocellus_frame* frame, uint8_t* rgb, int64_t rgb_bytes) {
  OCELLUS_REQUIRE(frame);
  OCELLUS_REQUIRE(rgb);
  ocellus::Frame own;
  const Status known = ocellus::to_frame(*frame, &own);
  return result(known.ok() ? ocellus::convert_frame(own, kAnyFrame, rgb, rgb_bytes) : known);
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

void ocellus_library_keep_init(ocellus_library_keep* keep) {
  if (keep == nullptr) return;
  *keep = {};
  keep->struct_bytes = sizeof *keep;
}

void ocellus_constraint_params_init(ocellus_constraint_params* params) {
  if (params == nullptr) return;
  *params = {};
  params->struct_bytes = sizeof *params;
}

void ocellus_generate_params_init(ocellus_generate_params* params) {
  if (params == nullptr) return;
  *params = {};
  params->struct_bytes = sizeof *params;
  params->max_tokens = 128;
  params->top_p = 1.0f;
  params->typical_p = 1.0f;
  params->repetition_penalty = 1.0f;
  const ocellus::Penalties penalties;
  params->dry_base = penalties.dry_base;
  params->dry_length = penalties.dry_length;
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
