#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/base/bounded_json.h"
#include "apps/base/embedded_files.h"
#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/setup/branches.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

// Longer texts are refused by the library; reading stops there.
constexpr std::streamsize kMostBytes = (std::streamsize{1} << 20) + 1;

// The library's bounds.
constexpr int64_t kLeastTableBytes = int64_t{64} << 10, kMostTableBytes = int64_t{1} << 30;

// Returns " (ready schemas: NAME, NAME)".
std::string list_names() {
  std::string names;
  for (const EmbeddedFile& ready : schema_files())
    names += (names.empty() ? " (ready schemas: " : ", ") + std::string(ready.path);
  return names + ")";
}

bool is_inline(const std::string& text, int32_t kind) {
  return kind == OCELLUS_CONSTRAINT_SCHEMA && text.starts_with('{');
}

// Reads a file, else a ready schema of that name.
std::string read_text(const std::string& path, int32_t kind) {
  std::error_code ignored;
  if (kind == OCELLUS_CONSTRAINT_SCHEMA && !std::filesystem::exists(path, ignored)) {
    for (const EmbeddedFile& ready : schema_files()) {
      if (ready.path == path) return std::string(ready.content);
    }
  }
  if (std::filesystem::is_directory(path, ignored)) throw Failure(kExitBadInput, path + " is a folder, not a file.");
  std::ifstream file(path, std::ios::binary);
  const bool may_be_name = kind == OCELLUS_CONSTRAINT_SCHEMA && path.find('/') == std::string::npos;
  if (!file) throw file_failure(path + (may_be_name ? list_names() : ""), "cannot be opened");
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  file.read(text.data(), kMostBytes);
  if (file.bad() || file.gcount() == 0) throw Failure(kExitBadInput, path + ": there is nothing to read.");
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// The schema in an object that OpenAI's requests put around it: response_format, its json_schema, or the text.format of
// the Responses API. nullptr if it is none.
const Json* find_wrapped(const Json& text) {
  constexpr std::string_view kFields[] = {"type", "name", "description", "strict", "schema", "json_schema"};
  if (!text.is_object()) return nullptr;
  for (const auto& [name, value] : text.items()) {
    if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields)) return nullptr;
  }
  const bool has_type = text.contains("type");
  if (has_type && text["type"] != "json_schema") return nullptr;
  if (has_type && text.contains("json_schema")) return find_wrapped(text["json_schema"]);
  if (!text.contains("schema") || !(text["schema"].is_object() || text["schema"].is_boolean())) return nullptr;
  return has_type || text.contains("name") || text.contains("strict") ? &text["schema"] : nullptr;
}

// A schema without what OpenAI's requests put around it.
void unwrap(AnswerConstraint* constraint) {
  const Json text = read_json(constraint->text, kLocalJson);
  const Json* const schema = find_wrapped(text);
  if (schema == nullptr) return;
  constraint->note = constraint->place + ": read the schema inside it, as OpenAI's requests have it in a wrapper.";
  constraint->text = schema->dump();
}

void constrain(ConstrainOptions* options, int32_t kind, const std::string& text, const std::string& place) {
  if (options->given != nullptr)
    throw Failure(kExitUsage,
                  "an answer has one constraint: give one of --schema, --grammar, --regex and --json-answer.");
  options->given = std::make_shared<AnswerConstraint>(AnswerConstraint{.kind = kind, .text = text, .place = place});
  if (kind == OCELLUS_CONSTRAINT_SCHEMA) unwrap(options->given.get());
}

}  // namespace

void add_constraint_flags(CLI::App* command, ConstrainOptions* options) {
  const auto add_file = [&](const char* flag, int32_t kind, const char* form, const char* meaning) {
    add_parsed(
        command, "Answers", flag, form,
        [options, kind, flag](const std::string& given) {
          const bool is_text = is_inline(given, kind);
          constrain(options, kind, is_text ? given : read_text(given, kind), is_text ? flag : given);
        },
        meaning);
  };
  add_file("--schema", OCELLUS_CONSTRAINT_SCHEMA, "FILE|NAME|TEXT",
           "Answers are JSON that satisfies a JSON schema. It is in a file, a ready one (count, objects or yes_no), or "
           "the text itself, {...}");
  add_file("--grammar", OCELLUS_CONSTRAINT_GRAMMAR, "FILE", "Answers follow a GBNF grammar, as in llama.cpp");
  add_parsed(
      command, "Answers", "--regex", "TEXT",
      [options](const std::string& text) { constrain(options, OCELLUS_CONSTRAINT_REGEX, text, "--regex"); },
      "Answers match a regular expression as a whole");
  command
      ->add_flag_callback(
          "--json-answer",
          [options] { constrain(options, OCELLUS_CONSTRAINT_SCHEMA, R"({"type": "object"})", "--json-answer"); },
          "Answers are JSON objects")
      ->group("Answers");
}

void add_constraint_size_flag(CLI::App* command, ConstrainOptions* options) {
  add_parsed(
      command, "Answers", "--schema-size", "SIZE",
      [options](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes || *bytes < kLeastTableBytes || *bytes > kMostTableBytes)
          throw Failure(kExitUsage, "--schema-size " + text + ": write a size between 64K and 1G.");
        options->bytes = *bytes;
      },
      "Memory planned for each compiled schema, grammar or expression (default: 8M)");
}

void set_constraints(const ConstrainOptions& options, ocellus_limits* limits) {
  limits->max_constraints = options.given != nullptr ? 1 : options.planned;
  limits->constraint_bytes = options.bytes;
}

Constraint compile_constraint(const Engine& engine, const ConstrainOptions& options, bool quiet) {
  if (options.given == nullptr) return {};
  AnswerConstraint& wanted = *options.given;
  if (!quiet && !wanted.note.empty()) print_note(std::exchange(wanted.note, ""));
  ocellus_constraint_params params = constraint_params();
  params.kind = wanted.kind;
  params.text = wanted.text.data();
  params.text_bytes = std::ssize(wanted.text);
  Result<Constraint> constraint = Constraint::create(engine, params);
  if (!constraint) {
    const Failure failure = library_failure(constraint.status().code(), wanted.place);
    throw Failure(wanted.place.starts_with("--") ? kExitUsage : kExitBadInput, failure.what());
  }
  wanted.compiled = constraint->get();
  return *std::move(constraint);
}

}  // namespace ocellus::app
