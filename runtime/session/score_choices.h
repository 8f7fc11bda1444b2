// Probabilities of given answers, each of which is read and taken back.
#pragma once

#include "runtime/session/session.h"

namespace ocellus {

/// See ocellus_session_score_choices.
Status score_choices(Session& session, ocellus_choice* choices, int32_t count);

}  // namespace ocellus
