// Texts of any bytes with vocabularies of every kind, in a workspace of exactly the planned size.
#include <memory>
#include <string>

#include "runtime/vocabulary/tokenizer.h"
#include "tests/fuzz/text_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr const char* kVocabularies[] = {"gpt-2", "llama-bpe", "llama", "qwen2", "smollm"};
constexpr const char* kPieces[] = {"<|im_start|>",
                                   "<|im_end|>",
                                   "<|endoftext|>",
                                   "<s>",
                                   "</s>",
                                   "<unk>",
                                   "<0x0A>",
                                   "<|eot_id|>",
                                   "'s",
                                   "'LL",
                                   "  ",
                                   "\n\n",
                                   "\r\n",
                                   "\t",
                                   "1234567",
                                   "a",
                                   "Ab",
                                   "!?",
                                   "\xe2\x96\x81",
                                   "\xc2\xa0",
                                   "\xe3\x80\x80",
                                   "\xcc\x81",
                                   "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
                                   "\xe4\xb8\xad",
                                   "\xd8\xb9",
                                   "\xed\xa0\x80",
                                   "\xf5\x80\x80\x80",
                                   "\xc0\x80",
                                   "\xff",
                                   "\xe2\x82",
                                   "\xef\xbb\xbf",
                                   "\xd9\xa3",
                                   "\xe0\xa5\xa9",
                                   "\xc5\xbf",
                                   "'\xc5\xbf"};

// Rows on the heap, each exactly as large as it was planned.
class HeapRows : public RowSink {
 public:
  Status take(const RowSpec& row, std::byte** out) override {
    blocks_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(row.bytes)));
    *out = blocks_.back().get();
    return {};
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

struct Vocabulary {
  explicit Vocabulary(const char* name) {
    const std::string path = std::string("tests/data/tokenizers/") + name + ".gguf";
    const Bytes bytes = read_source_file(path.c_str());
    GgufFile file;
    VocabularyFacts facts;
    require(file.parse(bytes.data(), static_cast<int64_t>(bytes.size())).ok(), "the vocabulary's file is sound");
    require(read_vocabulary_facts(file, &facts).ok(), "the vocabulary is sound");
    require(tokenizer.build(file, facts, rows).ok(), "the tokenizer can be built");
    file.close();
  }
  HeapRows rows;
  Tokenizer tokenizer;
};

const Tokenizer& vocabulary(size_t number) {
  static std::vector<std::unique_ptr<Vocabulary>> all;
  if (all.empty())
    for (const char* name : kVocabularies) all.push_back(std::make_unique<Vocabulary>(name));
  return all[number % all.size()]->tokenizer;
}

// The first byte chooses the vocabulary and how texts are read.
bool run(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const Tokenizer& tokenizer = vocabulary(data[0] % 8);
  const bool parse_special = (data[0] & 8) != 0, continues = (data[0] & 16) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const int64_t workspace_bytes = Tokenizer::workspace_bytes(static_cast<int64_t>(text.size()));
  const std::unique_ptr<std::byte[]> workspace(new std::byte[static_cast<size_t>(workspace_bytes)]);
  std::vector<TokenId> ids(text.size() + 1);
  int64_t count = 0;
  require(tokenizer
              .encode(text, parse_special, workspace.get(), workspace_bytes, ids.data(),
                      static_cast<int64_t>(ids.size()), &count, continues)
              .ok(),
          "any text can be encoded in the planned workspace");
  std::string back;
  for (int64_t i = 0; i < count; ++i) {
    const TokenId id = ids[static_cast<size_t>(i)];
    require(id >= 0 && id < tokenizer.token_count(), "tokens are of the vocabulary");
    back += tokenizer.piece(id, /*show_special=*/true);
  }
  if (tokenizer.facts().kind == VocabularyKind::kBytePair) require(back == text, "tokens are the text in pieces");
  return true;
}

std::vector<Bytes> make_seeds() {
  std::vector<Bytes> seeds;
  const std::string text =
      "What's in the picture? 12345 <|im_end|>\n\n  \xc3\xa9t\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 </s>";
  for (const uint8_t choice : {0, 1, 2, 3, 4, 8 + 0, 8 + 1, 8 + 2, 8 + 3, 8 + 4, 16 + 2, 24 + 2}) {
    seeds.push_back({choice});
    seeds.back().insert(seeds.back().end(), text.begin(), text.end());
  }
  return seeds;
}

void change_text(Bytes& input, Random& random) {
  if (input.empty()) input.push_back(0);
  if (once_in(5, random))
    input[0] = static_cast<uint8_t>(random.bits());
  else
    change_pieces(input, 1, kPieces, random);
}

const Registration kRegistered({.name = "tokenizer",
                                .make_seeds = make_seeds,
                                .mutate = change_text,
                                .run = run,
                                .most_bytes = 8192,
                                .most_heap_bytes = int64_t{8} << 20});

}  // namespace
}  // namespace ocellus::fuzz
