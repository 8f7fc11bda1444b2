// Search for the bits of every layer: ocellus calibrate --layer-bits.
#pragma once

#include "apps/commands/score_questions.h"
#include "apps/setup/options.h"

namespace ocellus::app {

struct LayerBitsGoal {
  double average = 0;  // bits of a visual number
  bool apart = false;  // keys and values of a layer may differ (after KVTuner, Li et al. 2025)
};

// Starts with 4 bits in all layers and repeatedly halves the bits of one layer (or of its keys or values), the one that
// costs the expected answers the least probability per bit saved, until the average is reached. A cost is measured
// again only while it appears to be the smallest: costs change little when another layer is lowered. Prints the list
// for
// --kv-layer-bits. Returns the program's exit code.
int search_layer_bits(const CommonOptions& options, const QuestionOptions& questions, const LayerBitsGoal& goal);

}  // namespace ocellus::app
