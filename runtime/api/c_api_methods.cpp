// The C API of the cache methods.
#include "runtime/engine/branch.h"
#include "runtime/policy/cache_policy.h"
#include "runtime/policy/packing_scheme.h"

namespace {

using ocellus::Code;
using ocellus::Status;

/// The methods of a branch; null if none has such ones.
const ocellus::MethodTable* table_of(int32_t kind) {
  for (const ocellus::Branch* branch : ocellus::all_branches())
    if (branch->methods != nullptr && branch->methods->kind == kind) return branch->methods;
  return nullptr;
}

Status check_method(int32_t kind, const char* text) {
  if (text == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "ocellus_method_check: text is null");
  // Longer texts are refused, as in policies.
  char field[OCELLUS_METHOD_TEXT] = {};
  for (size_t i = 0; i < sizeof field && text[i] != '\0'; ++i) field[i] = text[i];
  ocellus::MethodValues options;
  const ocellus::EvictionRule* rule = nullptr;
  const ocellus::PackingScheme* scheme = nullptr;
  switch (kind) {
    case OCELLUS_METHOD_EVICT: return parse_eviction(field, &rule, &options);
    case OCELLUS_METHOD_KV_SCHEME: return parse_packing(field, &scheme, &options);
  }
  if (const ocellus::MethodTable* const table = table_of(kind)) return table->check(field);
  return OCELLUS_FAIL(Code::kBadArgument, "ocellus_method_check: there is no kind %d of methods", kind);
}

}  // namespace

const ocellus_method* ocellus_method_get(int32_t kind, int32_t index) {
  if (kind == OCELLUS_METHOD_EVICT) {
    const ocellus::EvictionRule* const rule = ocellus::eviction_rule_at(index);
    return rule == nullptr ? nullptr : &rule->method();
  }
  if (const ocellus::MethodTable* const table = table_of(kind))
    return index >= 0 && index < std::ssize(table->methods) ? &table->methods[static_cast<size_t>(index)] : nullptr;
  const ocellus::PackingScheme* const scheme =
      kind == OCELLUS_METHOD_KV_SCHEME ? ocellus::packing_scheme_at(index) : nullptr;
  return scheme == nullptr ? nullptr : &scheme->method;
}

ocellus_status ocellus_method_check(int32_t kind, const char* text) {
  return static_cast<ocellus_status>(check_method(kind, text).code());
}
