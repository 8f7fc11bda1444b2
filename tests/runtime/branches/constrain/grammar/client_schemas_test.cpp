// Schemas that pydantic 2.14 and zod 4.4 write, those of tools/eval/client_models.py and .mjs, in the memory that a
// constraint has unless another size is given.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "runtime/branches/constrain/grammar/compile_grammar.h"
#include "runtime/branches/constrain/grammar/schema.h"

namespace ocellus::test {
namespace {

/// The sentence of the refusal; empty if it is compiled. `steps`: those it took.
std::string compile(std::string_view schema, std::vector<uint64_t>* room, int64_t* steps) {
  StepMeter meter("compiling the constraint", kMostCompileSteps, nullptr);
  std::byte* const memory = reinterpret_cast<std::byte*>(room->data());
  const int64_t bytes = static_cast<int64_t>(room->size()) * 8, first = bytes / 3 * 2 / 16 * 16;
  Grammar grammar({memory + first, 1, bytes - first}, &meter);
  Expression all = kNoExpression;
  Automaton automaton;
  int64_t used = 0;
  Status status = read_schema(schema, {}, {memory, 1, first}, &grammar, &all);
  if (status.ok())
    status = compile_grammar(grammar, all, ByteSet().add_range(0, 255), {memory, 1, first}, &automaton, &used);
  *steps = meter.taken();
  return status.ok() ? "" : last_failure().sentence;
}

TEST_CASE("schemas that clients write are compiled, but for those that need what is not there") {
  const std::string unique = "write items as an enum or const of up to 256 values that are no arrays or objects";
  const std::string multiple = "write a whole number, up to 256 with all others together, 0.5 or 0.25";
  const std::map<std::string, std::string> refused = {
      {"pydantic/free_tags", "#/properties/tags/uniqueItems: " + unique},
      {"pydantic/neighbours", "#/properties/ids/uniqueItems: " + unique},
      {"pydantic/price", "#/properties/amount/multipleOf: " + multiple},
      {"zod/hostname", "#/properties/host/pattern: the grammar is too large for the memory of a constraint"},
      {"zod/price", "#/properties/amount/multipleOf: " + multiple}};
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/schemas/clients.jsonl");
  std::vector<uint64_t> room(size_t{1} << 20);  // 8 MiB
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const size_t name_end = line.find('"', 9), schema = line.find(R"("schema":)") + 9;
    const std::string name = line.substr(9, name_end - 9);
    const auto expected = refused.find(name);
    int64_t steps = 0;
    const std::string sentence =
        compile(std::string_view(line).substr(schema, line.size() - 1 - schema), &room, &steps);
    CHECK_MESSAGE(sentence == (expected == refused.end() ? "" : expected->second), name, ": ", sentence);
    CHECK_MESSAGE(steps < kMostCompileSteps / 4, name, ": ", steps, " steps");
  }
  CHECK(count == 97);
}

}  // namespace
}  // namespace ocellus::test
