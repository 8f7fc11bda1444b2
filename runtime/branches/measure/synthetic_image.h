// An image without pixels: cache slots with made-up contents, to measure decoding over many of them.
#pragma once

#include "runtime/session/session.h"

namespace ocellus {

/// See ocellus_session_add_synthetic_image.
Status add_synthetic_image(Session& session);

}  // namespace ocellus
