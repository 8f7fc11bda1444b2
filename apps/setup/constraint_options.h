// Constraints of answers on the command line: a schema, a grammar or a regular expression.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/ocellus.hpp"

namespace CLI {
class App;
}

namespace ocellus::app {

struct CommonOptions;

// A constraint as it was given, and the engine's, which is there while the engine is.
struct AnswerConstraint {
  int32_t kind = OCELLUS_CONSTRAINT_SCHEMA;
  std::string text;
  std::string place;      // the text's, for sentences: a file, a flag
  std::string note = {};  // printed when it is compiled
  const ocellus_constraint* compiled = nullptr;
};

// Adds --schema, --grammar, --regex and --json-answer.
void add_constraint_options(CLI::App* command, CommonOptions* options);
// Adds --schema-size alone.
void add_constraint_size_option(CLI::App* command, CommonOptions* options);

bool answers_in_json(const CommonOptions& options);

// Compiles the constraint of the options for an engine that was planned for it; empty if there is none. Throws a
// Failure that names its place.
Constraint compile_constraint(const Engine& engine, const CommonOptions& options);

}  // namespace ocellus::app
