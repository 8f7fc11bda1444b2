// Builds without the branch: all rows of pictures are read.
#include "runtime/branches/all.h"
#include "runtime/branches/reduce/reduction_methods.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  const ocellus_method* method = nullptr;
  MethodValues options;
  OCELLUS_TRY(parse_method(kReductionTable, limits.reduce, &method, &options));
  if (method == nullptr && limits.reduce_keep == 1 && limits.reduce_ms == 0) return {};
  return left_out(kReduceBranch, "reduction of pictures (reduce)");
}

}  // namespace

const Branch kReduceBranch = {.facts = {.name = "reduce", .is_built = 0}, .methods = &kReductionTable, .check = check};

}  // namespace ocellus
