// The image library's search for the nearest entries.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/branches/library/library_index.h"
#include "tests/support/library.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Random;
using test::TestLibrary;

constexpr int32_t kWidth = 130;

struct Put {
  LibraryKey key;
  std::string owner;
  std::vector<float> embedding;
};

Put put_embedding(TestLibrary& t, const std::string& owner, uint64_t picture, const std::vector<float>& embedding,
                  LibraryPart part = LibraryPart::kOwn) {
  EntryFacts facts = walk::facts_of(picture);
  facts.layer_count = 1;
  facts.embedding_width = static_cast<int32_t>(embedding.size());
  const std::vector<std::span<const std::byte>> blocks(2);
  LibraryKey key;
  const NewEntry entry{.facts = facts, .embedding = embedding, .blocks = blocks};
  REQUIRE_MESSAGE(t.library.put(owner, part, entry, &key).ok(), last_failure().sentence);
  return {key, part == LibraryPart::kShared ? "" : owner, embedding};
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0, left = 0, right = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * double{b[i]};
    left += double{a[i]} * double{a[i]};
    right += double{b[i]} * double{b[i]};
  }
  return product / std::sqrt(left * right);
}

/// The search finds what plain loops find.
void check_nearest(ImageLibrary& library, const std::vector<Put>& all, const std::string& owner,
                   const std::vector<float>& query, int32_t count) {
  std::vector<std::pair<double, size_t>> best;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].owner == owner || all[i].owner.empty()) best.emplace_back(cosine(query, all[i].embedding), i);
  std::sort(best.rbegin(), best.rend());
  best.resize(std::min<size_t>(best.size(), static_cast<size_t>(count)));
  Buffer<NearEntry> near;
  REQUIRE_MESSAGE(library.nearest(owner, walk::facts_of(1).model, query, count, &near).ok(), last_failure().sentence);
  REQUIRE(near.size() == static_cast<int64_t>(best.size()));
  for (size_t i = 0; i < best.size(); ++i) {
    const NearEntry& one = near[static_cast<int64_t>(i)];
    CHECK(std::fabs(double{one.similarity} - best[i].first) < 1e-6);
    const Put& expected = all[best[i].second];
    CHECK(one.key == expected.key);
    CHECK((one.part == LibraryPart::kShared) == expected.owner.empty());
  }
}

}  // namespace

TEST_CASE("a library's search finds the nearest of what the owner sees") {
  TestLibrary t;
  REQUIRE(t.library.create_shared("root").ok());
  Random random(70);
  std::vector<Put> all;
  for (uint64_t i = 0; i < 400; ++i) {
    const int64_t whose = random.integer(0, 4);
    const std::string owner = whose == 0 ? "root" : "owner" + std::to_string(whose);
    all.push_back(put_embedding(t, owner, i, random.normals(kWidth, i % 7 == 0 ? 1e-3f : 10.0f),
                                whose == 0 ? LibraryPart::kShared : LibraryPart::kOwn));
  }
  // Entries with another model's width, and without an embedding.
  put_embedding(t, "owner1", 1000, random.normals(64));
  t.put("owner1", 1001);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> query = random.normals(kWidth);
    if (round % 2 == 0) query = all[static_cast<size_t>(random.integer(0, 399))].embedding;
    check_nearest(t.library, all, "owner" + std::to_string(round % 5), query, round % 3 == 0 ? 1 : 10);
  }
  check_nearest(t.library, all, "owner1", all[0].embedding, 1000);
  t.reopen();
  check_nearest(t.library, all, "owner1", all[0].embedding, 10);
}

TEST_CASE("a library's search follows what comes and goes, here and in other processes") {
  TestLibrary t;
  Random random(71);
  std::vector<Put> all;
  const std::vector<float> query = random.normals(kWidth);
  ImageLibrary other;
  REQUIRE(other.open(t.config).ok());
  for (uint64_t round = 0; round < 60; ++round) {
    for (uint64_t i = 0; i < 4; ++i) {
      const uint64_t picture = random.bits() % 50;
      Put put = put_embedding(t, "ann", picture, random.normals(kWidth));
      std::erase_if(all, [&](const Put& old) { return old.key == put.key; });
      all.push_back(put);
    }
    const size_t gone = static_cast<size_t>(random.integer(0, static_cast<int64_t>(all.size()) - 1));
    bool found = false;
    REQUIRE(other.remove("ann", LibraryPart::kOwn, all[gone].key, &found).ok());
    CHECK(found);
    all.erase(all.begin() + static_cast<int64_t>(gone));
    if (round == 30) {
      // Everything goes but two, so that what is kept in memory is packed.
      while (all.size() > 2) {
        REQUIRE(other.remove("ann", LibraryPart::kOwn, all.back().key, &found).ok());
        all.pop_back();
      }
    }
    check_nearest(t.library, all, "ann", query, 5);
    check_nearest(other, all, "ann", query, 5);
    if (round == 45) std::filesystem::remove(t.folder / "catalogue.sqlite");
  }
}

TEST_CASE("a library's search refuses what has no direction, and finds nothing among nothing") {
  TestLibrary t;
  Buffer<NearEntry> near;
  const std::vector<float> zeros(kWidth), ones(kWidth, 1.0f), endless(kWidth, INFINITY);
  const Hash128 model = walk::facts_of(1).model;
  CHECK(t.library.nearest("ann", model, zeros, 3, &near).code() == Code::kBadArgument);
  CHECK(t.library.nearest("ann", model, endless, 3, &near).code() == Code::kBadArgument);
  CHECK(t.library.nearest("ann", model, ones, 0, &near).code() == Code::kBadArgument);
  CHECK(t.library.nearest("ann", model, ones, 3, &near).ok());
  CHECK(near.empty());
  put_embedding(t, "ann", 1, ones);
  CHECK(t.library.nearest("ann", {9, 9}, ones, 3, &near).ok());
  CHECK(near.empty());
  CHECK(t.library.nearest("ann", model, ones, 3, &near).ok());
  REQUIRE(near.size() == 1);
  CHECK(near[0].similarity > 0.999999f);
}

TEST_CASE("a library's search among very many entries finds the near ones of the right owners") {
  constexpr int64_t kRows = 9000, kCentres = 300;
  Catalogue catalogue;
  REQUIRE(catalogue.open_in_memory().ok());
  OwnerRecord owners[2];
  owners[0].name.assign("ann");
  owners[1].name.assign("bob");
  for (OwnerRecord& owner : owners) REQUIRE(catalogue.save_owner(&owner).ok());
  Random random(72);
  const std::vector<float> centres = random.normals(kCentres * kWidth);
  EntryHeader header;
  header.facts = walk::facts_of(1);
  header.facts.embedding_width = kWidth;
  REQUIRE(header.embedding.resize(kWidth).ok());
  const auto near_centre = [&](int64_t centre) {
    std::vector<float> embedding = random.normals(kWidth, 0.4f);
    for (int64_t w = 0; w < kWidth; ++w)
      embedding[static_cast<size_t>(w)] += centres[static_cast<size_t>(centre * kWidth + w)];
    return embedding;
  };
  std::vector<std::vector<float>> all;
  REQUIRE(catalogue.begin().ok());
  for (int64_t row = 0; row < kRows; ++row) {
    all.push_back(near_centre(row % kCentres));
    std::copy(all.back().begin(), all.back().end(), header.embedding.data());
    header.key.low = static_cast<uint64_t>(row);
    header.labels.expires = row % 10 == 5 ? 100 : 0;
    REQUIRE(catalogue.save_entry(owners[row % 20 == 0 ? 1 : 0].id, header, 0).ok());
  }
  REQUIRE(catalogue.commit().ok());
  LibraryIndex index;
  int64_t right = 0, asked = 0;
  for (int64_t round = 0; round < 40; ++round) {
    const std::vector<float> query = near_centre(round * 7 % kCentres);
    std::vector<std::pair<double, int64_t>> best;
    for (int64_t row = 0; row < kRows; ++row)
      if (row % 20 != 0 && row % 10 != 5) best.emplace_back(cosine(query, all[static_cast<size_t>(row)]), row + 1);
    std::sort(best.rbegin(), best.rend());
    Buffer<LibraryIndex::Near> near;
    REQUIRE(index.search(catalogue, {{&owners[0].id, 1}, header.facts.model, query, 100, 5}, &near).ok());
    REQUIRE(near.size() == 5);
    for (const LibraryIndex::Near& one : near) {
      CHECK((one.id - 1) % 20 != 0);
      CHECK((one.id - 1) % 10 != 5);
    }
    for (size_t i = 0; i < 5; ++i, ++asked)
      right += std::any_of(near.begin(), near.end(), [&](const auto& one) { return one.id == best[i].second; });
  }
  CHECK(right == asked);
}

}  // namespace ocellus
