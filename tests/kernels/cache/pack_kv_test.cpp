#include "kernels/cache/pack_kv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "quant/weight_format.h"
#include "tests/support/device.h"
#include "tests/support/packed_codes.h"
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
  KvScaleForm scales = KvScaleForm::kF16;
  bool global_values = false;
  int32_t bits_of_values = 0;  // 0: bits

  KvFormat format() const { return kv_format_of(bits, bits_of_values == 0 ? bits : bits_of_values); }
  int32_t bits_of(bool is_values) const { return is_values ? value_bits(format()) : bits; }
  /// Offset before the layer in a block: the same layer once more, in f16 scales and 8 bits.
  KvLayer layer() const {
    int64_t offset = 0;
    for (const Block& block : blocks)
      offset = std::max(offset, heads * KvBlockLayout::of(KvFormat::k8Bit, dim, block.capacity).padded_bytes);
    return {kLayer, format(), scales, offset};
  }
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
             .layer = shape_.layer(),
             .key_range = shape_.key_range,
             .value_range = shape_.value_range,
             .global_values = shape_.global_values},
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
      const KvBlockLayout layout = KvBlockLayout::of(shape_.format(), shape_.dim, block.capacity, shape_.scales);
      const int64_t offset = shape_.layer().offset;
      const int64_t rows_before = (offset + layout.padded_bytes - 1) / layout.padded_bytes;
      memory_.emplace_back(rows_before + shape_.heads, layout.bytes, layout.padded_bytes);
      rows_before_.push_back(rows_before);
      PackJob job;
      job.out.data = memory_.back().data() + rows_before * layout.padded_bytes - offset;
      job.out.slots = block.slots;
      job.out.capacity = block.capacity;
      job.out.packed = true;
      job.out.counted_before = before;
      job.out.counts = counts_.empty() ? nullptr : counts_.data();
      job.first_index = before + 2;
      job.range_first = block.range_first;
      job.range_count = block.range_count;
      jobs_.push_back(job);
      before += block.slots;
    }
  }

  /// The least and the greatest source of a side's channels from `channel` on.
  std::pair<float, float> range_of(const PackJob& job, int32_t head, int32_t live, bool is_values, int64_t channel,
                                   int64_t channels) const {
    const int64_t first = job.range_count > 0 ? job.range_first - job.first_index : 0;
    int64_t end = first + (job.range_count > 0 ? job.range_count : live);
    if (!shape_.counts.empty() && job.range_count > 0)  // only rows of this head
      end = std::min<int64_t>(end, shape_.counts[static_cast<size_t>(head)] - job.out.counted_before);
    float least = INFINITY, greatest = -INFINITY;
    for (int64_t e = channel; e < channel + channels; ++e) {
      for (int64_t i = first; i < end; ++i) {
        const float value = source(job, head, i, e, is_values);
        least = std::min(least, value);
        greatest = std::max(greatest, value);
      }
    }
    return {least, greatest};
  }

  void check_side(const PackJob& job, int32_t head, int32_t live, bool is_values) const {
    const test::RealBlock block(job.out, shape_.layer(), head, shape_.dim);
    const uint8_t* codes = block.codes(is_values);
    const bool is_small = shape_.scales == KvScaleForm::k6Bit;
    if (is_values && shape_.scales == KvScaleForm::kByToken) return check_values_by_token(job, head, live);
    const double range = static_cast<double>(is_values ? shape_.value_range : shape_.key_range);
    const int32_t bits = shape_.bits_of(is_values);
    const float most = static_cast<float>((1 << bits) - 1);
    const bool is_global = is_values && shape_.global_values;
    std::pair<float, float> ends;
    if (is_global) ends = range_of(job, head, live, is_values, 0, shape_.dim);
    for (int64_t e = 0; e < shape_.dim; ++e) {
      CAPTURE(e);
      const auto offset = static_cast<float>(block.scale(is_values ? 2 : 0, e));
      const auto step = static_cast<float>(block.scale(is_values ? 3 : 1, e));
      if (live == 0) {
        REQUIRE(offset == 0.0f);
        REQUIRE(step == 1.0f);
        continue;
      }
      if (!is_global) ends = range_of(job, head, live, is_values, e, 1);
      const double low = range * static_cast<double>(ends.first), high = range * static_cast<double>(ends.second);
      const double exact = std::max((high - low) / static_cast<double>(most), 1e-6 * std::max(1.0, std::abs(low)));
      if (is_small) {
        REQUIRE(static_cast<double>(offset) <= low + 1e-7 * std::abs(low));  // the end of the range, rounded to f32
        REQUIRE(static_cast<double>(offset) + static_cast<double>(step * most) >= high - 1e-6 * std::abs(high - low));
      } else {
        REQUIRE(std::abs(static_cast<double>(offset) - low) <= 1.001 * test::half_rounding(low));
        REQUIRE(std::abs(static_cast<double>(step) - exact) <= 1.001 * test::half_rounding(exact));
      }
      for (int64_t i = 0; i < live; ++i) {
        const float quotient = std::nearbyint((source(job, head, i, e, is_values) - offset) / step);
        const int32_t code = test::kv_code_at(codes + i * shape_.dim * bits / 8, bits, e);
        REQUIRE(static_cast<float>(code) == std::fmin(std::fmax(quotient, 0.0f), most));
        if (e == 3 && range == 1.0 && job.range_count == 0 && !is_small && !is_global)
          REQUIRE(offset + step * static_cast<float>(code) == source(job, head, i, e, is_values));
      }
    }
  }

  /// Every slot has scales by groups of channels, from its own values.
  void check_values_by_token(const PackJob& job, int32_t head, int32_t live) const {
    const test::RealBlock block(job.out, shape_.layer(), head, shape_.dim);
    const int32_t bits = shape_.bits_of(true);
    const double most = (1 << bits) - 1, range = static_cast<double>(shape_.value_range);
    for (int64_t i = 0; i < live; ++i) {
      const uint8_t* codes = block.codes(true) + i * shape_.dim * bits / 8;
      for (int64_t first = 0; first < shape_.dim; first += 32) {
        CAPTURE(first);
        double low = INFINITY, high = -INFINITY;
        for (int64_t e = first; e < first + 32; ++e) {
          low = std::min(low, range * static_cast<double>(source(job, head, i, e, true)));
          high = std::max(high, range * static_cast<double>(source(job, head, i, e, true)));
        }
        const double step = std::max((high - low) / most, 1e-6 * std::max(1.0, std::abs(low)));
        REQUIRE(std::abs(block.scale(kValueOffsets, first, i) - low) <= 1.001 * test::half_rounding(low));
        REQUIRE(std::abs(block.scale(kValueSteps, first, i) - step) <= 1.001 * test::half_rounding(step));
        for (int64_t e = first; e < first + 32; ++e) {
          const float above = source(job, head, i, e, true) - static_cast<float>(block.scale(kValueOffsets, e, i));
          const float quotient = std::nearbyint(above / static_cast<float>(block.scale(kValueSteps, e, i)));
          const auto code = static_cast<double>(test::kv_code_at(codes, bits, e));
          REQUIRE(code == std::fmin(std::fmax(static_cast<double>(quotient), 0.0), most));
        }
      }
    }
  }

  /// Checks that the other layer, and codes after the last slot, are untouched.
  void check_untouched(size_t j) const {
    const PackJob& job = jobs_[j];
    int64_t expected = 0;
    const KvBlockLayout layout = KvBlockLayout::of(shape_.format(), shape_.dim, job.out.capacity, shape_.scales);
    expected += rows_before_[j] * layout.bytes;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const int32_t live = live_slots(job.out, kLayer, shape_.heads, head);
      const int64_t keys_end = layout.keys + live * shape_.dim * shape_.bits / 8;
      const int64_t values_end = layout.values + live * shape_.dim * shape_.bits_of(true) / 8;
      expected += layout.values - keys_end + layout.bytes - values_end;
      const Guarded<std::byte>& memory = memory_[j];
      for (int64_t i = keys_end; i < layout.bytes; ++i)
        if (i < layout.values || i >= values_end) REQUIRE(memory.at(rows_before_[j] + head, i) == std::byte{0xA7});
      if (shape_.scales != KvScaleForm::kByToken) continue;
      const int64_t scales = KvBlockLayout::token_scales_at(shape_.dim), each = shape_.dim / 32 * 4;
      for (int64_t i = scales + live * each; i < layout.keys; ++i)
        REQUIRE(memory.at(rows_before_[j] + head, i) == std::byte{0xA7});
      expected += layout.keys - scales - live * each;
    }
    CHECK(memory_[j].untouched_count() >= expected);
  }

  Shape shape_;
  Random random_;
  test::Vector<Half> keys_, values_;
  test::Vector<int32_t> list_, counts_;
  int64_t list_stride_ = 0;
  std::vector<Guarded<std::byte>> memory_;
  std::vector<int64_t> rows_before_;  // rows in memory before the layer's
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
    shapes.push_back({1, 512, bits, {{200, 256}}, false, {}, 0.75f, 1.0f});
    if (on_cuda) continue;
    shapes.push_back({2, 8, bits, {{5, 7}}});
    shapes.push_back({2, 72, bits, {{31, 32}, {3, 3}}, true});
    shapes.push_back({1, 80, bits, {{300, 300}}});
  }
  for (const auto& [keys, values] : {std::pair{8, 2}, {4, 2}, {2, 1}, {1, 4}}) {
    shapes.push_back({3, 32, keys, {{50, 61}, {1, 9}}, false, {}, 0.5f, 0.75f});
    shapes.back().bits_of_values = values;
  }
  for (size_t i = 0, count = shapes.size(); i < count; ++i) {
    shapes.push_back(shapes[i]);
    shapes.back().global_values = true;
    shapes.push_back(shapes[i]);
    shapes.back().scales = KvScaleForm::k6Bit;
    if (shapes[i].dim % kValueGroup != 0) continue;
    shapes.push_back(shapes[i]);
    shapes.back().scales = KvScaleForm::kByToken;
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
    for (int i = 0; i < 12; ++i) {
      const int32_t bits = 1 << i % 4;
      Shape shape{2, 64, bits, {{100, 100}}};
      shape.scales = static_cast<KvScaleForm>(i / 4);
      Case instance(shape, 3);
      instance.pack(queue);
      const PackJob& job = instance.jobs_[0];
      for (int32_t head = 0; head < 2; ++head) {
        for (int32_t slot_index = 0; slot_index < 100; ++slot_index) {
          const test::RealSlot slot = test::read_slot(job.out, shape.layer(), head, slot_index, 64);
          const test::RealBlock packed(job.out, shape.layer(), head, 64);
          for (int64_t e = 0; e < 64; ++e) {
            const double step = packed.scale(kKeySteps, e);
            const double x = static_cast<double>(instance.source(job, head, slot_index, e, false));
            // Rounding the step moves the upper end by 2^-11 of the range.
            const double slack = step * ((1 << bits) - 1) * 5e-4 + 1e-6;
            REQUIRE(std::abs(slot.key[static_cast<size_t>(e)] - x) <= 0.5001 * step + slack);
            const double value_step = packed.scale(kValueSteps, e, slot_index);
            const double value = static_cast<double>(instance.source(job, head, slot_index, e, true));
            const double value_slack = value_step * ((1 << bits) - 1) * 5e-4 + 1e-6;
            REQUIRE(std::abs(slot.value[static_cast<size_t>(e)] - value) <= 0.5001 * value_step + value_slack);
          }
        }
      }
    }
  });
}

TEST_CASE("a channel with a value that is not finite becomes NaN, and with small scales all do") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (int i = 0; i < 6; ++i) {
      const float bad = i % 3 == 0 ? std::nanf("") : i % 3 == 1 ? INFINITY : -INFINITY;
      const bool is_small = i >= 3;
      Shape shape{2, 32, 4, {{40, 40}}};
      if (is_small) shape.scales = KvScaleForm::k6Bit;
      Case instance(shape, 9);
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
        const test::RealSlot slot = test::read_slot(job.out, shape.layer(), head, 17, 32);
        for (int64_t e = 0; e < 32; ++e) {
          CHECK(std::isnan(slot.key[static_cast<size_t>(e)]) == (head == 0 && (is_small || e == 11)));
          CHECK(std::isnan(slot.value[static_cast<size_t>(e)]) == (head == 1 && (is_small || e == 30)));
        }
      }
    }
  });
}

TEST_CASE("with one range for all channels of values, one that is not finite makes all of the head's NaN") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      Shape shape{2, 64, 2, {{40, 40}}};
      shape.global_values = true;
      Case instance(shape, 9);
      const KvLayerRows& rows = instance.rows_;
      for (int64_t row = 0; row < rows.capacity; row += 3) rows.values[rows.at(row, 1) + 40] = float_to_half(bad);
      instance.pack(queue);
      for (int32_t head = 0; head < 2; ++head) {
        const test::RealSlot slot = test::read_slot(instance.jobs_[0].out, shape.layer(), head, 17, 64);
        for (size_t e = 0; e < 64; ++e) {
          CHECK(std::isnan(slot.value[e]) == (head == 1));
          CHECK_FALSE(std::isnan(slot.key[e]));
        }
      }
    }
  });
}

TEST_CASE("by token, a group with a value that is not finite becomes NaN, and no other") {
  test::for_each_backend_and_target([](Queue& queue) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      Shape shape{2, 96, 4, {{40, 40}}};
      shape.scales = KvScaleForm::kByToken;
      Case instance(shape, 9);
      const PackJob& job = instance.jobs_[0];
      const KvLayerRows& rows = instance.rows_;
      for (int64_t row = 0; row < rows.capacity; row += 2) rows.values[rows.at(row, 1) + 40] = float_to_half(bad);
      instance.pack(queue);
      for (int64_t i = 0; i < 40; ++i) {
        const bool hit = !std::isfinite(instance.source(job, 1, i, 40, true));
        const test::RealSlot slot = test::read_slot(job.out, shape.layer(), 1, i, 96);
        for (int64_t e = 0; e < 96; ++e)
          REQUIRE(std::isnan(slot.value[static_cast<size_t>(e)]) == (hit && e / 32 == 1));
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
    const KvBlockLayout layout = KvBlockLayout::of(shape.format(), shape.dim, run.capacity);
    const int64_t offset = shape.layer().offset, bytes = shape.heads * layout.padded_bytes;
    CHECK(std::memcmp(run.data + offset, second.jobs_[j].out.data + offset, static_cast<size_t>(bytes)) == 0);
  }
}

}  // namespace
}  // namespace ocellus
