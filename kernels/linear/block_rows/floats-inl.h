// Scales of a weight row in registers: 8, 16 or 32 floats out of bytes or half floats. Included once per CPU target.
#if defined(OCELLUS_KERNELS_BLOCK_ROWS_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OCELLUS_KERNELS_BLOCK_ROWS_FLOATS_INL_H_
#undef OCELLUS_KERNELS_BLOCK_ROWS_FLOATS_INL_H_
#else
#define OCELLUS_KERNELS_BLOCK_ROWS_FLOATS_INL_H_
#endif

#include <algorithm>

#include "kernels/linear/block_rows/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ocellus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kCount floats (8, 16 or 32) in as many vectors as they take.
template <int kCount>
struct Floats {
  using Tag = hn::CappedTag<float, std::min(kCount, 16)>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag())), kVectors = kCount / kLanes;
  HWY_INLINE Floats() {}
  hn::Vec<Tag> part[kVectors];
};

template <int kCount>
HWY_INLINE Floats<kCount> load_floats(const float* source) {
  Floats<kCount> floats;
  for (int i = 0; i < Floats<kCount>::kVectors; ++i)
    floats.part[i] = hn::LoadU(typename Floats<kCount>::Tag(), source + Floats<kCount>::kLanes * i);
  return floats;
}

template <int kCount>
HWY_INLINE Floats<2 * kCount> append(const Floats<kCount>& first, const Floats<kCount>& second) {
  Floats<2 * kCount> both;
  if constexpr (Floats<2 * kCount>::kVectors == 1) {
    both.part[0] = hn::Combine(typename Floats<2 * kCount>::Tag(), second.part[0], first.part[0]);
  } else {
    for (int i = 0; i < Floats<kCount>::kVectors; ++i) {
      both.part[i] = first.part[i];
      both.part[Floats<kCount>::kVectors + i] = second.part[i];
    }
  }
  return both;
}

template <int kCount>
HWY_INLINE Floats<kCount> scaled(Floats<kCount> floats, const Floats<kCount>& factors) {
  for (int i = 0; i < Floats<kCount>::kVectors; ++i) floats.part[i] = hn::Mul(floats.part[i], factors.part[i]);
  return floats;
}

HWY_INLINE float read_half_at(const uint8_t* source) {
  const hn::CappedTag<float, 1> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const hn::Rebind<uint16_t, decltype(d)> bits;
  return hn::GetLane(hn::PromoteTo(d, hn::BitCast(d16, hn::Set(bits, read_word<uint16_t>(source)))));
}

// The eight bytes of a word as integers.
template <class Byte, class D = Floats<8>::Tag>
HWY_INLINE void widen(uint64_t word, hn::Vec<hn::RebindToSigned<D>>* out) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<Byte, D> d8;
  if constexpr (hn::MaxLanes(D()) == 8) {
    out[0] = hn::PromoteTo(di, hn::BitCast(d8, hn::Set(hn::CappedTag<uint64_t, 1>(), word)));
  } else {
    const hn::CappedTag<uint32_t, 1> d32;
    for (int i = 0; i < 2; ++i)
      out[i] = hn::PromoteTo(di, hn::BitCast(d8, hn::Set(d32, static_cast<uint32_t>(word >> (32 * i)))));
  }
}

// factor * (byte - bias) of eight bytes.
template <class Byte>
HWY_INLINE Floats<8> scale_bytes(uint64_t word, float factor, int bias = 0) {
  const Floats<8>::Tag d;
  const hn::RebindToSigned<decltype(d)> di;
  hn::Vec<decltype(di)> integers[Floats<8>::kVectors];
  widen<Byte>(word, integers);
  Floats<8> floats;
  for (int i = 0; i < Floats<8>::kVectors; ++i)
    floats.part[i] = hn::Mul(hn::ConvertTo(d, hn::Sub(integers[i], hn::Set(di, bias))), hn::Set(d, factor));
  return floats;
}

// Eight half floats that are kStride bytes apart.
template <int kStride, class D = Floats<8>::Tag>
HWY_INLINE Floats<8> gather_halves(const uint8_t* source) {
  // Joined as integers: the units for vectors are what decoding is short of.
  uint64_t words[2] = {};
  for (int i = 0; i < 8; ++i)
    words[i / 4] |= static_cast<uint64_t>(read_word<uint16_t>(source + kStride * i)) << (i % 4 * 16);
  const hn::Full128<uint64_t> d64;
  const auto both = hn::InterleaveLower(d64, hn::Set(d64, words[0]), hn::Set(d64, words[1]));
  const D d;
  const hn::Rebind<hwy::float16_t, D> d16;
  Floats<8> floats;
  if constexpr (hn::MaxLanes(D()) == 8) {
    floats.part[0] = hn::PromoteTo(d, hn::BitCast(d16, both));
  } else {
    const hn::Half<hn::Full128<uint64_t>> half;
    floats.part[0] = hn::PromoteTo(d, hn::BitCast(d16, hn::LowerHalf(half, both)));
    floats.part[1] = hn::PromoteTo(d, hn::BitCast(d16, hn::UpperHalf(half, both)));
  }
  return floats;
}

}  // namespace HWY_NAMESPACE
}  // namespace ocellus
HWY_AFTER_NAMESPACE();
#endif
