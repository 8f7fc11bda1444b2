// The C API of what this build knows: models and cache methods.
#include "runtime/models/family.h"
#include "runtime/models/model_shapes.h"
#include "runtime/ocellus.h"
#include "runtime/policy/cache_policy.h"
#include "runtime/policy/packing_scheme.h"

namespace {

using ocellus::Code;
using ocellus::Status;

ocellus_status result(Status status) { return static_cast<ocellus_status>(status.code()); }

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
  return OCELLUS_FAIL(Code::kBadArgument, "ocellus_method_check: there is no kind %d of methods", kind);
}

}  // namespace

ocellus_status ocellus_known_model_get(int32_t index, ocellus_known_model* out) {
  if (out == nullptr) return result(OCELLUS_FAIL(Code::kBadArgument, "ocellus_known_model_get: out is null"));
  const int32_t count = ocellus::model_shape_count();
  if (index < 0 || index >= count)
    return result(OCELLUS_FAIL(Code::kBadArgument, "there is no known model number %d: there are %d", index, count));
  const ocellus::ModelShape& shape = ocellus::model_shape(index);
  const ocellus::Family* const family = ocellus::family_of(shape.vision);
  *out = {.name = shape.name,
          .family = family == nullptr ? "" : family->name,
          .published = shape.published,
          .place_units = family == nullptr ? OCELLUS_PLACES_NONE : static_cast<int32_t>(family->places)};
  return result({});
}

const ocellus_method* ocellus_method_get(int32_t kind, int32_t index) {
  if (kind == OCELLUS_METHOD_EVICT) {
    const ocellus::EvictionRule* const rule = ocellus::eviction_rule_at(index);
    return rule == nullptr ? nullptr : &rule->method();
  }
  const ocellus::PackingScheme* const scheme =
      kind == OCELLUS_METHOD_KV_SCHEME ? ocellus::packing_scheme_at(index) : nullptr;
  return scheme == nullptr ? nullptr : &scheme->method;
}

ocellus_status ocellus_method_check(int32_t kind, const char* text) { return result(check_method(kind, text)); }
