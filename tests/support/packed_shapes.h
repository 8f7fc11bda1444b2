// Mixtures of runs for attention tests.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/rows/rope.h"
#include "tests/support/packed_cache.h"
#include "tests/support/random.h"

namespace ocellus::test {

struct PackedShape {
  int32_t heads = 1, kv_heads = 1, dim = 64;
  KvFormat format = KvFormat::k8Bit;  // format of the packed parts
  RopeParams rope = {};
  KvCalibration calibration = {};
  std::vector<std::vector<CachePart>> sessions = {};
  bool in_tiles = false;  // on the CPU too, and in odd ones
  float query_size = 1.0f;
  KvScaleForm scales = KvScaleForm::kF16;

  KvLayer layer() const { return PackedCache::packed_layer(kv_heads, dim, format, scales); }

  std::string name() const {
    std::ostringstream text;
    text << heads << "/" << kv_heads << " heads of " << dim << ", " << key_bits(format) << "/" << value_bits(format)
         << " bits" << (scales == KvScaleForm::k6Bit ? ", small scales" : "")
         << (scales == KvScaleForm::kByToken ? ", scales by token" : "") << (calibration.on ? ", calibrated" : "");
    for (const std::vector<CachePart>& session : sessions) {
      text << ";";
      for (const CachePart& part : session) {
        text << " " << part.slots << (is_packed(part.format) ? "p" : "") << (part.calibrated ? "c" : "");
        text << (part.counts.empty() ? "" : "#") << "@" << part.shift;
      }
    }
    return text.str();
  }
};

/// A list of slots of which every head kept its own number, in blocks of at most `block` slots.
inline std::vector<CachePart> kept_parts(KvFormat format, int32_t slots, int32_t block,
                                         const std::vector<int32_t>& counts, int32_t shift = 0) {
  std::vector<CachePart> parts;
  for (int32_t first = 0; first < slots; first += block) {
    parts.push_back({.format = format,
                     .slots = std::min(block, slots - first),
                     .shift = shift,
                     .counts = counts,
                     .counted_before = first});
  }
  return parts;
}

/// Slots of one session: text, images packed each with its own scales, shifted ones, survivors of an eviction.
inline std::vector<CachePart> mixed_parts(KvFormat format, int32_t kv_heads, Random& random) {
  const auto draw = [&](int64_t low, int64_t high) { return static_cast<int32_t>(random.integer(low, high)); };
  constexpr int32_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 130, 300};
  std::vector<CachePart> parts;
  for (int32_t i = draw(1, 4); i > 0; --i) {
    CachePart part;
    part.slots = kSizes[draw(0, 10)];
    part.room = draw(0, 1) * draw(1, 20);
    part.format = draw(0, 3) == 0 ? KvFormat::kF16 : format;
    part.shift = draw(0, 2) == 0 ? draw(-300, 300) : 0;
    part.calibrated = part.format == KvFormat::kF16 && draw(0, 2) == 0;
    if (draw(0, 1) == 0) part.visible_from = static_cast<uint16_t>(draw(0, 80));
    if (draw(0, 2) > 0) {
      parts.push_back(part);
      continue;
    }
    std::vector<int32_t> counts;
    for (int32_t head = 0; head < kv_heads; ++head) counts.push_back(draw(0, 2) * draw(0, part.slots / 2 + 1));
    for (CachePart kept : kept_parts(part.format, part.slots, draw(16, 80), counts, part.shift)) {
      kept.visible_from = part.visible_from;
      parts.push_back(kept);
    }
  }
  return parts;
}

/// Formats whose keys and values differ in bits.
inline std::vector<KvFormat> unequal_formats() {
  std::vector<KvFormat> formats;
  for (const int32_t keys : {8, 4, 2, 1})
    for (const int32_t values : {8, 4, 2, 1})
      if (keys != values && has_kv_format(keys, values)) formats.push_back(kv_format_of(keys, values));
  return formats;
}

/// Shapes whose keys and values differ in bits.
inline void add_unequal_shapes(bool on_cuda, Random& random, std::vector<PackedShape>* shapes) {
  const std::vector<KvFormat> formats = unequal_formats();
  size_t count = 0;
  for (const int32_t dim : {32, 64, 96, 128, 256, 8, 72, 512}) {
    for (int32_t i = 0; i < 3; ++i) {
      PackedShape shape{.kv_heads = static_cast<int32_t>(random.integer(1, 2)), .dim = dim};
      shape.format = formats[++count % formats.size()];
      shape.heads = shape.kv_heads * static_cast<int32_t>(random.integer(1, 8));
      shape.rope.rotated = dim;
      if (i == 1) shape.calibration = {true, 0.5f, 2.0f};
      shape.sessions = {mixed_parts(shape.format, shape.kv_heads, random)};
      // The values do not begin where the keys end, and a tile begins within its block.
      shape.sessions[0].push_back({.format = shape.format, .slots = 71, .room = 2});
      shape.in_tiles = i == 0;
      if (i > 0) shape.scales = i == 1 || dim % 32 != 0 ? KvScaleForm::k6Bit : KvScaleForm::kByToken;
      if (!on_cuda || dim % 32 == 0) shapes->push_back(shape);
    }
  }
}

/// Shapes of all kinds; those CUDA has no kernels for are left out there.
inline std::vector<PackedShape> packed_shapes(bool on_cuda) {
  std::vector<PackedShape> shapes;
  Random random(17);
  constexpr int32_t kGroups[] = {1, 2, 3, 4, 8};
  constexpr KvFormat kFormats[] = {KvFormat::k8Bit, KvFormat::k4Bit, KvFormat::k2Bit, KvFormat::k1Bit};
  int32_t count = 0;
  for (const int32_t dim : {32, 64, 96, 128, 256, 8, 24, 72, 80, 512}) {
    ++count;  // so that calibrated shapes, too, come with scales of either kind
    for (const KvFormat format : kFormats) {
      for (const bool calibrated : {false, true}) {
        PackedShape shape;
        shape.dim = dim;
        shape.kv_heads = static_cast<int32_t>(random.integer(1, 3));
        shape.heads = shape.kv_heads * kGroups[random.integer(0, 4)];
        shape.format = format;
        shape.rope.pairing = random.integer(0, 1) == 0 ? RopePairing::kAdjacent : RopePairing::kHalves;
        shape.rope.rotated = random.integer(0, 2) == 0 ? dim / 2 : dim;
        shape.rope.position_scale = random.integer(0, 1) == 0 ? 1.0f : 0.25f;
        if (calibrated) shape.calibration = {true, random.uniform(0.0f, 2.0f), random.uniform(0.0f, 4.0f)};
        for (int64_t b = random.integer(1, 3); b > 0; --b)
          shape.sessions.push_back(mixed_parts(format, shape.kv_heads, random));
        shape.in_tiles = random.integer(0, 2) == 0;
        shape.scales = ++count % 2 == 0 ? KvScaleForm::k6Bit : KvScaleForm::kF16;
        if (!on_cuda || dim % 32 == 0) shapes.push_back(shape);
      }
    }
  }
  for (const int32_t dim : {32, 64, 96, 128, 256, 512}) {
    for (const KvFormat format : kFormats) {
      PackedShape shape{.kv_heads = static_cast<int32_t>(random.integer(1, 3)), .dim = dim, .format = format};
      shape.heads = shape.kv_heads * kGroups[random.integer(0, 4)];
      shape.rope.pairing = random.integer(0, 1) == 0 ? RopePairing::kAdjacent : RopePairing::kHalves;
      shape.rope.rotated = dim;
      for (int64_t b = random.integer(1, 3); b > 0; --b)
        shape.sessions.push_back(mixed_parts(format, shape.kv_heads, random));
      shape.in_tiles = random.integer(0, 2) == 0;
      shape.scales = KvScaleForm::kByToken;
      shapes.push_back(shape);
    }
  }
  add_unequal_shapes(on_cuda, random, &shapes);
  // No calibrated slot, one, and two in different runs.
  for (const int32_t single : {0, 1, 2}) {
    PackedShape shape{.heads = 4, .kv_heads = 2, .format = KvFormat::k2Bit, .rope = {.rotated = 64}};
    shape.calibration = {true, 0.5f, 3.0f};
    shape.sessions = {{{.slots = 40}}};
    for (int32_t i = 0; i < single; ++i) shape.sessions[0].push_back({.format = KvFormat::k2Bit, .slots = 1});
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace ocellus::test
