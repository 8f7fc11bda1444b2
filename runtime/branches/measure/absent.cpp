// Builds without the branch: nothing is scored, embedded or made up.
#include "runtime/api/handles.h"
#include "runtime/branches/all.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  return limits.synthetic_tokens == 0 ? Status() : left_out(kMeasureBranch, "synthetic images (synthetic_tokens)");
}

ocellus_status refuse(const char* what) { return result(left_out(kMeasureBranch, what)); }

}  // namespace

const Branch kMeasureBranch = {.facts = {.name = "measure", .is_built = 0}, .check = check};

}  // namespace ocellus

using ocellus::refuse;

ocellus_status ocellus_session_add_synthetic_image(ocellus_session*) { return refuse("synthetic images"); }

ocellus_status ocellus_session_get_ncar(ocellus_session*, float*, int32_t, int32_t*, int32_t*) {
  return refuse("NCAR of prompts");
}

ocellus_status ocellus_session_embed(ocellus_session*, float*, int32_t, int32_t*) { return refuse("embeddings"); }

ocellus_status ocellus_session_embed_image(ocellus_session*, const void*, int64_t, float*, int32_t, int32_t*) {
  return refuse("embeddings");
}

ocellus_status ocellus_session_score(ocellus_session*, const int32_t*, int32_t, float*, ocellus_generate_stats*) {
  return refuse("scores of answers");
}

ocellus_status ocellus_session_score_choices(ocellus_session*, ocellus_choice*, int32_t) {
  return refuse("scores of choices");
}
