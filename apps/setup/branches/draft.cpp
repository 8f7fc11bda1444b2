#include <CLI/CLI.hpp>

#include "apps/base/number_validator.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

void add_draft_flags(CLI::App* command, DraftOptions* options) {
  const auto set = [options](const std::string& name) {
    options->kind = static_cast<ocellus_draft>(
        number_of("--draft", name, {"auto", "off", "last", "lookup"}, "auto, last, lookup or off"));
  };
  add_parsed(command, "Answers", "--draft", "auto|last|lookup|off", set,
             "Speculative decoding; answers do not change (default: off; watch auto). Drafts are the last answer to "
             "the same prompt (last), what followed the same words before (lookup), or both as far as it pays (auto)");
  add_value(command, "Answers", "--draft-rows", "N", &options->rows,
            "Maximum tokens read at once, the newest and drafted ones (default: 7)")
      ->check(number_between(2, 16));
}

void set_drafts(const Model& model, const CommonOptions& options, ocellus_limits* limits) {
  const DraftOptions& draft = options.draft;
  if (draft.kind) {
    limits->draft_rows = *draft.kind == OCELLUS_DRAFT_OFF ? 0 : draft.rows;
    return;
  }
  // On a GPU drafts cost something even where no guess is right. What a constraint forces is read as a draft is.
  const bool is_useful = (draft.is_tried || options.constrain.given != nullptr) && !runs_on_gpu(options);
  limits->draft_rows = is_useful ? draft.rows : 0;
  if (is_useful && !fits_budget(model, *limits)) limits->draft_rows = 0;
}

}  // namespace ocellus::app
