// Embeddings: one vector of length 1 for what was added to a session, or for a picture.
#pragma once

#include "runtime/session/session.h"

namespace ocellus {

/// Room for an embedding in the caller's memory, and its number of values.
struct Embedding {
  float* values;
  int32_t capacity;
  int32_t width = 0;
};

/// Reads the prompt; see ocellus_session_embed.
Status embed_prompt(Session& session, Embedding* out);

/// Clears the conversation; see ocellus_session_embed_image. Allocates.
Status embed_picture(Session& session, const Picture& picture, Embedding* out);

}  // namespace ocellus
