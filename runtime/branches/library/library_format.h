// The head of an entry's file: all facts of an entry, and the places of its blocks.
//
//   head      magic, version, sizes, checksum, key, facts, owner, times, tags, caption, embedding, table of blocks;
//             then zeros to a multiple of 512 bytes
//   blocks    each at a multiple of 512 bytes, zeros between
//
// Numbers are little-endian. The checksum covers the whole head, zeros included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/buffer.h"
#include "platform/round_up.h"
#include "platform/status.h"
#include "runtime/branches/library/library_entry.h"

namespace ocellus {

struct BlockPlace {
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  uint64_t checksum = 0;
};

struct EntryHeader {
  LibraryKey key = {};
  EntryFacts facts = {};
  OwnerName owner = {};
  EntryLabels labels = {};
  int64_t created = 0;        // seconds since 1970
  int64_t computed_us = 0;    // time that computing the image took; 0: unknown
  Buffer<float> embedding;    // empty or facts.embedding_width numbers
  Buffer<BlockPlace> blocks;  // one per layer, then the one of input rows
  int64_t header_bytes = 0;   // multiple of kBlockAlignment
  int64_t file_bytes = 0;
};

/// Copies a header; fails if memory is missing.
Status copy_header(const EntryHeader& from, EntryHeader* to);

/// Bytes that determine the length of the head.
inline constexpr int64_t kPreambleBytes = 32;
inline constexpr int64_t kMaxHeaderBytes = int64_t{1} << 20;
inline constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;

constexpr int64_t padded_block_bytes(int64_t bytes) { return round_up(bytes, kBlockAlignment); }

/// Sets header_bytes, file_bytes and the offsets of the blocks from the rest.
void lay_out_entry(EntryHeader* header);

/// Encodes the head as in the file, header_bytes of it. The header is laid out and its checksums are set.
Status encode_header(const EntryHeader& header, Buffer<std::byte>* out);

/// Returns the length of the head from its first kPreambleBytes, or 0 if they begin no entry of this version.
int64_t header_bytes_of(const std::byte* preamble);
/// True if they begin an entry of an earlier version. Such entries are not read, and do not count as damaged.
bool is_outdated(const std::byte* preamble);

/// Reads a head. Returns null, or what is wrong with it in a few words.
const char* decode_header(const std::byte* bytes, int64_t count, EntryHeader* out);

/// Facts in the encoding of the key and the catalogue.
inline constexpr int64_t kFactsBytes = 4 + 16 + 16 + 8 + 11 * 4;
void encode_facts(const EntryFacts& facts, std::byte* out);
void decode_facts(const std::byte* bytes, EntryFacts* out);

/// Returns what is wrong with facts, in a few words; null if nothing is.
const char* find_fault(const EntryFacts& facts);

/// Reads or writes fields in the same order, so that both directions share one list of fields.
class FieldWalk {
 public:
  static FieldWalk reading(const std::byte* bytes, int64_t count) {
    return FieldWalk(const_cast<std::byte*>(bytes), count, false);
  }
  static FieldWalk writing(std::byte* bytes, int64_t count) { return FieldWalk(bytes, count, true); }

  /// Integers and floats, little-endian.
  template <class T>
  void number(T& value) {
    uint64_t bits = 0;
    if (is_writing_) std::memcpy(&bits, &value, sizeof value);
    static_assert(sizeof(T) <= sizeof bits);
    if (left_ < int64_t{sizeof(T)}) return fail();
    for (size_t i = 0; i < sizeof(T); ++i) {
      if (is_writing_) at_[i] = static_cast<std::byte>(bits >> (8 * i));
      if (!is_writing_) bits |= static_cast<uint64_t>(at_[i]) << (8 * i);
    }
    if (!is_writing_) std::memcpy(&value, &bits, sizeof value);
    at_ += sizeof(T);
    left_ -= int64_t{sizeof(T)};
  }
  void hash(Hash128& value) {
    number(value.high);
    number(value.low);
  }
  void bytes(void* value, int64_t count);
  template <int kMax>
  void text(ShortText<kMax>& value) {
    char place[kMax] = {};
    auto length = static_cast<typename ShortText<kMax>::Length>(value.view().size());
    std::memcpy(place, value.c_str(), length);
    number(length);
    bytes(place, kMax);
    if (length > kMax) return fail();
    if (!is_writing_) value.assign({place, length});
  }

  bool is_writing() const { return is_writing_; }
  /// False once a field did not fit.
  bool is_sound() const { return is_sound_; }
  int64_t left() const { return left_; }

 private:
  FieldWalk(std::byte* bytes, int64_t count, bool is_writing) : at_(bytes), left_(count), is_writing_(is_writing) {}
  void fail() {
    is_sound_ = false;
    left_ = 0;
  }

  std::byte* at_;
  int64_t left_;
  bool is_writing_;
  bool is_sound_ = true;
};

}  // namespace ocellus
