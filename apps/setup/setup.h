// From flags to a model, a plan that fits and one open session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

struct Model : ocellus::Model {
  ocellus_model_facts facts;
  std::string path;  // text model; empty for shapes
};

// Maximum tokens of a thought; 0: none.
int32_t most_thought_tokens(const ocellus_model_facts& facts, const CommonOptions& options);
// Plans a conversation's text, unless --text-tokens did: `tokens` and `thoughts` thoughts, no more than the model has
// positions.
void choose_text_tokens(const ocellus_model_facts& facts, int32_t tokens, int32_t thoughts, CommonOptions* options);

// True if an engine with these options runs on a GPU.
bool runs_on_gpu(const CommonOptions& options);

// Opens the shape of a public model, with random weights. `layers` 0: all of its layers.
Model open_shape(const std::string& name, const std::string& format, int32_t layers);

// Opens the given pair or shape, or the bundled pair.
Model open_model(const CommonOptions& options);

// Frames and screens: the default of plans.
inline constexpr int64_t kScreenPixels = int64_t{1920} * 1080;
// The library's default of the longest side.
inline constexpr int32_t kUsualSide = 8192;
// Largest pictures planned for where photos may follow, up to 200 megapixels: scratch grows with the longest side only.
inline constexpr int32_t kPhotoSide = 16384;
inline constexpr int64_t kPhotoPixels = int64_t{kPhotoSide} * 12288;

// Photos that must be decoded as a whole: a progressive JPEG or lossy WebP of 12 megapixels.
inline constexpr int64_t kPhotoWholePixels = int64_t{4096} * 2304;

// Limits that a command needs of one session. Flags that name a limit override it.
struct Needs {
  int64_t images = 1;
  int32_t clip_frames = 0;
  int64_t prompt_tokens = 0;  // text and chat template
  int64_t answer_tokens = 0;  // shortened to what the model's context leaves
  PictureSize largest = {};   // maximum over the pictures; where unknown, the library's own limits
  bool are_frames = false;    // camera frames: worth memory on the GPU whatever their size
};

// Number of pictures that the frames of a clip are.
int64_t clip_pictures(const Model& model, int64_t frames);

// Throws a Failure if the model's context is too short for the pictures and the prompt.
void check_context(const ocellus_model_facts& facts, const Needs& needs);

ocellus_limits make_limits(const Model& model, const CommonOptions& options, const Needs& needs);

// Compares the plan's total with the budget, as one sentence without its end: "... needs 41234567 bytes (39.3 MiB),
// ...".
std::string describe_shortfall(const ocellus_plan& plan, const CommonOptions& options);

ocellus_plan plan_memory(const Model& model, const ocellus_limits& limits, const CommonOptions& options);

// True if there is a plan, and it fits the budget of the limits.
bool fits_budget(const Model& model, const ocellus_limits& limits);

// An engine with one session; members are destroyed in reverse order.
struct Running {
  ocellus_limits limits;
  ocellus_plan plan;
  Library library;
  Engine engine;
  Constraint constraint;
  Session session;
  ocellus_engine_stats engine_stats() const;
};

// Opens as many more of its sessions, which use its library, if it has one.
using Sessions = std::vector<Session>;
Sessions open_more_sessions(const Running& running, const CommonOptions& options, int32_t count);
// The handles that batch_generate() takes.
std::vector<ocellus_session*> handles_of(const std::vector<Session*>& sessions);

// Refuses a plan over the budget before anything is allocated. The model must outlive the result.
Running start(const Model& model, const CommonOptions& options, const Needs& needs);

// Needs for photos of whatever size: kPhotoPixels by rows and, where the budget has room, kPhotoWholePixels as a whole.
Needs with_photos(const Model& model, const CommonOptions& options, Needs needs);
// "pictures of up to 201 megapixels are read by rows; ...", as far as these limits reach.
std::string describe_pictures(const ocellus_limits& limits);

}  // namespace ocellus::app
