// Search for the bits of every layer: ocellus calibrate --layer-bits.
#pragma once

#include "apps/commands/score_questions.h"
#include "apps/setup/options.h"

namespace ocellus::app {

// Starts with 4 bits in all layers and repeatedly halves the bits of one layer, the one that costs the expected answers
// the least probability per bit saved, until the layers have `average` bits or fewer. A layer's cost is measured again
// only while it appears to be the smallest: costs change little when another layer is lowered. Prints the list for
// --kv-layer-bits. Returns the program's exit code.
int search_layer_bits(const CommonOptions& options, const QuestionOptions& questions, double average);

}  // namespace ocellus::app
