// The bundled model as a thinking one: two tokens that it does not need are <think> and </think>, and its chat template
// opens a thought or not.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/bundled_model.h"

namespace ocellus::test {

TemporaryFile thinking_file(const std::string& prompt_end);

/// A model whose template opens a thought.
const Model& thinking_model();

/// A model that may open one itself.
const Model& willing_model();

}  // namespace ocellus::test
