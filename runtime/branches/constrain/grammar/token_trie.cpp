#include "runtime/branches/constrain/grammar/token_trie.h"

#include <algorithm>

namespace ocellus {

static_assert(ByteTrie::kMostDepth >= kMaxTokenBytes);

/// At most as many nodes as there are bytes.
Status TokenTrie::build(const Tokenizer& tokenizer, RowSink& sink) {
  tokenizer_ = &tokenizer;
  const VocabularyFacts& facts = tokenizer.facts();
  constexpr Lifetime kLife = Lifetime::kWeights;
  OCELLUS_TRY(take_rows(sink, "sorted vocabulary", kLife, Phase::kNone, 1, facts.token_count, &sorted_));
  OCELLUS_TRY(take_rows(sink, "vocabulary trie", kLife, Phase::kNone, 1, facts.text_bytes + 1, &nodes_));
  OCELLUS_TRY(take_rows(sink, "end tokens", kLife, Phase::kNone, 1, facts.special_count + kNamedEnds, &ends_));
  return nodes_.data == nullptr ? Status() : fill();
}

Status TokenTrie::fill() {
  const Tokenizer& tokenizer = *tokenizer_;
  count_ = 0;
  end_count_ = 0;
  for (TokenId id = 0; id < tokenizer.token_count(); ++id) {
    if (tokenizer.is_end_of_generation(id))
      ends_.data[end_count_++] = id;
    else if (const std::string_view text = tokenizer.piece(id, false); !text.empty() && !TokenCode::is_in(text))
      sorted_.data[count_++] = id;
  }
  const auto text_of = [&](TokenId id) { return tokenizer.piece(id, false); };
  std::sort(sorted_.data, sorted_.data + count_, [&](TokenId a, TokenId b) {
    const int order = text_of(a).compare(text_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  for (int32_t i = 0; i < count_; ++i)
    if (text(i).size() == 1) single_bytes_.add(static_cast<uint8_t>(text(i)[0]));
  GrowingArray<ByteTrie::Node> nodes(nodes_.data, nodes_.cols * int64_t{sizeof(ByteTrie::Node)});
  if (build_trie(
          count_, [&](int32_t i) { return text(i); }, &nodes, &trie_))
    return {};
  return OCELLUS_FAIL(Code::kInternal, "the vocabulary's trie does not fit its row");
}

}  // namespace ocellus
