#include <cmath>
#include <cstring>

#include "quant/gguf_names.h"
#include "quant/name_table.h"
#include "runtime/vocabulary/tokenizer.h"
#include "runtime/vocabulary/tokenizer_vocabulary.h"

namespace ocellus {
namespace {

struct PreTokenizerName {
  std::string_view name;
  PreTokenizer pre_tokenizer;
};
constexpr PreTokenizerName kPreTokenizerNames[] = {
    {"gpt-2", PreTokenizer::kGpt2},
    {"phi-2", PreTokenizer::kGpt2},
    {"smollm", PreTokenizer::kSmollm},
    {"qwen2", PreTokenizer::kQwen2},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2},
    {"llama-bpe", PreTokenizer::kLlamaBpe},
    {"llama3", PreTokenizer::kLlamaBpe},
    {"llama-v3", PreTokenizer::kLlamaBpe},
    {"pixtral", PreTokenizer::kLlamaBpe},
    {"lfm2", PreTokenizer::kLlamaBpe},
    {"tekken", PreTokenizer::kTekken},
};

Status read_kind(const GgufFile& file, VocabularyFacts* facts) {
  std::string_view model;
  OCELLUS_TRY(file.require_string("tokenizer.ggml.model", &model));
  if (model == "llama") {
    facts->kind = VocabularyKind::kSentencePiece;
    facts->add_bos = facts->add_space_prefix = true;
    std::string_view architecture;
    OCELLUS_TRY(file.read_string("general.architecture", &architecture));
    facts->renames_nul = architecture == "internlm2";
    return {};
  }
  if (model == "gemma4") {
    facts->kind = VocabularyKind::kSpacedPair;
    facts->add_bos = true;
    return {};
  }
  if (model != "gpt2") {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "tokenizer.ggml.model is \"%.*s\": use a model with a gpt2, llama or gemma4 tokenizer",
                        shown_bytes(model), model.data());
  }
  std::string_view pre;
  OCELLUS_TRY(file.read_string("tokenizer.ggml.pre", &pre));
  if (pre.empty()) {
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "tokenizer.ggml.pre is missing: convert the model again with a tool that records the pre-tokenizer");
  }
  for (const PreTokenizerName& known : kPreTokenizerNames) {
    if (pre != known.name) continue;
    facts->pre_tokenizer = known.pre_tokenizer;
    facts->add_bos = facts->ignore_merges = known.pre_tokenizer >= PreTokenizer::kLlamaBpe;
    return {};
  }
  return OCELLUS_FAIL(Code::kUnsupported,
                      "tokenizer.ggml.pre is \"%.*s\": use a model with gpt-2, smollm, qwen2, llama-bpe or tekken",
                      shown_bytes(pre), pre.data());
}

Status require_strings(const GgufFile& file, const char* key, int64_t most, const GgufEntry** out) {
  OCELLUS_TRY(file.read_array(key, GgufType::kString, out));
  if (*out == nullptr) return OCELLUS_FAIL(Code::kBadFile, "%s is missing: the file has no complete vocabulary", key);
  const uint64_t count = (*out)->count;
  if (count == 0 || count > static_cast<uint64_t>(most)) {
    return OCELLUS_FAIL(Code::kBadFile, "%s has %llu entries: 1 to %lld are possible", key,
                        static_cast<unsigned long long>(count), static_cast<long long>(most));
  }
  return {};
}

// Reads an optional array with one entry per token.
Status read_beside_tokens(const GgufFile& file, const char* key, GgufType type, int64_t token_count,
                          const GgufEntry** out) {
  OCELLUS_TRY(file.read_array(key, type, out));
  if (*out == nullptr || (*out)->count == static_cast<uint64_t>(token_count)) return {};
  return OCELLUS_FAIL(Code::kBadFile, "%s has %llu entries for %lld tokens", key,
                      static_cast<unsigned long long>((*out)->count), static_cast<long long>(token_count));
}

Status read_special_ids(const GgufFile& file, VocabularyFacts* facts) {
  const bool has_usual_ids = facts->kind == VocabularyKind::kSentencePiece && facts->token_count > 2;
  if (has_usual_ids) {  // <unk>, <s>, </s>: the defaults of SentencePiece files that name none
    facts->unknown = 0;
    facts->bos = 1;
    facts->eos = 2;
  }
  const struct {
    const char* key;
    TokenId* id;
  } keys[] = {
      {"tokenizer.ggml.bos_token_id", &facts->bos},         {"tokenizer.ggml.eos_token_id", &facts->eos},
      {"tokenizer.ggml.eot_token_id", &facts->eot},         {"tokenizer.ggml.eom_token_id", &facts->eom},
      {"tokenizer.ggml.unknown_token_id", &facts->unknown}, {"tokenizer.ggml.padding_token_id", &facts->padding},
  };
  for (const auto& entry : keys) {
    constexpr int64_t kNone = UINT32_MAX;  // kNoToken in files that have no sign
    int64_t id = *entry.id;
    OCELLUS_TRY(file.read_int(entry.key, kNoToken, kNone, &id));
    if (id == kNone) id = kNoToken;
    if (id >= facts->token_count) OCELLUS_TRY(file.read_int(entry.key, kNoToken, facts->token_count - 1, &id));
    *entry.id = static_cast<TokenId>(id);
  }
  OCELLUS_TRY(file.read_bool("tokenizer.ggml.add_bos_token", &facts->add_bos));
  OCELLUS_TRY(file.read_bool("tokenizer.ggml.add_eos_token", &facts->add_eos));
  return file.read_bool("tokenizer.ggml.add_space_prefix", &facts->add_space_prefix);
}

Status check_token(const SpelledToken& token, TokenId id) {
  if (token.kind_number < static_cast<int32_t>(TokenKind::kNormal) ||
      token.kind_number > static_cast<int32_t>(TokenKind::kByte)) {
    return OCELLUS_FAIL(Code::kBadFile, "%s of token %d is %d: 1 to 6 are possible", vocabulary_key::kTokenKinds, id,
                        token.kind_number);
  }
  if (token.spelling.size() > static_cast<size_t>(kMaxTokenBytes)) {
    return OCELLUS_FAIL(Code::kBadFile, "%s: token %d has %llu bytes, at most %lld are possible",
                        vocabulary_key::kTokens, id, static_cast<unsigned long long>(token.spelling.size()),
                        static_cast<long long>(kMaxTokenBytes));
  }
  if (token.kind() == TokenKind::kByte && decode_byte_token(token.spelling) < 0) {
    return OCELLUS_FAIL(Code::kBadFile, "%s: byte token %d is not written <0xNN> with two hexadecimal digits",
                        vocabulary_key::kTokens, id);
  }
  return {};
}

Status check_tokens(const GgufFile& file, VocabularyFacts* facts, NameTable* names) {
  OCELLUS_TRY(names->create(facts->token_count));
  SpelledTokens tokens(file, *facts);
  for (TokenId id = 0; id < facts->token_count; ++id) {
    const SpelledToken token = tokens.next();
    OCELLUS_TRY(check_token(token, id));
    if (token.spelling.empty()) continue;  // rows that no text reaches
    int32_t earlier = -1;
    OCELLUS_TRY(names->insert(token.spelling, id, &earlier));
    if (earlier >= 0) {
      return OCELLUS_FAIL(Code::kBadFile, "%s: tokens %d and %d have the same text", vocabulary_key::kTokens, earlier,
                          id);
    }
    facts->special_count += is_special_kind(token.kind()) ? 1 : 0;
    facts->text_bytes += decode_spelling(facts->kind, token.kind(), token.spelling, nullptr);
  }
  if (facts->text_bytes > INT32_MAX) {
    return OCELLUS_FAIL(Code::kBadFile, "%s holds more than 2 GiB of text", vocabulary_key::kTokens);
  }
  return {};
}

Status check_merges(const GgufFile& file, const NameTable& names, VocabularyFacts* facts) {
  const GgufEntry* merges = nullptr;
  OCELLUS_TRY(require_strings(file, vocabulary_key::kMerges, kMaxMergeCount, &merges));
  facts->merge_count = static_cast<int32_t>(merges->count);
  GgufStrings lines(*merges);
  for (int32_t rank = 0; rank < facts->merge_count; ++rank) {
    const std::string_view line = lines.next();
    std::string_view left, right;
    if (!split_merge(line, &left, &right)) {
      return OCELLUS_FAIL(Code::kBadFile, "%s: merge %d is not two texts with a space between", vocabulary_key::kMerges,
                          rank);
    }
    char merged[2 * kMaxTokenBytes];
    const bool short_enough = left.size() <= kMaxTokenBytes && right.size() <= kMaxTokenBytes;
    if (short_enough) {
      std::memcpy(merged, left.data(), left.size());
      std::memcpy(merged + left.size(), right.data(), right.size());
    }
    if (!short_enough || names.find(left) < 0 || names.find(right) < 0 ||
        names.find({merged, left.size() + right.size()}) < 0) {
      return OCELLUS_FAIL(Code::kBadFile, "%s: merge %d names a text that is no token", vocabulary_key::kMerges, rank);
    }
  }
  return {};
}

Status check_scores(const GgufFile& file, const VocabularyFacts& facts) {
  const GgufEntry* scores = nullptr;
  OCELLUS_TRY(read_beside_tokens(file, vocabulary_key::kScores, GgufType::kF32, facts.token_count, &scores));
  if (scores == nullptr) {
    return OCELLUS_FAIL(Code::kBadFile, "%s is missing: a llama tokenizer needs one score per token",
                        vocabulary_key::kScores);
  }
  for (TokenId id = 0; id < facts.token_count; ++id) {
    float score = 0;
    std::memcpy(&score, scores->payload + int64_t{id} * 4, sizeof(score));
    if (!std::isfinite(score)) {
      return OCELLUS_FAIL(Code::kBadFile, "%s: the score of token %d is not a finite number", vocabulary_key::kScores,
                          id);
    }
  }
  return {};
}

}  // namespace

Status read_vocabulary_facts(const GgufFile& file, VocabularyFacts* out) {
  VocabularyFacts facts;
  OCELLUS_TRY(read_kind(file, &facts));
  const GgufEntry* tokens = nullptr;
  OCELLUS_TRY(require_strings(file, vocabulary_key::kTokens, kMaxTokenCount, &tokens));
  facts.token_count = static_cast<int32_t>(tokens->count);
  const GgufEntry* kinds = nullptr;
  OCELLUS_TRY(read_beside_tokens(file, vocabulary_key::kTokenKinds, GgufType::kI32, facts.token_count, &kinds));
  OCELLUS_TRY(read_special_ids(file, &facts));
  NameTable names;
  OCELLUS_TRY(check_tokens(file, &facts, &names));
  if (facts.merges_by_rank()) {
    OCELLUS_TRY(check_merges(file, names, &facts));
  } else {
    OCELLUS_TRY(check_scores(file, facts));
  }
  *out = facts;
  return {};
}

}  // namespace ocellus
