// Flags of llama.cpp's programs, which many know: those of the same meaning are taken, the others explained.
#pragma once

#include <string>

#include "apps/base/usage_error.h"

namespace ocellus::app {

// Returns the arguments of a command (the first is its name) with our own flags in the place of llama.cpp's. Throws a
// Failure that says what to write instead of a flag whose meaning is another. Commands that measure stay as they are:
// their short flags are their own.
Arguments translate_neighbour_flags(Arguments arguments);

}  // namespace ocellus::app
