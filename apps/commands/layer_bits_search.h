// Which layers need many bits and which do with few: what ocellus calibrate --layer-bits looks for.
#pragma once

#include "apps/commands/score_questions.h"
#include "apps/setup/options.h"

namespace ocellus::app {

// Starts with 4 bits in all layers and halves one layer's after the other, each time that which costs the expected
// answers the least probability for the bits it saves, until the layers have `average` bits or fewer. A layer's cost
// is measured anew only while it looks like the least: costs change little when another layer is lowered. Prints the
// list for --kv-layer-bits. Returns the program's exit code.
int search_layer_bits(const CommonOptions& options, const QuestionOptions& questions, double average);

}  // namespace ocellus::app
