#include "kernels/cache/carry_change.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;

struct Shape {
  int32_t heads, dim, rotated;
  RopePairing pairing;
  std::vector<std::pair<int32_t, int32_t>> images;  // slots, of them in place
  bool copies;
  bool placed = false;  // the chunk's rows stand elsewhere than their numbers say
};

using Row = std::vector<double>;

/// A layer of images that are linked into a chunk, computed from position 1 on, in two of three layers' room.
struct Chunk {
  static constexpr int32_t kLayers = 3, kLayer = 1, kRows = 60, kCopyRows = 200;

  Chunk(const Shape& shape_, Random& random) : shape(shape_) {
    const int64_t width = shape.dim;
    for (auto* values : {&keys, &values_, &copy_keys, &copy_values}) {
      const bool is_copy = values == &copy_keys || values == &copy_values;
      values->resize(static_cast<size_t>(shape.heads * (is_copy ? kCopyRows : kRows) * width));
      for (Half& value : *values) value = float_to_half(random.uniform(-2, 2));
    }
    int32_t copy = 0, angle = 0;
    for (const auto& [slots, in_place] : shape.images) {
      blocks.emplace_back(static_cast<size_t>(2 * kLayers * shape.heads * slots * width));
      for (Half& value : blocks.back()) value = float_to_half(random.uniform(-2, 2));
      CarriedImage image;
      const int64_t matrix = int64_t{2} * slots * width;
      image.block = {reinterpret_cast<std::byte*>(blocks.back().data()),
                     2 * shape.heads * matrix,
                     2 * matrix,
                     matrix,
                     slots,
                     slots};
      image.in_place = in_place;
      image.slots = slots;
      image.first_row = static_cast<int32_t>(rows_in_place.size());
      image.first_angle = angle;
      image.shift_angle = angle + slots;
      const auto shift = static_cast<int32_t>(random.integer(-20, 300));
      for (int32_t i = 0; i < in_place; ++i)
        rows_in_place.push_back(static_cast<int32_t>(random.integer(0, kRows - 1)));
      for (int32_t i = 0; i < slots; ++i) positions.push_back(static_cast<int32_t>(random.integer(1, 90)));
      positions.push_back(shift);
      angle += slots + 1;
      if (shape.copies && in_place % 2 == 1) {
        image.first_copy = copy;
        copy += slots - in_place;
      }
      images.push_back(image);
    }
    for (int32_t i = 0; i < kRows; ++i) row_positions.push_back(static_cast<int32_t>(random.integer(0, 400)));
    angles = angles_of(row_positions);
    for (int32_t i = 0; i < kRows; ++i) places.push_back(shape.placed ? (7 * i + 3) % kRows : i);
    slot_angles = angles_of(positions);
  }

  std::vector<double> turns(int32_t position) const {
    std::vector<double> turn;
    for (int32_t i = 0; i < shape.rotated / 2; ++i)
      turn.push_back(position * std::pow(10000.0, -2.0 * i / shape.rotated));
    return turn;
  }
  test::Vector<float> angles_of(const test::Vector<int32_t>& of) const {
    test::Vector<float> table;
    for (const int32_t position : of)
      for (const double turn : turns(position)) {
        table.push_back(static_cast<float>(std::cos(turn)));
        table.push_back(static_cast<float>(std::sin(turn)));
      }
    return table;
  }
  Row rotated(Row row, int32_t position, double sign) const {
    const std::vector<double> turn = turns(position);
    for (size_t i = 0; i < turn.size(); ++i) {
      const bool adjacent = shape.pairing == RopePairing::kAdjacent;
      double& a = row[adjacent ? 2 * i : i];
      double& b = row[adjacent ? 2 * i + 1 : i + turn.size()];
      const double cosine = std::cos(turn[i]), sine = sign * std::sin(turn[i]), x = a;
      a = x * cosine - b * sine;
      b = b * cosine + x * sine;
    }
    return row;
  }
  Row read(const Half* from) const {
    Row row;
    for (int32_t i = 0; i < shape.dim; ++i) row.push_back(static_cast<double>(half_to_float(from[i])));
    return row;
  }
  KvLayerRows rows() { return KvLayerRows::head_major(keys.data(), values_.data(), shape.heads, shape.dim, kRows); }
  KvLayerRows copies() {
    if (!shape.copies) return {};
    return KvLayerRows::head_major(copy_keys.data(), copy_values.data(), shape.heads, shape.dim, kCopyRows);
  }
  CarryChangeArgs args() {
    const int64_t rotated_count = shape.rotated;
    return {.rows = rows(),
            .images = images.data(),
            .image_count = static_cast<int32_t>(images.size()),
            .rows_in_place = rows_in_place.data(),
            .places = shape.placed ? places.data() : nullptr,
            .layer = kLayer,
            .rope = {.pairing = shape.pairing, .rotated = shape.rotated},
            .angles = {angles.data(), kRows, rotated_count},
            .slot_angles = {slot_angles.data(), std::ssize(positions), rotated_count},
            .copies = copies()};
  }

  Shape shape;
  test::Vector<Half> keys, values_, copy_keys, copy_values;
  std::vector<test::Vector<Half>> blocks;
  test::Vector<CarriedImage> images;
  test::Vector<int32_t> rows_in_place, positions, row_positions, places;
  test::Vector<float> angles, slot_angles;
};

void add_share(const Row& row, double share, Row* to) {
  for (size_t i = 0; i < row.size(); ++i) (*to)[i] += share * row[i];
}

/// Checks one head of an image in `after` against the expectation from `before`.
void check_head(Chunk& before, Chunk& after, size_t i, int64_t head) {
  const CarriedImage& image = before.images[i];
  const CarriedImage& done = after.images[i];
  const Shape& shape = before.shape;
  const KvLayerRows rows = before.rows(), copies = before.copies(), copies_after = after.copies();
  const Half *keys = run_keys(image.block, Chunk::kLayer, head), *values = run_values(image.block, Chunk::kLayer, head);
  Row dk(static_cast<size_t>(shape.dim)), dv = dk;
  const int32_t* positions = before.positions.data() + image.first_angle;
  for (int32_t p = 0; p < image.in_place; ++p) {
    const int32_t row = before.rows_in_place[static_cast<size_t>(image.first_row + p)];
    const double share = 1.0 / image.in_place;
    const int64_t at = rows.at(before.places[static_cast<size_t>(row)], head), slot = int64_t{p} * shape.dim;
    add_share(before.rotated(before.read(rows.keys + at), before.row_positions[static_cast<size_t>(row)], -1), share,
              &dk);
    add_share(before.rotated(before.read(keys + slot), positions[p], -1), -share, &dk);
    add_share(before.read(rows.values + at), share, &dv);
    add_share(before.read(values + slot), -share, &dv);
  }
  const auto check_row = [&](const Half* was, const Half* is, const Row& change) {
    Row expected = before.read(was);
    add_share(change, 1, &expected);
    const Row got = after.read(is);
    for (size_t c = 0; c < got.size(); ++c) REQUIRE(std::abs(got[c] - expected[c]) < 4e-3);
  };
  const int32_t shift = positions[image.slots];
  const Half *keys_after = run_keys(done.block, Chunk::kLayer, head),
             *values_after = run_values(done.block, Chunk::kLayer, head);
  for (int32_t slot = 0; slot < image.slots; ++slot) {
    const bool carried = image.in_place > 0 && slot >= image.in_place;
    const Row none(dk.size());
    const int64_t at = int64_t{slot} * shape.dim;
    check_row(keys + at, keys_after + at, carried ? before.rotated(dk, positions[slot], 1) : none);
    check_row(values + at, values_after + at, carried ? dv : none);
    if (!carried || image.first_copy < 0) continue;
    const int64_t copy = copies.at(image.first_copy + slot - image.in_place, head);
    check_row(copies.keys + copy, copies_after.keys + copy, before.rotated(dk, positions[slot] + shift, 1));
    check_row(copies.values + copy, copies_after.values + copy, dv);
  }
}

/// Layers that are not meant.
bool other_layers_equal(const Chunk& before, const Chunk& after, size_t image) {
  const auto &a = before.blocks[image], &b = after.blocks[image];
  const size_t layer = a.size() / Chunk::kLayers;
  for (size_t i = 0; i < a.size(); ++i)
    if (i / layer != Chunk::kLayer && a[i].bits != b[i].bits) return false;
  return true;
}

TEST_CASE("carry_change adds the mean change of the rows in place to all other slots, and to their copies") {
  test::for_each_target([] {
    test::for_each_backend([](Queue& queue) {
      for (const Shape& shape : {Shape{2, 16, 16, RopePairing::kAdjacent, {{7, 3}}, false},
                                 {1, 64, 64, RopePairing::kHalves, {{20, 1}, {9, 9}, {64, 16}}, true},
                                 {3, 24, 8, RopePairing::kHalves, {{30, 5}, {12, 0}, {1, 1}}, true},
                                 {1, 256, 128, RopePairing::kAdjacent, {{40, 7}}, true},
                                 {2, 64, 64, RopePairing::kHalves, {{20, 3}, {9, 8}}, false, true},
                                 {1, 512, 512, RopePairing::kHalves, {{12, 2}}, true, true}}) {
        CAPTURE(shape.dim);
        Random random(77), again(77);
        Chunk before(shape, random), chunk(shape, again);
        carry_change(chunk.args(), queue);
        REQUIRE(queue.finish().ok());
        for (size_t i = 0; i < shape.images.size(); ++i) {
          for (int64_t head = 0; head < shape.heads; ++head) check_head(before, chunk, i, head);
          CHECK(other_layers_equal(before, chunk, i));
        }
      }
    });
  });
}

}  // namespace
}  // namespace ocellus
