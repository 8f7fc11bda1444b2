// From flags to a model, a plan that fits and one open session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/setup/image_file.h"
#include "apps/setup/options.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

struct ModelCloser {
  void operator()(ocellus_model* model) const { ocellus_model_close(model); }
};
struct EngineDestroyer {
  void operator()(ocellus_engine* engine) const { ocellus_engine_destroy(engine); }
};
struct SessionCloser {
  void operator()(ocellus_session* session) const { ocellus_session_close(session); }
};

struct Model {
  std::unique_ptr<ocellus_model, ModelCloser> handle;
  ocellus_model_facts facts;
  std::string path;  // of the text model; empty for shapes
  ocellus_model* get() const { return handle.get(); }
};

// Whether an engine with these options runs on a GPU.
bool runs_on_gpu(const CommonOptions& options);

// The given pair or shape, or the bundled pair.
Model open_model(const CommonOptions& options);

// Of frames and screens, which is what is planned for where nothing else is said.
inline constexpr int64_t kScreenPixels = int64_t{1920} * 1080;
// What is planned for where photos may come later, of 48 megapixels, too: scratch grows with the longest side alone.
inline constexpr int64_t kPhotoPixels = int64_t{8192} * 6144;

// What a command wants to do with one session. Flags that name a limit override it.
struct Needs {
  int64_t images = 1;
  int64_t prompt_tokens = 0;  // text and chat template
  int64_t answer_tokens = 0;  // shortened to what the model's context leaves
  PictureSize largest = {};   // of the pictures; where it is not known, the library's own limits
  bool are_frames = false;    // of a camera: worth memory on the GPU whatever their size
};

// Throws a Failure if the model's context is too short for the pictures and the prompt.
void check_context(const ocellus_model_facts& facts, const Needs& needs);

ocellus_limits make_limits(const Model& model, const CommonOptions& options, const Needs& needs);

// The plan's total against the budget, as one sentence without its end: "... needs 41234567 bytes (39.3 MiB), ...".
std::string describe_shortfall(const ocellus_plan& plan, const CommonOptions& options);

ocellus_plan plan_memory(const Model& model, const ocellus_limits& limits, const CommonOptions& options);

struct LibraryCloser {
  void operator()(ocellus_library* library) const { ocellus_library_close(library); }
};
using Library = std::unique_ptr<ocellus_library, LibraryCloser>;
Library open_library(const std::string& path);
// Makes none: who only looks at a library has mistaken its name if there is none.
Library open_existing_library(const std::string& path);

// An engine with one session; the members are in the order that destroys them rightly.
struct Running {
  ocellus_limits limits;
  ocellus_plan plan;
  Library library;
  std::unique_ptr<ocellus_engine, EngineDestroyer> engine;
  std::unique_ptr<ocellus_session, SessionCloser> session;
  ocellus_engine_stats engine_stats() const;
};

// Refuses a plan over the budget before anything is allocated. The model must outlive the result.
Running start(const Model& model, const CommonOptions& options, const Needs& needs);

}  // namespace ocellus::app
