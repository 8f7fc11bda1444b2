#include "runtime/branches/library/library_format.h"

#include <algorithm>
#include <bit>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/vocabulary/tokenizer_utf8.h"

namespace ocellus {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are put into their bytes in this order");

constexpr uint64_t kMagic = 0x0031424C4C45434Full;  // "OCELLB1" and a zero
/// 2: with captions, the columns of tiles, and the time of computing the image. 3: input rows in f16.
constexpr uint32_t kVersion = 3;
constexpr int64_t kChecksumOffset = 24;
/// Bytes of the fixed fields, with room to spare.
constexpr int64_t kFixedBytes = 2048;

void walk_facts(FieldWalk& walk, EntryFacts& facts) {
  walk.number(facts.format_version);
  walk.hash(facts.model);
  walk.hash(facts.content);
  walk.number(facts.prefix_id);
  for (int32_t* field :
       {&facts.layer_count, &facts.kv_heads, &facts.head_dim, &facts.bits, &facts.scale_form, &facts.token_count,
        &facts.block_rows, &facts.view_count, &facts.embedding_width, &facts.stored_input_rows})
    walk.number(*field);
  // One number for both, which is that of the tiles where no rows share a position.
  uint32_t layout = static_cast<uint32_t>(facts.shared_rows) << 8 | static_cast<uint32_t>(facts.tile_cols);
  walk.number(layout);
  facts.tile_cols = static_cast<int32_t>(layout & 255);
  facts.shared_rows = static_cast<int32_t>(layout) >> 8;
}

struct Preamble {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t header_bytes = 0;
  uint64_t file_bytes = 0;
  uint64_t checksum = 0;

  void walk(FieldWalk& fields) {
    fields.number(magic);
    fields.number(version);
    fields.number(header_bytes);
    fields.number(file_bytes);
    fields.number(checksum);
  }
};

/// All fields after the preamble; counts are those of the buffers when writing, and size the buffers when reading.
Status walk_body(FieldWalk& walk, EntryHeader& header) {
  walk.hash(header.key);
  walk_facts(walk, header.facts);
  walk.text(header.owner);
  walk.number(header.created);
  walk.number(header.computed_us);
  EntryLabels& labels = header.labels;
  walk.number(labels.expires);
  uint8_t pinned = labels.pinned ? 1 : 0;
  walk.number(pinned);
  labels.pinned = pinned != 0;
  walk.number(labels.tags.count);
  for (auto& tag : labels.tags.tags) walk.text(tag);
  walk.text(labels.caption);
  auto numbers = static_cast<int32_t>(header.embedding.size()), blocks = static_cast<int32_t>(header.blocks.size());
  walk.number(numbers);
  walk.number(blocks);
  if (!walk.is_writing()) {
    const bool fits = numbers >= 0 && blocks >= 0 && int64_t{4} * numbers + int64_t{24} * blocks <= walk.left();
    OCELLUS_TRY(header.embedding.resize(fits ? numbers : 0));
    OCELLUS_TRY(header.blocks.resize(fits ? blocks : 0));
  }
  for (float& number : header.embedding) walk.number(number);
  for (BlockPlace& block : header.blocks) {
    walk.number(block.offset);
    walk.number(block.bytes);
    walk.number(block.checksum);
  }
  return {};
}

bool has_sound_blocks(const EntryHeader& header) {
  if (header.blocks.size() != int64_t{header.facts.layer_count} + 1) return false;
  int64_t at = header.header_bytes;
  for (const BlockPlace& block : header.blocks) {
    if (block.offset != at || block.bytes < 0 || block.bytes > kMaxBlockBytes) return false;
    at += padded_block_bytes(block.bytes);
  }
  return at == header.file_bytes;
}

const char* find_fault(const EntryHeader& header) {
  if (const char* fault = find_fault(header.facts)) return fault;
  if (!is_owner_name(header.owner.view()) && header.owner.view() != kSharedName) return "an invalid owner's name";
  const EntryTags& tags = header.labels.tags;
  if (tags.count < 0 || tags.count > kMaxTags) return "too many tags";
  for (int32_t i = 0; i < tags.count; ++i)
    if (!is_tag(tags.tags[i].view())) return "an invalid tag";
  if (!is_caption(header.labels.caption.view())) return "an invalid caption";
  if (!header.embedding.empty() && header.embedding.size() != header.facts.embedding_width)
    return "an embedding of another width";
  for (const float number : header.embedding)
    if (!std::isfinite(number)) return "an embedding that is not finite";
  return has_sound_blocks(header) ? nullptr : "misplaced blocks";
}

}  // namespace

void FieldWalk::bytes(void* value, int64_t count) {
  if (left_ < count) return fail();
  if (is_writing_) std::memcpy(at_, value, static_cast<size_t>(count));
  if (!is_writing_) std::memcpy(value, at_, static_cast<size_t>(count));
  at_ += count;
  left_ -= count;
}

const char* find_fault(const EntryFacts& facts) {
  if (facts.layer_count < 1 || facts.layer_count > kMaxEntryLayers) return "an invalid number of layers";
  if (facts.embedding_width < 0 || facts.embedding_width > kMaxEmbeddingWidth) return "an invalid embedding width";
  return nullptr;
}

void encode_facts(const EntryFacts& facts, std::byte* out) {
  EntryFacts copy = facts;
  FieldWalk walk = FieldWalk::writing(out, kFactsBytes);
  walk_facts(walk, copy);
}

void decode_facts(const std::byte* bytes, EntryFacts* out) {
  FieldWalk walk = FieldWalk::reading(bytes, kFactsBytes);
  walk_facts(walk, *out);
}

void lay_out_entry(EntryHeader* header) {
  header->header_bytes =
      padded_block_bytes(kFixedBytes + 4 * header->embedding.size() + int64_t{24} * header->blocks.size());
  int64_t at = header->header_bytes;
  for (BlockPlace& block : header->blocks) {
    block.offset = at;
    at += padded_block_bytes(block.bytes);
  }
  header->file_bytes = at;
}

Status encode_header(const EntryHeader& header, Buffer<std::byte>* out) {
  *out = {};
  OCELLUS_TRY(out->resize(header.header_bytes));
  FieldWalk body = FieldWalk::writing(out->data() + kPreambleBytes, header.header_bytes - kPreambleBytes);
  OCELLUS_TRY(walk_body(body, const_cast<EntryHeader&>(header)));  // writing does not change it
  if (!body.is_sound()) return OCELLUS_FAIL(Code::kInternal, "the head of a library entry has no room for its fields");
  Preamble preamble;
  preamble.header_bytes = static_cast<uint32_t>(header.header_bytes);
  preamble.file_bytes = static_cast<uint64_t>(header.file_bytes);
  for (int pass = 0; pass < 2; ++pass) {  // first with 0 in place of the checksum
    FieldWalk fields = FieldWalk::writing(out->data(), kPreambleBytes);
    preamble.walk(fields);
    preamble.checksum = hash64(out->data(), out->size());
  }
  return {};
}

Status copy_header(const EntryHeader& from, EntryHeader* to) {
  to->key = from.key;
  to->facts = from.facts;
  to->owner = from.owner;
  to->labels = from.labels;
  to->created = from.created;
  to->computed_us = from.computed_us;
  to->header_bytes = from.header_bytes;
  to->file_bytes = from.file_bytes;
  OCELLUS_TRY(to->embedding.resize(from.embedding.size()));
  OCELLUS_TRY(to->blocks.resize(from.blocks.size()));
  std::copy(from.embedding.begin(), from.embedding.end(), to->embedding.begin());
  std::copy(from.blocks.begin(), from.blocks.end(), to->blocks.begin());
  return {};
}

int64_t header_bytes_of(const std::byte* preamble_bytes) {
  Preamble preamble;
  FieldWalk fields = FieldWalk::reading(preamble_bytes, kPreambleBytes);
  preamble.walk(fields);
  const int64_t bytes = preamble.header_bytes;
  const bool is_sound = preamble.magic == kMagic && preamble.version == kVersion && bytes >= kBlockAlignment &&
                        bytes <= kMaxHeaderBytes && bytes % kBlockAlignment == 0;
  return is_sound ? bytes : 0;
}

bool is_outdated(const std::byte* preamble_bytes) {
  Preamble preamble;
  FieldWalk fields = FieldWalk::reading(preamble_bytes, kPreambleBytes);
  preamble.walk(fields);
  return preamble.magic == kMagic && preamble.version >= 1 && preamble.version < kVersion;
}

const char* decode_header(const std::byte* bytes, int64_t count, EntryHeader* out) {
  if (count < kPreambleBytes || header_bytes_of(bytes) != count) return "no head of an entry";
  Preamble preamble;
  FieldWalk fields = FieldWalk::reading(bytes, kPreambleBytes);
  preamble.walk(fields);
  const std::byte zeros[sizeof preamble.checksum] = {};
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, bytes, static_cast<size_t>(kChecksumOffset));
  XXH3_64bits_update(&state, zeros, sizeof zeros);
  XXH3_64bits_update(&state, bytes + kPreambleBytes, static_cast<size_t>(count - kPreambleBytes));
  if (XXH3_64bits_digest(&state) != preamble.checksum) return "a head with a wrong checksum";
  FieldWalk body = FieldWalk::reading(bytes + kPreambleBytes, count - kPreambleBytes);
  if (!walk_body(body, *out).ok()) return "a head that does not fit the system's memory";
  if (!body.is_sound()) return "a head that ends early";
  out->header_bytes = count;
  out->file_bytes = static_cast<int64_t>(preamble.file_bytes);
  return find_fault(*out);
}

bool is_tag(std::string_view tag) {
  if (tag.empty() || tag.size() > kMaxTagBytes) return false;
  for (const char c : tag)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
  return true;
}

bool is_caption(std::string_view caption) {
  if (caption.size() > kMaxCaptionBytes) return false;
  while (!caption.empty()) {
    int bytes = 0;
    const int32_t point = decode_utf8(caption, &bytes);
    if (point < 0x20 || (point >= 0x7F && point < 0xA0)) return false;
    caption.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

Status make_labels(std::span<const std::string_view> tags, std::string_view caption, int64_t expires, bool pinned,
                   EntryLabels* out) {
  *out = {};
  if (tags.size() > kMaxTags) return OCELLUS_FAIL(Code::kBadArgument, "a library entry has at most %d tags", kMaxTags);
  for (const std::string_view tag : tags) {
    if (!is_tag(tag))
      return OCELLUS_FAIL(Code::kBadArgument, "a tag has 1 to %d bytes and no control characters", kMaxTagBytes);
    out->tags.tags[out->tags.count++].assign(tag);
  }
  if (!is_caption(caption))
    return OCELLUS_FAIL(Code::kBadArgument, "a caption is UTF-8 of at most %d bytes without control characters",
                        kMaxCaptionBytes);
  out->caption.assign(caption);
  if (expires < 0) return OCELLUS_FAIL(Code::kBadArgument, "a library entry cannot expire before 1970");
  out->expires = expires;
  out->pinned = pinned;
  return {};
}

std::span<const std::string_view> view_tags(const EntryTags& tags, std::string_view (&views)[kMaxTags]) {
  for (int32_t i = 0; i < tags.count; ++i) views[i] = tags.tags[i].view();
  return {views, static_cast<size_t>(tags.count)};
}

LibraryKey library_key(const OwnerSecret& secret, const EntryFacts& facts) {
  // XXH3 needs a long secret; its own generator has changed between releases, so this one is ours.
  uint8_t drawn[XXH3_SECRET_SIZE_MIN + 56];
  static_assert(sizeof drawn % 16 == 0);
  for (size_t i = 0; i < sizeof drawn; i += 16) {
    XXH128_canonical_t piece;
    XXH128_canonicalFromHash(&piece, XXH3_128bits_withSeed(secret.bytes, sizeof secret.bytes, i));
    std::memcpy(drawn + i, piece.digest, sizeof piece.digest);
  }
  std::byte bytes[kFactsBytes];
  encode_facts(facts, bytes);
  const XXH128_hash_t hash = XXH3_128bits_withSecret(bytes, sizeof bytes, drawn, sizeof drawn);
  return {hash.high64, hash.low64};
}

KeyText key_text(const LibraryKey& key) {
  KeyText out;
  for (int i = 0; i < 32; ++i) {
    const uint64_t half = i < 16 ? key.high : key.low;
    out.text[i] = "0123456789abcdef"[half >> (60 - 4 * (i % 16)) & 15];
  }
  return out;
}

bool parse_key(std::string_view text, LibraryKey* out) {
  if (text.size() != 32) return false;
  *out = {};
  for (size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    const bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
    if (!is_digit && !is_letter) return false;
    uint64_t& half = i < 16 ? out->high : out->low;
    half = half << 4 | static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return true;
}

}  // namespace ocellus
