// The C API of the cache methods.
#include "runtime/policy/cache_policy.h"
#include "runtime/policy/packing_scheme.h"

namespace {

using ocellus::Code;
using ocellus::Status;

/// Null if there is no such kind.
const ocellus::MethodTable* table_of(int32_t kind) {
  return kind == OCELLUS_METHOD_KV_SCHEME ? &ocellus::packing_methods() : ocellus::methods_of(kind);
}

Status check_method(int32_t kind, const char* text) {
  if (text == nullptr) return OCELLUS_FAIL(Code::kBadArgument, "ocellus_method_check: text is null");
  // Longer texts are refused, as in policies.
  char field[OCELLUS_METHOD_TEXT] = {};
  for (size_t i = 0; i < sizeof field && text[i] != '\0'; ++i) field[i] = text[i];
  const ocellus_method* method = nullptr;
  ocellus::MethodValues options;
  if (const ocellus::MethodTable* const table = table_of(kind)) return parse_method(*table, field, &method, &options);
  return OCELLUS_FAIL(Code::kBadArgument, "ocellus_method_check: there is no kind %d of methods", kind);
}

}  // namespace

const ocellus_method* ocellus_method_get(int32_t kind, int32_t index) {
  const ocellus::MethodTable* const table = table_of(kind);
  if (table == nullptr || index < 0 || index >= std::ssize(table->methods)) return nullptr;
  return &table->methods[static_cast<size_t>(index)];
}

ocellus_status ocellus_method_check(int32_t kind, const char* text) {
  return static_cast<ocellus_status>(check_method(kind, text).code());
}
