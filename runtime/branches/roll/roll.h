// The branch roll: rolling contexts, sessions that go on for hours. The newest images stay, the oldest ones are
// released; text stays within its planned pages, the beginning of the conversation (attention sinks; Xiao et al.,
// StreamingLLM) included. With InfiniPot-V older images are thinned instead, and released only if they are not alike or
// positions run out. If the rows of a prompt compete for slots, what is left of it is released as a whole, with all of
// its images.
//
// Positions grow on. What attention sees is their differences, so nothing that stays has to change, but for the sinks:
// they are moved up to the rows that stayed, by reading them with a query turned back as far. So no difference grows
// beyond what the model was made for.
#pragma once

#include "runtime/session/session.h"

namespace ocellus {

/// See ocellus_session_set_rolling.
Status set_rolling(Session& session, int32_t images, int32_t sink_tokens);

}  // namespace ocellus
