// The bundled model and its first layers.
#pragma once

#include <memory>
#include <string>

#include "runtime/models/model.h"
#include "tests/support/goldens.h"
#include "tests/support/small_run.h"
#include "tests/support/temporary_file.h"

namespace ocellus::test {

std::unique_ptr<Model> open_pair(const std::string& text, const std::string& vision);

/// Opened once: opening checks every tensor and builds a tokenizer.
const Model& bundled_model();

/// The first two layers of a bundled file, whose key `count` says how many there are.
GgufBuilder first_layers(const std::string& path, const char* count);

/// The model for tests that do not ask what it knows: the first layers of the bundled one.
const Model& any_model();

}  // namespace ocellus::test
