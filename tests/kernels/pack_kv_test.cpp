#include "kernels/pack_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/device.h"
#include "tests/support/packed_reference.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

constexpr int32_t kLayers = 2, kLayer = 1;

struct Block {
  int32_t slots, capacity;
  int32_t range_first = 0, range_count = 0;
};
struct Shape {
  int32_t heads, dim, bits;
  std::vector<Block> blocks;
  bool list_by_head = false;         // rows of the list differ by head
  std::vector<int32_t> counts = {};  // by head: of the blocks' slots together
  float key_range = 1.0f, value_range = 1.0f;
};

/// Rows of one layer, the list of those to pack, and blocks to pack them into.
class Case {
 public:
  Case(const Shape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    int32_t total = 0;
    for (const Block& block : shape.blocks) total += block.slots;
    const int64_t capacity = 2 * total + 7;
    keys_.assign(static_cast<size_t>(shape.heads * capacity * shape.dim), Half{});
    values_.assign(keys_.size(), Half{});
    rows_ = KvLayerRows::head_major(keys_.data(), values_.data(), shape.heads, shape.dim, capacity);
    for (int64_t head = 0; head < shape.heads; ++head) fill(head);
    make_list(total);
    make_jobs();
  }

  void pack(Queue& queue) {
    pack_kv({.rows = rows_,
             .indices = list_.data(),
             .index_stride = list_stride_,
             .jobs = jobs_.data(),
             .job_count = static_cast<int32_t>(jobs_.size()),
             .layer = kLayer,
             .key_range = shape_.key_range,
             .value_range = shape_.value_range},
            queue);
    REQUIRE(queue.finish().ok());
  }

  void check() const {
    int32_t before = 0;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      CHECK(memory_[j].intact());
      for (int32_t head = 0; head < shape_.heads; ++head) {
        const int32_t most = shape_.blocks[j].slots;
        const int32_t live =
            shape_.counts.empty() ? most : std::clamp(shape_.counts[static_cast<size_t>(head)] - before, 0, most);
        CAPTURE(j);
        CAPTURE(head);
        check_side(jobs_[j], head, live, false);
        check_side(jobs_[j], head, live, true);
      }
      before += shape_.blocks[j].slots;
      check_untouched(j);
    }
  }

  KvLayerRows rows_;
  test::Vector<PackJob> jobs_;

  float source(const PackJob& job, int32_t head, int64_t i, int64_t e, bool is_values) const {
    const int64_t row = list_[static_cast<size_t>(head * list_stride_ + job.first_index + i)];
    return half_to_float((is_values ? rows_.values : rows_.keys)[rows_.at(row, head) + e]);
  }

 private:
  /// Channels of different sizes and centres; channel 3 is constant.
  void fill(int64_t head) {
    for (int64_t e = 0; e < shape_.dim; ++e) {
      const float size = std::ldexp(1.0f, static_cast<int>(random_.integer(-6, 6))), centre = random_.normal(2.0f);
      for (int64_t row = 0; row < rows_.capacity; ++row) {
        const auto at = static_cast<size_t>(rows_.at(row, head) + e);
        keys_[at] = float_to_half(e == 3 ? centre : centre + random_.normal(size));
        values_[at] = float_to_half(e == 3 ? -centre : random_.normal(size) - centre);
      }
    }
  }
  void make_list(int32_t total) {
    const int32_t lists = shape_.list_by_head ? shape_.heads : 1;
    list_stride_ = shape_.list_by_head ? total + 3 : 0;
    for (int32_t i = 0; i < lists * (total + 3); ++i)
      list_.push_back(static_cast<int32_t>(random_.integer(0, rows_.capacity - 1)));
  }
  void make_jobs() {
    if (!shape_.counts.empty()) {
      counts_.assign(static_cast<size_t>(kLayers * shape_.heads), 1 << 20);
      std::copy(shape_.counts.begin(), shape_.counts.end(), counts_.begin() + kLayer * shape_.heads);
    }
    int32_t before = 0;
    for (const Block& block : shape_.blocks) {
      const KvFormat format = kv_format_of(shape_.bits);
      const KvBlockLayout layout = KvBlockLayout::of(format, shape_.dim, block.capacity);
      memory_.emplace_back(kLayers * shape_.heads, layout.bytes, layout.padded_bytes);
      PackJob job;
      job.out.data = memory_.back().data();
      job.out.layer_stride = shape_.heads * layout.padded_bytes;
      job.out.head_stride = layout.padded_bytes;
      job.out.value_offset = layout.values - layout.keys;
      job.out.slots = block.slots;
      job.out.capacity = block.capacity;
      job.out.format = format;
      job.out.counted_before = before;
      job.out.counts = counts_.empty() ? nullptr : counts_.data();
      job.first_index = before + 2;
      job.range_first = block.range_first;
      job.range_count = block.range_count;
      jobs_.push_back(job);
      before += block.slots;
    }
  }

  void check_side(const PackJob& job, int32_t head, int32_t live, bool is_values) const {
    const std::byte* block = job.out.data + kLayer * job.out.layer_stride + head * job.out.head_stride;
    const auto* scales = reinterpret_cast<const Half*>(block) + (is_values ? 2 * shape_.dim : 0);
    const auto* codes =
        reinterpret_cast<const uint8_t*>(block + 8 * shape_.dim) + (is_values ? job.out.value_offset : 0);
    const double range = static_cast<double>(is_values ? shape_.value_range : shape_.key_range);
    const float most = static_cast<float>((1 << shape_.bits) - 1);
    for (int64_t e = 0; e < shape_.dim; ++e) {
      CAPTURE(e);
      const float offset = half_to_float(scales[e]), step = half_to_float(scales[shape_.dim + e]);
      if (live == 0) {
        REQUIRE(offset == 0.0f);
        REQUIRE(step == 1.0f);
        continue;
      }
      float least = INFINITY, greatest = -INFINITY;
      const int64_t first = job.range_count > 0 ? job.range_first - job.first_index : 0;
      int64_t end = first + (job.range_count > 0 ? job.range_count : live);
      if (!shape_.counts.empty() && job.range_count > 0)  // the rows of this head, and no others behind them
        end = std::min<int64_t>(end, shape_.counts[static_cast<size_t>(head)] - job.out.counted_before);
      for (int64_t i = first; i < end; ++i) {
        least = std::min(least, source(job, head, i, e, is_values));
        greatest = std::max(greatest, source(job, head, i, e, is_values));
      }
      const double low = range * static_cast<double>(least), high = range * static_cast<double>(greatest);
      const double exact = std::max((high - low) / static_cast<double>(most), 1e-6 * std::max(1.0, std::abs(low)));
      REQUIRE(std::abs(static_cast<double>(offset) - low) <= 1.001 * test::half_rounding(low));
      REQUIRE(std::abs(static_cast<double>(step) - exact) <= 1.001 * test::half_rounding(exact));
      for (int64_t i = 0; i < live; ++i) {
        const float quotient = std::nearbyint((source(job, head, i, e, is_values) - offset) / step);
        const int32_t code = kv_code_at(codes + i * shape_.dim * shape_.bits / 8, shape_.bits, e);
        REQUIRE(static_cast<float>(code) == std::fmin(std::fmax(quotient, 0.0f), most));
        if (e == 3 && range == 1.0 && job.range_count == 0)
          REQUIRE(offset + step * static_cast<float>(code) == source(job, head, i, e, is_values));
      }
    }
  }

  /// The other layer, and codes behind the last slot.
  void check_untouched(size_t j) const {
    const PackJob& job = jobs_[j];
    int64_t expected = 0;
    const int64_t row_bytes = int64_t{shape_.dim} * shape_.bits / 8;
    const KvBlockLayout layout = KvBlockLayout::of(job.out.format, shape_.dim, job.out.capacity);
    expected += shape_.heads * layout.bytes;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const int32_t live = live_slots(job.out, kLayer, shape_.heads, head);
      expected += 2 * (job.out.capacity - live) * row_bytes;
      const Guarded<std::byte>& memory = memory_[j];
      for (int64_t i = layout.keys + live * row_bytes; i < layout.values; ++i) {
        REQUIRE(memory.at(kLayer * shape_.heads + head, i) == std::byte{0xA7});
        REQUIRE(memory.at(kLayer * shape_.heads + head, i + layout.values - layout.keys) == std::byte{0xA7});
      }
    }
    CHECK(memory_[j].untouched_count() >= expected);
  }

  Shape shape_;
  Random random_;
  test::Vector<Half> keys_, values_;
  test::Vector<int32_t> list_, counts_;
  int64_t list_stride_ = 0;
  std::vector<Guarded<std::byte>> memory_;
};

std::vector<Shape> interesting_shapes(bool on_cuda) {
  std::vector<Shape> shapes;
  for (const int32_t bits : {8, 4, 2, 1}) {
    shapes.push_back({1, 32, bits, {{1, 1}}});
    shapes.push_back({3, 64, bits, {{50, 60}, {64, 64}, {1, 9}}});
    shapes.push_back({2, 128, bits, {{33, 40}}, true});
    shapes.push_back({4, 96, bits, {{40, 40}, {30, 33}, {5, 6}}, true, {0, 40, 63, 75}});
    shapes.push_back({2, 64, bits, {{20, 20, 2, 45}, {25, 30, 2, 45}}});  // one range for both
    shapes.push_back({4, 96, bits, {{40, 40, 2, 75}, {30, 33, 2, 75}, {5, 6, 2, 75}}, true, {0, 40, 63, 75}});
    shapes.push_back({2, 64, bits, {{70, 70}, {0, 10}}, false, {}, 0.5f, 0.3f});
    shapes.push_back({1, 256, bits, {{200, 256}}, false, {}, 0.75f, 1.0f});
    if (on_cuda) continue;
    shapes.push_back({2, 8, bits, {{5, 7}}});
    shapes.push_back({2, 72, bits, {{31, 32}, {3, 3}}, true});
    shapes.push_back({1, 80, bits, {{300, 300}}});
  }
  return shapes;
}

TEST_CASE("pack_kv finds every block's ranges and codes and writes nothing else, on every target and backend") {
  test::for_each_backend_and_target([](Queue& queue) {
    uint64_t seed = 0;
    for (const Shape& shape : interesting_shapes(queue.on_cuda())) {
      CAPTURE(shape.heads);
      CAPTURE(shape.dim);
      CAPTURE(shape.bits);
      if (test::skip(++seed, 5)) continue;
      Case instance(shape, seed);
      instance.pack(queue);
      instance.check();
    }
  });
}

TEST_CASE("every value lies within half a step of what it is read back as") {
  test::for_each_backend([](Queue& queue) {
    for (const int32_t bits : {8, 4, 2, 1}) {
      Case instance({2, 64, bits, {{100, 100}}}, 3);
      instance.pack(queue);
      const PackJob& job = instance.jobs_[0];
      for (int32_t head = 0; head < 2; ++head) {
        for (int32_t i = 0; i < 100; ++i) {
          const test::RealSlot slot = test::read_slot(job.out, kLayer, head, i, 64);
          const PackedRows packed = packed_rows(job.out, kLayer, head, 64);
          for (int64_t e = 0; e < 64; ++e) {
            const double step = test::as_double(packed.scales[kKeySteps * 64 + e]);
            const double x = static_cast<double>(instance.source(job, head, i, e, false));
            // Rounding the step moves the upper end by 2^-11 of the range.
            const double slack = step * ((1 << bits) - 1) * 5e-4 + 1e-6;
            REQUIRE(std::abs(slot.key[static_cast<size_t>(e)] - x) <= 0.5001 * step + slack);
          }
        }
      }
    }
  });
}

TEST_CASE("a channel with a value that is not finite becomes NaN, the others stay as they are") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      Case instance({2, 32, 4, {{40, 40}}}, 9);
      const PackJob& job = instance.jobs_[0];
      const float before = instance.source(job, 1, 17, 5, true);
      REQUIRE(std::isfinite(before));
      const KvLayerRows& rows = instance.rows_;
      for (int64_t row = 0; row < rows.capacity; row += 3) {
        rows.keys[rows.at(row, 0) + 11] = float_to_half(bad);
        rows.values[rows.at(row, 1) + 30] = float_to_half(bad);
      }
      instance.pack(queue);
      for (int32_t head = 0; head < 2; ++head) {
        const test::RealSlot slot = test::read_slot(job.out, kLayer, head, 17, 32);
        for (int64_t e = 0; e < 32; ++e) {
          CHECK(std::isnan(slot.key[static_cast<size_t>(e)]) == (head == 0 && e == 11));
          CHECK(std::isnan(slot.value[static_cast<size_t>(e)]) == (head == 1 && e == 30));
        }
      }
    }
  });
}

TEST_CASE("pack_kv gives the same bytes on any number of threads") {
  test::TestQueue one(1), three(3);
  const Shape shape{3, 64, 2, {{50, 60}, {64, 64}, {1, 9}}};
  Case first(shape, 4), second(shape, 4);
  first.pack(*one);
  second.pack(*three);
  first.check();
  for (size_t j = 0; j < first.jobs_.size(); ++j) {
    const KvRun& run = first.jobs_[j].out;
    CHECK(std::memcmp(run.data, second.jobs_[j].out.data, static_cast<size_t>(kLayers * run.layer_stride)) == 0);
  }
}

}  // namespace
}  // namespace ocellus
