#include "kernels/backends.h"
#include "kernels/base/highway_targets.h"
#include "kernels/choice/row_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/choice/row_products_cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/base/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace {

/// The products of row i with itself and those after it.
void multiply_row(const RowProductsArgs& a, int64_t i) {
  const float* const row = a.rows.row(a.list[i]);
  for (int64_t j = i; j < a.products.rows; ++j)
    a.products.row(i)[j] = a.products.row(j)[i] = dot(row, a.rows.row(a.list[j]), a.rows.cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ocellus {

HWY_EXPORT(multiply_row);

/// A task takes a row from either end, so that all are equally long.
void cpu::row_products(const RowProductsArgs& args, Queue& queue) {
  const int64_t rows = args.products.rows;
  queue.parallel((rows + 1) / 2, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(multiply_row)(args, i);
      if (rows - 1 - i > i) HWY_DYNAMIC_DISPATCH(multiply_row)(args, rows - 1 - i);
    }
  });
}

}  // namespace ocellus
#endif  // HWY_ONCE
