#include "quant/name_table.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace ocellus;

TEST_CASE("every inserted name is found under its index and no other is") {
  for (const int count : {0, 1, 2, 3, 1000, 65536}) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("blk." + std::to_string(i) + ".attn_q.weight");
    NameTable table;
    REQUIRE(table.create(count).ok());
    for (int i = 0; i < count; ++i) {
      int32_t earlier = 0;
      REQUIRE(table.insert(names[i], i, &earlier).ok());
      REQUIRE(earlier == -1);
    }
    for (int i = 0; i < count; ++i) {
      REQUIRE(table.find(names[i]) == i);
      REQUIRE(table.find("blk." + std::to_string(i) + ".attn_q.weigh") == -1);
    }
    CHECK(table.find("") == -1);
  }
}

TEST_CASE("a name inserted again keeps its first index") {
  NameTable table;
  REQUIRE(table.create(2).ok());
  int32_t earlier = 0;
  CHECK(table.insert("twin", 0, &earlier).ok());
  CHECK(table.insert(std::string_view("twins").substr(0, 4), 1, &earlier).ok());
  CHECK(earlier == 0);
  CHECK(table.find("twin") == 0);
}

TEST_CASE("a table is empty before it is created and after it is created anew") {
  NameTable table;
  CHECK(table.find("name") == -1);
  REQUIRE(table.create(4).ok());
  int32_t earlier = 0;
  REQUIRE(table.insert("name", 3, &earlier).ok());
  REQUIRE(table.create(4).ok());
  CHECK(table.find("name") == -1);
}

TEST_CASE("names chosen to collide are refused") {
  std::vector<std::string> names;
  for (uint64_t i = 0; names.size() < 300; ++i) {
    if (hash_name(std::to_string(i)) % 1024 == 0) names.push_back(std::to_string(i));
  }
  NameTable table;
  REQUIRE(table.create(512).ok());
  Status status;
  int32_t earlier = 0, inserted = 0;
  while (inserted < 300 && (status = table.insert(names[inserted], inserted, &earlier)).ok()) ++inserted;
  CHECK(inserted == 256);
  CHECK(status.code() == Code::kBadFile);
  CHECK(std::strstr(last_failure().sentence, "collide") != nullptr);
}
