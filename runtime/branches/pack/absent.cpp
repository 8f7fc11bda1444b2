// Builds without the branch: text is not packed.
#include "runtime/branches/all.h"
#include "runtime/policy/packing_scheme.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  const ocellus_method* scheme = nullptr;
  MethodValues options;
  OCELLUS_TRY(parse_method(packing_methods(), limits.cache.kv_scheme, &scheme, &options));
  return scheme->name != kKiviMethod.name ? Status() : left_out(kPackBranch, "packed text (kv_scheme kivi)");
}

}  // namespace

const Branch kPackBranch = {.facts = {.name = "pack", .is_built = 0}, .check = check};

void apply_kivi(const MethodValues&, CachePolicy*) {}

}  // namespace ocellus
