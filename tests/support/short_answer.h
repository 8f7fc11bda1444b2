// The shortest conversation that uses every part of a pair: some text, one picture, an answer of two tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/session/session.h"

namespace ocellus::test {

inline Status hear_short_answer(Session& session, const std::vector<uint8_t>& picture) {
  OCELLUS_TRY(session.begin_turn());
  OCELLUS_TRY(session.add_text("What is", false));
  if (!picture.empty()) {
    OCELLUS_TRY(session.add_encoded_image(picture.data(), static_cast<int64_t>(picture.size())));
  }
  OCELLUS_TRY(session.end_turn());
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 2;
  params.ignore_end = 1;
  ocellus_generate_stats stats;
  Session* const one = &session;
  return generate(&one, &params, &stats, 1);
}

/// Every step may fail, none may do harm. The picture is a file, empty: none is shown.
inline Status hear_short_answer(Engine& engine, const std::vector<uint8_t>& picture) {
  int32_t slot = 0;
  OCELLUS_TRY(engine.take_slot(&slot));
  Session session;
  session.open(engine, slot);
  const Status status = hear_short_answer(session, picture);
  session.close();
  return status;
}

}  // namespace ocellus::test
