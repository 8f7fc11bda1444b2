#include "apps/camera/jpeg_damage.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "apps/camera/jpeg_markers.h"
#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

using namespace jpeg;

constexpr char kEndsEarly[] = "The JPEG's data end before its picture: it is damaged.";
constexpr char kGoesOn[] = "The JPEG has extra data after its picture: it is damaged.";
constexpr char kNoRestart[] = "The JPEG lacks a restart marker: it is damaged.";
constexpr char kNoCode[] = "The JPEG has a code that its tables lack: it is damaged.";
constexpr char kLongBlock[] = "The JPEG has a block of more than 64 coefficients: it is damaged.";

constexpr int64_t kPaddingBytes = 64;  // allowed after the picture's data; cameras leave some

int64_t ceiling(int64_t value, int64_t step) { return (value + step - 1) / step; }

// Symbols by code, decoded as in annex F.2.2.3.
struct HuffmanTable {
  std::array<int32_t, 17> most = {};   // by length, the greatest code; -1: no code has this length
  std::array<int32_t, 17> first = {};  // by length, the index of symbol 0 if codes began at 0
  std::array<uint8_t, 256> symbols = {};

  HuffmanTable() { most.fill(-1); }
  HuffmanTable(const uint8_t* counts, const uint8_t* values, int32_t symbol_count) : HuffmanTable() {
    std::copy_n(values, symbol_count, symbols.begin());
    int32_t code = 0, place = 0;
    for (size_t length = 1; length <= 16; ++length, code <<= 1) {
      const int32_t count = counts[length - 1];
      if (count == 0) continue;
      first[length] = place - code;
      code += count;
      place += count;
      most[length] = code - 1;
    }
  }
};

struct Component {
  int32_t id = 0, across = 1, down = 1;
  const HuffmanTable* dc = nullptr;
  const HuffmanTable* ac = nullptr;
};

// Reads the bits between two markers.
class Bits {
 public:
  Bits(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  // Returns the next bit, -1 after the last.
  int next() {
    if (left_ == 0 && !load()) return -1;
    return byte_ >> --left_ & 1;
  }
  bool skip(int count) {
    while (count-- > 0) {
      if (next() < 0) return false;
    }
    return true;
  }
  // Returns the number of bytes up to the next marker and moves there. Zeros at the end do not count: cameras pad with
  // them.
  int64_t drop_rest() {
    int64_t count = 0, behind_zeros = 0;
    left_ = 0;
    while (load()) {
      ++count;
      if (byte_ != 0) behind_zeros = count;
    }
    left_ = 0;
    return behind_zeros;
  }
  const uint8_t* at() const { return at_; }

 private:
  bool load() {
    if (at_ == end_) return false;
    if (*at_ == 0xFF) {
      if (end_ - at_ < 2 || at_[1] != 0) return false;
      ++at_;
      byte_ = 0xFF;
    } else {
      byte_ = *at_;
    }
    ++at_;
    left_ = 8;
    return true;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  uint8_t byte_ = 0;
  int left_ = 0;
};

// Functions that look for damage return a sentence, or null.
class DamageFinder {
 public:
  explicit DamageFinder(const std::vector<uint8_t>& jpeg) : at_(jpeg.data()), end_(at_ + jpeg.size()) {}

  const char* find() {
    at_ += 2;  // the caller has checked the start-of-image marker
    while (const int marker = next_marker()) {
      if (marker == kEoi) break;
      if (is_restart(marker)) continue;  // some encoders end a scan with one
      if (!open_segment() || !read_segment(marker)) break;
      if (marker != kSos) continue;
      if (const char* damage = read_scan()) return damage;
      scanned_ += scan_.size();
    }
    return nullptr;
  }

  // True after find() if it has read data of every component.
  bool has_all() const { return !components_.empty() && scanned_ >= components_.size(); }

 private:
  // Returns the next marker, 0 if there is none. Bytes before it belong to no segment.
  int next_marker() {
    while (end_ - at_ >= 2 && (at_[0] != 0xFF || at_[1] == 0 || at_[1] == 0xFF)) ++at_;
    if (end_ - at_ < 2) return 0;
    at_ += 2;
    return at_[-1];
  }

  bool open_segment() {
    if (end_ - at_ < 2) return false;
    const std::ptrdiff_t length = at_[0] << 8 | at_[1];
    if (length < 2 || end_ - at_ < length) return false;
    segment_ = at_ + 2;
    segment_bytes_ = length - 2;
    at_ += length;
    return true;
  }

  // Returns false for segments that are not supported.
  bool read_segment(int marker) {
    switch (marker) {
      case kDht: return read_tables();
      case kDri: return read_restart_interval();
      case kSof0:
      case kSof1: return read_frame();
      case kSos: return begin_scan();
      default: return marker < kSof2 || marker > kSof15;  // other kinds of JPEG
    }
  }

  bool read_restart_interval() {
    if (segment_bytes_ != 2) return false;
    restart_ = segment_[0] << 8 | segment_[1];
    return true;
  }

  bool read_tables() {
    const uint8_t* at = segment_;
    const uint8_t* const end = segment_ + segment_bytes_;
    while (end - at >= 17) {
      int32_t count = 0;
      for (int i = 1; i <= 16; ++i) count += at[i];
      if (count > 256 || end - at < 17 + count || (at[0] & 0xEC) != 0) return false;
      tables_[at[0] >> 4][at[0] & 3] = HuffmanTable(at + 1, at + 17, count);
      at += 17 + count;
    }
    return at == end;
  }

  bool read_frame() {
    if (segment_bytes_ < 6 || segment_bytes_ != 6 + 3 * segment_[5] || !components_.empty()) return false;
    height_ = segment_[1] << 8 | segment_[2];
    width_ = segment_[3] << 8 | segment_[4];
    for (int i = 0; i < segment_[5]; ++i) {
      const uint8_t* facts = segment_ + 6 + 3 * i;
      components_.push_back({.id = facts[0], .across = facts[1] >> 4, .down = facts[1] & 15});
      const Component& one = components_.back();
      if (one.across < 1 || one.across > 4 || one.down < 1 || one.down > 4) return false;
      widest_ = std::max(widest_, one.across);
      tallest_ = std::max(tallest_, one.down);
    }
    return width_ > 0 && height_ > 0;
  }

  bool begin_scan() {
    scan_.clear();
    if (segment_bytes_ < 1 || segment_bytes_ != 4 + 2 * segment_[0]) return false;
    for (int i = 0; i < segment_[0]; ++i) {
      const uint8_t* facts = segment_ + 1 + 2 * i;
      const auto found = std::find_if(components_.begin(), components_.end(),
                                      [&facts](const Component& one) { return one.id == facts[0]; });
      if (found == components_.end() || (facts[1] & 0xCC) != 0) return false;
      scan_.push_back(*found);
      scan_.back().dc = &tables_[0][facts[1] >> 4];
      scan_.back().ac = &tables_[1][facts[1] & 15];
    }
    return !scan_.empty();
  }

  // A component in a scan of its own has no padding blocks.
  int64_t unit_count() const {
    if (scan_.size() > 1) return ceiling(width_, 8 * widest_) * ceiling(height_, 8 * tallest_);
    return ceiling(ceiling(width_ * scan_[0].across, widest_), 8) *
           ceiling(ceiling(height_ * scan_[0].down, tallest_), 8);
  }

  const char* read_scan() {
    const int64_t units = unit_count();
    for (int64_t unit = 0; unit < units;) {
      const int64_t until = restart_ > 0 ? std::min(units, unit + restart_) : units;
      Bits bits(at_, end_);
      for (; unit < until; ++unit) {
        if (const char* damage = read_unit(&bits)) return damage;
      }
      if (bits.drop_rest() > kPaddingBytes) return kGoesOn;
      at_ = bits.at();
      if (unit < units && !is_restart(next_marker())) return kNoRestart;
    }
    return nullptr;
  }

  const char* read_unit(Bits* bits) const {
    for (const Component& component : scan_) {
      const int blocks = scan_.size() > 1 ? component.across * component.down : 1;
      for (int block = 0; block < blocks; ++block) {
        if (const char* damage = read_block(component, bits)) return damage;
      }
    }
    return nullptr;
  }

  static const char* read_block(const Component& component, Bits* bits) {
    const int dc = read_symbol(*component.dc, bits);
    if (dc < 0) return dc == kEnd ? kEndsEarly : kNoCode;
    if (!bits->skip(dc & 15)) return kEndsEarly;
    for (int place = 1; place < 64; ++place) {
      const int ac = read_symbol(*component.ac, bits);
      if (ac < 0) return ac == kEnd ? kEndsEarly : kNoCode;
      const int run = ac >> 4, size = ac & 15;
      if (size == 0 && run < 15) break;  // the remaining coefficients are zero
      place += run;
      if (place > 63) return kLongBlock;
      if (!bits->skip(size)) return kEndsEarly;
    }
    return nullptr;
  }

  static constexpr int kEnd = -1, kMissing = -2;

  static int read_symbol(const HuffmanTable& table, Bits* bits) {
    int32_t code = 0;
    for (size_t length = 1; length <= 16; ++length) {
      const int bit = bits->next();
      if (bit < 0) return kEnd;
      code = code << 1 | bit;
      if (code <= table.most[length]) return table.symbols[static_cast<size_t>(table.first[length] + code) & 255];
    }
    return kMissing;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* segment_ = nullptr;
  std::ptrdiff_t segment_bytes_ = 0;
  std::array<std::array<HuffmanTable, 4>, 2> tables_;
  std::vector<Component> components_, scan_;
  size_t scanned_ = 0;  // components
  int64_t width_ = 0, height_ = 0, restart_ = 0;
  int32_t widest_ = 1, tallest_ = 1;
};

}  // namespace

std::string find_jpeg_damage(const std::vector<uint8_t>& bytes) {
  const char* damage = is_jpeg(bytes) ? DamageFinder(bytes).find() : nullptr;
  return damage == nullptr ? "" : damage;
}

bool has_whole_picture(const std::vector<uint8_t>& bytes) {
  if (!is_jpeg(bytes)) return false;
  DamageFinder finder(bytes);
  return finder.find() == nullptr && finder.has_all();
}

}  // namespace ocellus::app
