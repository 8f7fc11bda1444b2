#include "apps/setup/setup.h"

#include <algorithm>
#include <cmath>

#include "apps/base/failure.h"
#include "apps/base/limit_flags.h"
#include "apps/base/progress.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/hub/hub_pair.h"
#include "apps/setup/bundled_models.h"
#include "apps/setup/known_models.h"

namespace ocellus::app {
namespace {

constexpr int64_t kSpareTokens = 8;  // end of the turn, and joints of text parts

int64_t count_groups(const ocellus_model_facts& facts, int64_t frames) {
  return (frames + facts.clip_group - 1) / facts.clip_group;
}

// A picture takes at least one view, a frame of a clip or a group of frames takes one.
int64_t shown_views(const ocellus_model_facts& facts, const Needs& needs) {
  return needs.images + count_groups(facts, needs.clip_frames);
}

// Positions that they take at least: the rows of a picture of any size share some.
int64_t least_image_positions(const ocellus_model_facts& facts, const Needs& needs) {
  return shown_views(facts, needs) * (facts.any_image_size != 0 ? 1 : facts.tokens_per_view);
}

int64_t planned_text_tokens(const ocellus_model_facts& facts, const CommonOptions& options, const Needs& needs) {
  const int64_t thought = needs.answer_tokens > 0 ? most_thought_tokens(facts, options) : 0;
  const int64_t wanted = needs.prompt_tokens + thought + needs.answer_tokens + kSpareTokens;
  if (facts.context_length <= 0) return wanted;
  return std::min<int64_t>(wanted, facts.context_length - least_image_positions(facts, needs));
}

// The most rows of the pictures, if their sizes are known; else 0. Entries of a library are to fit any.
int32_t planned_image_rows(const Model& model, const CommonOptions& options, const Needs& needs,
                           const ocellus_limits& limits) {
  const auto known = static_cast<int64_t>(needs.largest.each.size());
  const bool are_all = limits.max_images == known && needs.clip_frames == 0 && options.library.path.empty();
  if (model.facts.any_image_size == 0 || !are_all) return 0;
  int32_t most = 0;
  for (const auto& [width, height] : needs.largest.each) {
    const Result<int32_t> rows = model.count_image_rows(limits, {width, height});
    if (!rows) return 0;  // a picture outside the limits fails when it is added, by its name
    most = std::max(most, *rows);
  }
  return most;
}

// The engine's log function, called on any thread.
void print_warning(void*, int32_t level, const char* text) {
  constexpr int32_t kWarning = 2;
  if (level >= kWarning) print_note(std::string("ocellus: ") + text);
}

ModelPaths find_hub_models(const CommonOptions& options) {
  const HubPair pair =
      find_pair(read_hub_name(options.model.hub_name), {.offline = options.model.offline, .quiet = options.quiet});
  return {pair.model, pair.mmproj};
}

Model describe_model(ocellus::Model handle, const std::string& path) {
  const ocellus_model_facts facts = take(handle.facts());
  return {std::move(handle), facts, path};
}

}  // namespace

int32_t most_thought_tokens(const ocellus_model_facts& facts, const CommonOptions& options) {
  if (facts.thinking == OCELLUS_THINKS_NEVER) return 0;
  return options.params.max_thought_tokens < 0 ? facts.thought_tokens : options.params.max_thought_tokens;
}

void choose_text_tokens(const ocellus_model_facts& facts, int32_t tokens, int32_t thoughts, CommonOptions* options) {
  if (options->text_tokens) return;
  const int32_t wanted = tokens + thoughts * most_thought_tokens(facts, *options);
  options->text_tokens = facts.context_length > 0 ? std::min(wanted, facts.context_length) : wanted;
}

bool runs_on_gpu(const CommonOptions& options) {
  return options.limits.device == OCELLUS_DEVICE_CUDA ||
         (options.limits.device == OCELLUS_DEVICE_AUTO && gpu_count() > 0);
}

Model open_shape(const std::string& name, const std::string& format, int32_t layers) {
  return describe_model(take(ocellus::Model::open_shape(name.c_str(), format.c_str(), layers)), "");
}

Model open_model(const CommonOptions& options) {
  if (!options.model.shape.empty()) return open_shape(options.model.shape, options.model.shape_format, 0);
  const bool bundled = options.model.path.empty() && options.model.hub_name.empty();
  const ModelPaths paths = bundled ? find_bundled_models()
                           : !options.model.hub_name.empty()
                               ? find_hub_models(options)
                               : ModelPaths{options.model.path, options.model.mmproj_path};
  Result<ocellus::Model> opened =
      ocellus::Model::open(paths.model.c_str(), paths.mmproj.empty() ? nullptr : paths.mmproj.c_str());
  if (opened.status().code() == OCELLUS_UNSUPPORTED && !bundled) {
    const Failure failure =
        library_failure(OCELLUS_UNSUPPORTED);  // before the hint, whose calls fail at the end of a list
    throw Failure(failure.exit_code(), std::string(failure.what()) + "; " + models_hint(paths.model));
  }
  return describe_model(take(std::move(opened)), paths.model);
}

int64_t clip_pictures(const Model& model, int64_t frames) { return count_groups(model.facts, frames); }

void check_context(const ocellus_model_facts& facts, const Needs& needs) {
  const int64_t image_positions = least_image_positions(facts, needs);
  if (facts.context_length <= 0 || image_positions + needs.prompt_tokens < facts.context_length) return;
  const std::string limit = ", but the model has " + std::to_string(facts.context_length);
  const std::string text = format_count(needs.prompt_tokens, "text token");
  if (image_positions == 0) {
    throw Failure(kExitOverBudget, "the prompt has " + text + limit + " positions: shorten it.");
  }
  throw Failure(kExitOverBudget, format_count(shown_views(facts, needs), "picture") + " and " + text +
                                     " take at least " + std::to_string(image_positions + needs.prompt_tokens) +
                                     " positions" + limit + ": give fewer pictures or less text.");
}

namespace {

void set_depth(const DepthRange& depth, const PictureSize& pictures, ocellus_limits* limits,
               std::vector<std::string>* notes) {
  limits->depth_near = depth.near;
  limits->depth_far = depth.far;
  if (depth.is_set() && !pictures.each.empty() && pictures.gray16_path.empty())
    notes->push_back("--depth-range has no effect: no picture is grey of 16 bits.");
  if (!depth.is_set() && !pictures.gray16_path.empty()) {
    notes->push_back(
        "Note: " + pictures.gray16_path +
        " is grey of 16 bits, of which the upper eight are shown; for depth give --depth-range NEAR..FAR.");
  }
}

void check_needs(const Model& model, const CommonOptions& options, const Needs& needs) {
  if (needs.images + needs.clip_frames > 0 && !model.facts.has_vision) {
    throw Failure(kExitUsage,
                  "the model has no vision part for pictures: " +
                      std::string(options.model.shape.empty() ? "add its --mmproj file." : "choose another --shape."));
  }
  if (options.params.max_thought_tokens > 0 && model.facts.thinking == OCELLUS_THINKS_NEVER) {
    throw Failure(kExitUsage,
                  options.model.shape.empty()
                      ? "--think-tokens: the model does not think: its vocabulary has no <think> and no <|channel>."
                      : "--think-tokens: shapes do not think; count a thought in --text-tokens.");
  }
}

void note_unused(const Model& model, const CommonOptions& options, std::vector<std::string>* notes) {
  if (options.limits.max_tiles > 0 && model.facts.max_views <= 1)
    notes->push_back("--image-tiles has no effect: this model has no tiles.");
  if (options.limits.max_image_rows > 0 && model.facts.any_image_size == 0)
    notes->push_back("--image-rows has no effect: this model's views have one size.");
  if (options.limits.gpu_memory != OCELLUS_GPU_MEMORY_AUTO && !runs_on_gpu(options))
    notes->push_back("--gpu-memory has no effect: this runs on the CPU.");
  if (options.limits.cpu_math != OCELLUS_CPU_MATH_F16 && runs_on_gpu(options))
    notes->push_back("--cpu-math has no effect: this runs on a GPU.");
}

}  // namespace

ocellus_limits make_limits(const Model& model, const CommonOptions& options, const Needs& needs) {
  check_needs(model, options, needs);
  ocellus_limits limits = options.limits;
  limits.max_sessions = options.sessions.value_or(1);
  limits.max_images = options.images.value_or(static_cast<int32_t>(needs.images));
  limits.max_clip_frames = needs.clip_frames;
  limits.max_text_tokens =
      options.text_tokens.value_or(static_cast<int32_t>(planned_text_tokens(model.facts, options, needs)));
  const PictureSize& largest = needs.largest;
  limits.max_image_pixels =
      options.pictures.pixels.value_or(largest.pixels > 0 ? largest.pixels : limits.max_image_pixels);
  if (needs.are_frames) limits.max_gpu_pixels = limits.max_image_pixels;
  limits.max_image_side = options.pictures.side.value_or(largest.side > kUsualSide ? largest.side : 0);
  // 0 would be the library's default.
  limits.max_whole_pixels =
      options.pictures.whole_pixels.value_or(largest.whole_pixels ? std::max<int64_t>(*largest.whole_pixels, 1) : 0);
  // 0 means no budget to the library, but no bytes to a user.
  limits.budget_bytes = options.budget_bytes ? std::max<int64_t>(*options.budget_bytes, 1) : 0;
  if (model.facts.any_image_size == 0) limits.max_image_rows = 0;
  limits.planned_image_rows = planned_image_rows(model, options, needs, limits);
  std::vector<std::string> notes;
  set_eviction(options.evict, &limits, &notes);
  set_packing(options.pack, model.path, &limits, &notes);
  set_library(options.library, &limits);
  set_reuse(options.reuse, &limits);
  set_reduction(options.reduce, &limits, &notes);
  set_depth(options.pictures.depth, largest, &limits, &notes);
  note_unused(model, options, &notes);
  for (const std::string& note : notes) {
    if (!options.quiet) print_note(note);
  }
  if (options.top_logprobs) limits.max_top_logprobs = std::max(*options.top_logprobs, 1);
  set_constraints(options.constrain, &limits);
  set_drafts(model, options, &limits);
  set_kept_views(model, options.reuse, &limits);
  return limits;
}

std::string describe_shortfall(const ocellus_plan& plan, const CommonOptions& options) {
  const int64_t budget = options.budget_bytes.value_or(0);
  std::string text = "the plan needs " + format_bytes(plan.total_bytes) + ", " +
                     std::to_string(plan.total_bytes - budget) + " more than the budget of " + format_bytes(budget);
  if (plan.advice_count == 0) return text;
  const std::string first = name_flags(plan.advice[0].text);
  if (plan.advice[0].total_bytes == 0) return text + "; " + first;
  // Users who pass pictures are not helped by the last advice, to plan no images.
  const bool is_useful = first.find("no images") == std::string::npos;
  return text + "; this would fit: " + (is_useful ? first + ", or " : "") + "--budget " +
         std::to_string(plan.total_bytes);
}

ocellus_plan plan_memory(const Model& model, const ocellus_limits& limits, const CommonOptions& options) {
  ocellus_plan plan = take(Plan::make(model, limits));
  if (options.budget_bytes) plan.budget_bytes = *options.budget_bytes;
  return plan;
}

bool fits_budget(const Model& model, const ocellus_limits& limits) {
  const Result<Plan> plan = Plan::make(model, limits);
  return plan && plan->fits;
}

ocellus_engine_stats Running::engine_stats() const { return take(engine.stats()); }

namespace {

// A bound of thoughts also tells a model to think whose chat template has words for that.
Session open_session(const Running& running, const CommonOptions& options) {
  Session session = take(Session::open(running.engine));
  if (running.library) check(session.set_library(running.library, options.library.owner.c_str()));
  check(session.let_think(options.params.max_thought_tokens > 0));
  return session;
}

}  // namespace

Sessions open_more_sessions(const Running& running, const CommonOptions& options, int32_t count) {
  Sessions sessions(static_cast<size_t>(count));
  for (Session& session : sessions) session = open_session(running, options);
  return sessions;
}

std::vector<ocellus_session*> handles_of(const std::vector<Session*>& sessions) {
  std::vector<ocellus_session*> handles;
  for (const Session* session : sessions) handles.push_back(session->get());
  return handles;
}

Needs with_photos(const Model& model, const CommonOptions& options, Needs needs) {
  needs.largest = {.pixels = kPhotoPixels, .side = kPhotoSide, .whole_pixels = kPhotoWholePixels};
  CommonOptions quiet = options;
  quiet.quiet = true;
  if (!plan_memory(model, make_limits(model, quiet, needs), quiet).fits) needs.largest.whole_pixels.reset();
  return needs;
}

std::string describe_pictures(const ocellus_limits& limits) {
  const auto megapixels = [](double pixels) { return format_number(std::floor(pixels / 1e5) / 10, 1); };
  const auto whole = static_cast<double>(limits.max_whole_pixels > 0 ? limits.max_whole_pixels : kScreenPixels);
  return "pictures of up to " + megapixels(static_cast<double>(limits.max_image_pixels)) +
         " megapixels are read by rows; progressive JPEGs and lossy WebPs, which are decoded as a whole, of up to " +
         megapixels(whole * 4 / 3) + ", lossless WebPs of up to " + megapixels(whole * 4 / 9) + " (--whole-pixels)";
}

Running start(const Model& model, const CommonOptions& options, const Needs& needs) {
  check_context(model.facts, needs);
  const std::string& library_path = options.library.path;
  const bool is_new_library = !library_path.empty() && !holds_library(library_path);
  choose_cpus(options.real_time);
  const ocellus_limits limits = make_limits(model, options, needs);
  Running running;
  running.limits = limits;
  running.plan = plan_memory(model, limits, options);
  if (!running.plan.fits) throw Failure(kExitOverBudget, describe_shortfall(running.plan, options) + ".");
  const int32_t positions = model.facts.context_length;
  if (!options.quiet && positions > 0 && options.text_tokens.value_or(0) > positions) {
    print_note("Note: --text-tokens plans " + std::to_string(*options.text_tokens) + ", but the model has " +
               std::to_string(positions) + " positions: the rest stays unused.");
  }

  Progress progress(options.quiet, "loading " + std::string(model.facts.name));
  auto tell = [&progress](int64_t done_bytes, int64_t total_bytes) {
    progress.set(done_bytes, total_bytes);
    return true;
  };
  ocellus_engine_config config = engine_config();
  config.limits = limits;
  if (!options.quiet) config.log = print_warning;
  set_progress(config, tell);
  set_real_time(options.real_time, &config);
  if (options.trace != nullptr) {
    options.trace->open();
    config.trace = TraceFile::receive;
    config.trace_user = options.trace.get();
  }
  running.engine = take(Engine::create(model, config));
  running.constraint = compile_constraint(running.engine, options.constrain, options.quiet);
  raise_priority(options.real_time);
  if (limits.library != 0) running.library = open_library(library_path);
  running.session = open_session(running, options);
  if (limits.library != 0 && is_new_library && options.library.notes_new && !options.quiet)
    print_note("ocellus: " + library_path + " is a new library.");
  return running;
}

}  // namespace ocellus::app
