// The C API of measured sessions: what was said is scored, embedded, made up or looked at.
#include <algorithm>

#include "runtime/api/handles.h"
#include "runtime/branches/measure/embed.h"
#include "runtime/branches/measure/score.h"
#include "runtime/branches/measure/synthetic_image.h"
#include "runtime/engine/picture_source.h"

using ocellus::Code;
using ocellus::on_session;
using ocellus::Session;
using ocellus::Status;

ocellus_status ocellus_session_add_synthetic_image(ocellus_session* session) {
  return on_session(session, __func__, [](Session& s) { return add_synthetic_image(s); });
}

ocellus_status ocellus_session_get_ncar(ocellus_session* session, float* theta, int32_t capacity, int32_t* count,
                                        int32_t* switch_layer) {
  OCELLUS_REQUIRE(count);
  OCELLUS_REQUIRE(switch_layer);
  return on_session(session, __func__, [&](Session& s) -> Status {
    if (!s.engine().shape().policy.facts.watches_ncar)
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

ocellus_status ocellus_session_embed(ocellus_session* session, float* values, int32_t capacity, int32_t* width) {
  OCELLUS_REQUIRE(width);
  return on_session(session, __func__, [&](Session& s) {
    ocellus::Embedding out{values, capacity};
    const Status status = embed_prompt(s, &out);
    *width = out.width;
    return status;
  });
}

ocellus_status ocellus_session_embed_image(ocellus_session* session, const void* bytes, int64_t byte_count,
                                           float* values, int32_t capacity, int32_t* width) {
  OCELLUS_REQUIRE(bytes);
  OCELLUS_REQUIRE(width);
  return on_session(session, __func__, [&](Session& s) -> Status {
    ocellus::ImageFacts facts;
    ocellus::Embedding out{values, capacity};
    const auto* const data = static_cast<const uint8_t*>(bytes);
    OCELLUS_TRY(ocellus::probe_image(data, byte_count, s.engine().shape().pictures.limits, &facts));
    const Status status = embed_picture(s, ocellus::encoded_picture(data, byte_count, facts), &out);
    *width = out.width;
    return status;
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

ocellus_status ocellus_session_score_choices(ocellus_session* session, ocellus_choice* choices, int32_t count) {
  OCELLUS_REQUIRE(choices);
  return on_session(session, __func__, [&](Session& s) { return ocellus::score_choices(s, choices, count); });
}
