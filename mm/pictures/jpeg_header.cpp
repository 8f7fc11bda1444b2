#include "mm/pictures/jpeg_header.h"

#include <algorithm>
#include <cstring>

#include "mm/pictures/jpeg_markers.h"
#include "platform/round_up.h"

namespace ocellus {
namespace {

using namespace jpeg;

class JpegWalker {
 public:
  JpegWalker(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, JpegFacts* facts)
      : begin_(bytes), cursor_(bytes), end_(bytes + size_bytes), limits_(limits), facts_(*facts) {}

  Status walk() {
    cursor_ += 2;  // the caller has checked the start-of-image marker
    for (;;) {
      int marker = 0;
      OCELLUS_TRY(next_marker(&marker));
      if (marker == kEoi) return check_complete();
      OCELLUS_TRY(check_marker(marker));
      OCELLUS_TRY(open_segment());
      OCELLUS_TRY(read_segment(marker));
      cursor_ = segment_ + segment_bytes_;
      if (marker == kSos) skip_entropy_data();
    }
  }

 private:
  static Status truncated() {
    return OCELLUS_FAIL(Code::kBadImage, "the JPEG ends before its end-of-image marker: the file is truncated");
  }

  // Finds the next marker; padding between segments is skipped, as decoders do.
  Status next_marker(int* marker) {
    while (cursor_ < end_ && *cursor_ != 0xFF) ++cursor_;
    while (cursor_ < end_ && *cursor_ == 0xFF) ++cursor_;
    if (cursor_ >= end_) return truncated();
    *marker = *cursor_++;
    return {};
  }

  static Status check_marker(int marker) {
    const bool known = marker == kSof0 || marker == kSof1 || marker == kSof2 || marker == kDht || marker == kSos ||
                       marker == kDqt || marker == kDnl || marker == kDri || (marker >= kApp0 && marker <= kApp15) ||
                       marker == kCom;
    if (known) return {};
    if (marker >= 0xC9 && marker <= 0xCF) {
      return OCELLUS_FAIL(Code::kUnsupported, "the JPEG is arithmetic-coded: save it with Huffman coding");
    }
    if (marker == 0xC3)
      return OCELLUS_FAIL(Code::kUnsupported, "the JPEG is lossless: save it as baseline JPEG or PNG");
    if ((marker >= 0xC5 && marker <= 0xC8) || marker == 0xDE || marker == 0xDF) {
      return OCELLUS_FAIL(Code::kUnsupported, "the JPEG is hierarchical: save it as baseline JPEG");
    }
    if (marker == 0xF7) return OCELLUS_FAIL(Code::kUnsupported, "the JPEG is JPEG-LS: save it as baseline JPEG or PNG");
    return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a marker FF%02X where a segment should start: it is damaged",
                        static_cast<unsigned>(marker));
  }

  // Sets segment_ to the first byte after the length.
  Status open_segment() {
    if (end_ - cursor_ < 2) return truncated();
    const int64_t length = cursor_[0] << 8 | cursor_[1];
    if (length < 2)
      return OCELLUS_FAIL(Code::kBadImage, "a JPEG segment has length %d: it is damaged", static_cast<int>(length));
    if (end_ - cursor_ < length) return truncated();
    segment_ = cursor_ + 2;
    segment_bytes_ = length - 2;
    return {};
  }

  Status read_segment(int marker) {
    switch (marker) {
      case kSof0:
      case kSof1:
      case kSof2: return read_frame(marker == kSof2);
      case kDht: return read_huffman_tables();
      case kDqt: return read_quantisation_tables();
      case kSos: return read_scan();
      case kApp1: return read_exif();
      case kApp14: return read_adobe();
      default: return {};
    }
  }

  Status read_frame(bool progressive) {
    if (facts_.component_count != 0)
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has two frame headers: it is damaged");
    if (segment_bytes_ < 6 || segment_bytes_ != 6 + 3 * segment_[5]) {
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG's frame header has a wrong length: it is damaged");
    }
    if (segment_[0] != 8) {
      return OCELLUS_FAIL(Code::kUnsupported, "the JPEG has %d bits a sample: save it with 8", segment_[0]);
    }
    facts_.height = segment_[1] << 8 | segment_[2];
    facts_.width = segment_[3] << 8 | segment_[4];
    facts_.progressive = progressive;
    OCELLUS_TRY(check_image_size(limits_, "JPEG", facts_.width, facts_.height));
    const int count = segment_[5];
    if (count != 1 && count != 3 && count != 4) {
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has %d components: only 1, 3 or 4 make a picture", count);
    }
    int widest = 1, tallest = 1;
    for (int i = 0; i < count; ++i) {
      const uint8_t* component = segment_ + 6 + 3 * i;
      identifier_[i] = component[0];
      facts_.horizontal[i] = component[1] >> 4;
      facts_.vertical[i] = component[1] & 15;
      quantisation_[i] = component[2];
      widest = std::max(widest, facts_.horizontal[i]);
      tallest = std::max(tallest, facts_.vertical[i]);
    }
    for (int i = 0; i < count; ++i) {
      const int h = facts_.horizontal[i], v = facts_.vertical[i];
      if (h < 1 || h > 4 || v < 1 || v > 4 || quantisation_[i] > 3) {
        return OCELLUS_FAIL(Code::kBadImage,
                            "the JPEG's component %d has sampling %d x %d and quantisation table %d: it is damaged", i,
                            h, v, quantisation_[i]);
      }
      if (widest % h != 0 || tallest % v != 0) {
        return OCELLUS_FAIL(Code::kUnsupported,
                            "the JPEG's component %d is subsampled by a fraction: save it as 4:4:4 or 4:2:0", i);
      }
    }
    facts_.component_count = count;
    return {};
  }

  Status read_huffman_tables() {
    const uint8_t* at = segment_;
    const uint8_t* end = segment_ + segment_bytes_;
    while (at < end) {
      if (end - at < 17) return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a Huffman table that is cut short");
      const int kind = at[0] >> 4, slot = at[0] & 15;
      if (kind > 1 || slot > 3)
        return OCELLUS_FAIL(Code::kBadImage, "the JPEG defines Huffman table %d of kind %d: it is damaged", slot, kind);
      int symbols = 0, codes = 0;
      for (int bits = 1; bits <= 16; ++bits) {
        symbols += at[bits];
        codes = 2 * codes + at[bits];
        if (codes > 1 << bits)
          return OCELLUS_FAIL(Code::kBadImage, "a Huffman table of the JPEG has more codes of %d bits than exist",
                              bits);
      }
      if (symbols > 256)
        return OCELLUS_FAIL(Code::kBadImage, "a Huffman table of the JPEG has %d symbols: at most 256 are possible",
                            symbols);
      at += 17 + symbols;
      (kind == 0 ? dc_tables_ : ac_tables_) |= 1 << slot;
    }
    if (at != end) return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a Huffman table that is cut short");
    return {};
  }

  Status read_quantisation_tables() {
    const uint8_t* at = segment_;
    const uint8_t* end = segment_ + segment_bytes_;
    while (at < end) {
      const int wide = at[0] >> 4, slot = at[0] & 15;
      const int64_t bytes = wide != 0 ? 129 : 65;
      if (wide > 1 || slot > 3 || end - at < bytes)
        return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a damaged quantisation table");
      at += bytes;
      quantisation_tables_ |= 1 << slot;
    }
    return {};
  }

  Status read_exif() {
    const bool is_exif = segment_bytes_ >= 6 && std::memcmp(segment_, "Exif\0", 6) == 0;  // else it is XMP
    if (is_exif && !has_exif_) facts_.orientation = read_exif_orientation(segment_, segment_bytes_);
    has_exif_ = has_exif_ || is_exif;
    return {};
  }

  Status read_adobe() {
    if (segment_bytes_ >= 12 && std::memcmp(segment_, "Adobe", 6) == 0) facts_.adobe_transform = segment_[11];
    return {};
  }

  Status read_scan() {
    if (facts_.component_count == 0)
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a scan before its frame header: it is damaged");
    const int count = segment_bytes_ < 1 ? 0 : segment_[0];
    if (count < 1 || count > facts_.component_count || segment_bytes_ != 4 + 2 * count) {
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has a scan of %d components: it is damaged", count);
    }
    if (++scan_count_ > kMaxJpegScans) {
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has more than %d scans: save it as baseline JPEG", kMaxJpegScans);
    }
    if (scan_count_ == 1) facts_.in_one_scan = !facts_.progressive && count == facts_.component_count;
    const int first = segment_[1 + 2 * count], refines = segment_[3 + 2 * count] >> 4;
    const bool needs_dc = !facts_.progressive || (first == 0 && refines == 0);
    const bool needs_ac = !facts_.progressive || first != 0;
    // Two tables of each kind, 0 and 1, are those of cameras that send none.
    if (!facts_.progressive && dc_tables_ == 0 && ac_tables_ == 0) {
      facts_.lacks_tables_at = segment_ - 4 - begin_;
      dc_tables_ = ac_tables_ = 3;
    }
    for (int i = 0; i < count; ++i) {
      const int tables = segment_[2 + 2 * i];
      OCELLUS_TRY(open_component(segment_[1 + 2 * i], needs_dc));
      if ((needs_dc && !(dc_tables_ >> (tables >> 4) & 1)) || (needs_ac && !(ac_tables_ >> (tables & 15) & 1))) {
        return OCELLUS_FAIL(Code::kBadImage, "the JPEG uses a Huffman table that it does not define: it is damaged");
      }
    }
    return {};
  }

  Status open_component(int identifier, bool starts) {
    int which = 0;
    while (which < facts_.component_count && identifier_[which] != identifier) ++which;
    if (which == facts_.component_count)
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG scans component %d, which its frame header does not list",
                          identifier);
    if (!(quantisation_tables_ >> quantisation_[which] & 1))
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG uses quantisation table %d but does not define it",
                          quantisation_[which]);
    if (!starts) return {};
    if (!facts_.progressive && (coded_ >> which & 1))
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG codes component %d twice: it is damaged", which);
    coded_ |= 1 << which;
    return {};
  }

  // Skips to the next marker that is neither a stuffed FF nor a restart.
  void skip_entropy_data() {
    while (cursor_ < end_) {
      const auto* mark = static_cast<const uint8_t*>(std::memchr(cursor_, 0xFF, static_cast<size_t>(end_ - cursor_)));
      if (mark == nullptr) {
        cursor_ = end_;
        return;
      }
      const uint8_t* code = mark;
      while (code < end_ && *code == 0xFF) ++code;
      if (code < end_ && *code != 0 && !is_restart(*code)) {
        cursor_ = mark;
        return;
      }
      cursor_ = code < end_ ? code + 1 : end_;
    }
  }

  Status check_complete() {
    if (facts_.component_count == 0)
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has no frame header: it is damaged");
    if (coded_ != (1 << facts_.component_count) - 1)
      return OCELLUS_FAIL(Code::kBadImage, "the JPEG has no scan for one of its components: it is damaged");
    if (facts_.component_count == 4 && facts_.adobe_transform != 0 && facts_.adobe_transform != 2) {
      return OCELLUS_FAIL(Code::kUnsupported,
                          "the JPEG has four channels but no Adobe marker that says what they mean: save it as RGB");
    }
    return {};
  }

  const uint8_t* begin_;
  const uint8_t* cursor_;
  const uint8_t* end_;
  const ImageLimits& limits_;
  JpegFacts& facts_;
  const uint8_t* segment_ = nullptr;
  int64_t segment_bytes_ = 0;
  bool has_exif_ = false;
  int identifier_[4] = {};
  int quantisation_[4] = {};
  int dc_tables_ = 0;  // one bit per slot that has been defined
  int ac_tables_ = 0;
  int quantisation_tables_ = 0;
  int coded_ = 0;  // one bit per component that has had its first scan
  int scan_count_ = 0;
};

}  // namespace

Status read_jpeg_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, JpegFacts* facts) {
  *facts = JpegFacts();
  if (size_bytes < 4 || bytes[0] != 0xFF || bytes[1] != kSoi) {
    return OCELLUS_FAIL(Code::kBadImage, "the JPEG does not start with a start-of-image marker");
  }
  return JpegWalker(bytes, size_bytes, limits, facts).walk();
}

int64_t jpeg_sample_count(const JpegFacts& facts) {
  int32_t widest = 1, tallest = 1;
  int64_t blocks = 0;
  for (int i = 0; i < facts.component_count; ++i) {
    widest = std::max(widest, facts.horizontal[i]);
    tallest = std::max(tallest, facts.vertical[i]);
    blocks += facts.horizontal[i] * facts.vertical[i];
  }
  const int64_t across = divide_up(facts.width, 8 * widest);
  const int64_t down = divide_up(facts.height, 8 * tallest);
  return across * down * blocks * 64;
}

}  // namespace ocellus
