// Builds without the branch: no slot is dropped.
#include "runtime/branches/all.h"
#include "runtime/branches/evict/eviction_methods.h"

namespace ocellus {
namespace {

constexpr MethodTable kMethods = eviction_table(nullptr);

Status check(const ocellus_limits& limits) {
  const ocellus_method* method = nullptr;
  MethodValues options;
  OCELLUS_TRY(parse_method(kMethods, limits.cache.evict, &method, &options));
  return method == nullptr ? Status() : left_out(kEvictBranch, "eviction (evict)");
}

}  // namespace

const Branch kEvictBranch = {.facts = {.name = "evict", .is_built = 0}, .methods = &kMethods, .check = check};

}  // namespace ocellus
