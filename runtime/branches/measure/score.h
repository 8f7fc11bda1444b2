// Scores: how probable the model takes given answers for.
#pragma once

#include "runtime/session/session.h"

namespace ocellus {

/// Continues as if the model had generated these tokens; see ocellus_session_score.
Status score(Session& session, const ForcedAnswer& answer, ocellus_generate_stats* stats);

/// See ocellus_session_score_choices.
Status score_choices(Session& session, ocellus_choice* choices, int32_t count);

}  // namespace ocellus
