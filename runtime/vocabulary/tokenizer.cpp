#include "runtime/vocabulary/tokenizer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/base/hash_term.h"
#include "quant/name_table.h"
#include "runtime/vocabulary/tokenizer_utf8.h"
#include "runtime/vocabulary/tokenizer_vocabulary.h"

namespace ocellus {
namespace {

// Ordinary texts and pairs need a few dozen probes at most; more means a file made to slow the tokenizer down.
constexpr int64_t kMaxProbes = 256;

int64_t slots_for(int64_t count) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * count))); }

uint64_t hash_pair(TokenId left, TokenId right) {
  return mix_bits(static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right));
}

// Puts `index` into the first free slot from `hash` on. If `same(i)` is true for the content i of a slot, that slot has
// the same key and stays as it is.
template <class Same>
Status insert_slot(int32_t* slots, int64_t slot_count, uint64_t hash, int32_t index, const Same& same) {
  const uint64_t mask = static_cast<uint64_t>(slot_count) - 1;
  for (uint64_t probe = 0; probe < static_cast<uint64_t>(kMaxProbes); ++probe) {
    int32_t& slot = slots[(hash + probe) & mask];
    if (slot == 0) {
      slot = index + 1;
      return {};
    }
    if (same(slot - 1)) return {};
  }
  return OCELLUS_FAIL(Code::kBadFile, "the vocabulary's texts or merges were chosen to collide in a hash table");
}

// Calls `visit(i)` for the content of each slot that may hold the key, until it returns true.
template <class Visit>
void visit_slots(const int32_t* slots, int64_t slot_count, uint64_t hash, const Visit& visit) {
  const uint64_t mask = static_cast<uint64_t>(slot_count) - 1;
  for (uint64_t probe = 0; probe < static_cast<uint64_t>(kMaxProbes); ++probe) {
    const int32_t slot = slots[(hash + probe) & mask];
    if (slot == 0 || visit(slot - 1)) return;
  }
}

template <class T>
Status take_table(RowSink& sink, const char* name, const char* dtype, int64_t rows, int64_t cols, T** out) {
  *out = nullptr;
  if (rows == 0) return {};
  RowSpec row;
  row.name = name;
  row.lifetime = Lifetime::kWeights;
  row.place = Place::kHost;
  row.dtype = dtype;
  row.shape[0] = rows;
  row.shape[1] = cols;
  row.bytes = rows * static_cast<int64_t>(sizeof(T));
  std::byte* data = nullptr;
  OCELLUS_TRY(sink.take(row, &data));
  *out = reinterpret_cast<T*>(data);
  return {};
}

}  // namespace

Status Tokenizer::take_tables(RowSink& sink) {
  const int64_t count = facts_.token_count;
  const bool by_rank = facts_.merges_by_rank();
  text_slot_count_ = slots_for(count);
  merge_slot_count_ = by_rank ? slots_for(facts_.merge_count) : 0;
  OCELLUS_TRY(take_table(sink, "vocabulary texts", "u8", facts_.text_bytes, 1, &texts_));
  OCELLUS_TRY(take_table(sink, "vocabulary text offsets", "i32", count + 1, 1, &offsets_));
  OCELLUS_TRY(take_table(sink, "vocabulary kinds", "u8", count, 1, &kinds_));
  OCELLUS_TRY(take_table(sink, "vocabulary text slots", "i32", text_slot_count_, 1, &text_slots_));
  OCELLUS_TRY(take_table(sink, "vocabulary specials", "i32", facts_.special_count, 1, &specials_));
  OCELLUS_TRY(take_table(sink, "vocabulary bytes", "i32", 256, 1, &byte_tokens_));
  OCELLUS_TRY(take_table(sink, "vocabulary merges", "i32", facts_.merge_count, 3, &merges_));
  OCELLUS_TRY(take_table(sink, "vocabulary merge slots", "i32", merge_slot_count_, 1, &merge_slots_));
  return take_table(sink, "vocabulary scores", "f32", by_rank ? 0 : count, 1, &scores_);
}

Status Tokenizer::build(const GgufFile& file, const VocabularyFacts& facts, RowSink& sink) {
  facts_ = facts;
  OCELLUS_TRY(take_tables(sink));
  if (texts_ == nullptr) return {};
  fill_texts(file);
  fill_specials();
  OCELLUS_TRY(fill_text_slots());
  if (facts_.merges_by_rank()) return fill_merges(file);
  std::memcpy(scores_, file.find(vocabulary_key::kScores)->payload,
              static_cast<size_t>(facts_.token_count) * sizeof(float));
  return {};
}

void Tokenizer::fill_texts(const GgufFile& file) {
  const bool byte_pair = facts_.kind == VocabularyKind::kBytePair;
  std::fill_n(byte_tokens_, 256, kNoToken);
  longest_normal_ = 0;
  SpelledTokens tokens(file, facts_);
  offsets_[0] = 0;
  for (TokenId id = 0; id < facts_.token_count; ++id) {
    const SpelledToken token = tokens.next();
    const int64_t bytes = decode_spelling(facts_.kind, token.kind(), token.spelling, texts_ + offsets_[id]);
    offsets_[id + 1] = offsets_[id] + static_cast<int32_t>(bytes);
    kinds_[id] = static_cast<uint8_t>(token.kind_number | (token.ends_generation ? kEndsGeneration : 0));
    int byte = -1;
    if (byte_pair && token.kind() == TokenKind::kNormal) byte = decode_byte_level(token.spelling);
    if (!byte_pair && token.kind() == TokenKind::kByte) byte = decode_byte_token(token.spelling);
    if (byte >= 0 && byte_tokens_[byte] == kNoToken) byte_tokens_[byte] = id;
    if (token.kind() == TokenKind::kNormal) longest_normal_ = std::max(longest_normal_, bytes);
  }
}

void Tokenizer::fill_specials() {
  int64_t count = 0;
  for (TokenId id = 0; id < facts_.token_count; ++id) {
    if (is_special_kind(kind_of(id)) && !text_of(id).empty()) specials_[count++] = id;
  }
  // Equal texts can only come from different spellings; the lower id is first and wins.
  std::sort(specials_, specials_ + count, [this](TokenId a, TokenId b) {
    const int order = text_of(a).compare(text_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::fill_n(special_starts_, 256, false);
  for (int64_t i = 0; i < count; ++i) special_starts_[static_cast<uint8_t>(text_of(specials_[i])[0])] = true;
}

Status Tokenizer::fill_text_slots() {
  std::fill_n(text_slots_, text_slot_count_, 0);
  for (TokenId id = 0; id < facts_.token_count; ++id) {
    if (text_of(id).empty()) continue;
    // Tokens with equal texts are all kept: look-ups choose by kind, then by id.
    OCELLUS_TRY(insert_slot(text_slots_, text_slot_count_, hash_name(text_of(id)), id, [](int32_t) { return false; }));
  }
  return {};
}

TokenId Tokenizer::find_spelled(std::string_view spelling) const {
  char text[2 * kMaxTokenBytes];
  const int64_t bytes = decode_spelling(facts_.kind, TokenKind::kNormal, spelling, text);
  const TokenId id = find_normal({text, static_cast<size_t>(bytes)});
  return id != kNoToken ? id : find(spelling);
}

Status Tokenizer::fill_merges(const GgufFile& file) {
  std::fill_n(merge_slots_, merge_slot_count_, 0);
  GgufStrings lines(*file.find(vocabulary_key::kMerges));
  for (int32_t rank = 0; rank < facts_.merge_count; ++rank) {
    std::string_view left, right;
    split_merge(lines.next(), &left, &right);
    char joined[2 * kMaxTokenBytes];
    std::memcpy(joined, left.data(), left.size());
    std::memcpy(joined + left.size(), right.data(), right.size());
    const Merge merge = {find_spelled(left), find_spelled(right), find_spelled({joined, left.size() + right.size()})};
    if (merge.left == kNoToken || merge.right == kNoToken || merge.merged == kNoToken) {
      return OCELLUS_FAIL(Code::kBadFile, "%s: merge %d names a text that no ordinary token has",
                          vocabulary_key::kMerges, rank);
    }
    merges_[rank] = merge;
    OCELLUS_TRY(insert_slot(
        merge_slots_, merge_slot_count_, hash_pair(merge.left, merge.right), rank,
        [&](int32_t earlier) { return merges_[earlier].left == merge.left && merges_[earlier].right == merge.right; }));
  }
  return {};
}

std::string_view Tokenizer::piece(TokenId id, bool show_special) const {
  if (id < 0 || id >= facts_.token_count) return {};
  const TokenKind kind = kind_of(id);
  const bool hidden = kind == TokenKind::kControl || kind == TokenKind::kUnknown || kind == TokenKind::kUnused;
  return hidden && !show_special ? std::string_view() : text_of(id);
}

TokenId Tokenizer::find(std::string_view token_text) const {
  TokenId special = kNoToken;
  TokenId other = kNoToken;
  visit_slots(text_slots_, text_slot_count_, hash_name(token_text), [&](TokenId id) {
    if (text_of(id) != token_text) return false;
    TokenId& found = is_special_kind(kind_of(id)) ? special : other;
    if (found == kNoToken) found = id;
    return false;
  });
  return special != kNoToken ? special : other;
}

TokenId Tokenizer::find_normal(std::string_view token_text) const {
  TokenId found = kNoToken;
  if (static_cast<int64_t>(token_text.size()) > longest_normal_) return found;
  visit_slots(text_slots_, text_slot_count_, hash_name(token_text), [&](TokenId id) {
    if (kind_of(id) == TokenKind::kNormal && text_of(id) == token_text) found = id;
    return found != kNoToken;
  });
  return found;
}

int32_t Tokenizer::find_merge(TokenId left, TokenId right) const {
  int32_t found = -1;
  visit_slots(merge_slots_, merge_slot_count_, hash_pair(left, right), [&](int32_t rank) {
    if (merges_[rank].left == left && merges_[rank].right == right) found = rank;
    return found >= 0;
  });
  return found;
}

// The specials are sorted: those that match the text so far form a range, which narrows byte by byte. A special that
// ends at this depth is the first of its range.
TokenId Tokenizer::match_special(std::string_view text, bool parse_special) const {
  if (text.empty() || !special_starts_[static_cast<uint8_t>(text[0])]) return kNoToken;
  const TokenId* low = specials_;
  const TokenId* high = specials_ + facts_.special_count;
  TokenId longest = kNoToken;
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const auto wanted = static_cast<uint8_t>(text[depth]);
    const auto byte_at_depth = [&](TokenId id) { return static_cast<uint8_t>(text_of(id)[depth]); };
    low = std::partition_point(low, high, [&](TokenId id) { return byte_at_depth(id) < wanted; });
    high = std::partition_point(low, high, [&](TokenId id) { return byte_at_depth(id) == wanted; });
    if (low == high) return longest;
    TokenId complete = kNoToken;
    for (; low != high && text_of(*low).size() == depth + 1; ++low) {
      const bool allowed = parse_special || kind_of(*low) == TokenKind::kUserDefined;
      if (allowed && complete == kNoToken) complete = *low;
    }
    if (complete != kNoToken) longest = complete;
  }
  return longest;
}

TokenId Tokenizer::find_control(std::string_view text, size_t* at) const {
  for (*at = 0; *at < text.size();) {
    const TokenId special = match_special(slice(text, *at), true);
    if (special != kNoToken && kind_of(special) != TokenKind::kUserDefined) return special;
    *at += special == kNoToken ? 1 : text_of(special).size();
  }
  return kNoToken;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return id >= 0 && id < facts_.token_count && (kinds_[id] & kEndsGeneration) != 0;
}

}  // namespace ocellus
