// Nearest entries by their retrieval embeddings: 8-bit copies of all are scanned, and the best are compared by the
// embeddings themselves. Follows all changes of the catalogue.
#pragma once

#include <cstdint>
#include <span>

#include "platform/buffer.h"
#include "platform/status.h"
#include "runtime/branches/library/library_catalogue.h"

namespace ocellus {

class LibraryIndex {
 public:
  struct Near {
    int64_t id = 0;  // id in the catalogue
    float similarity = 0;
  };
  struct Question {
    std::span<const int64_t> owners;  // owners whose entries count
    Hash128 model = {};
    std::span<const float> embedding;
    int64_t now = 0;
    int32_t count = 0;
  };

  /// Clears the index; the next search reads the catalogue again.
  void reset();
  /// Finds at most question.count entries, the nearest first. Applies the catalogue's changes first.
  Status search(Catalogue& catalogue, const Question& question, Buffer<Near>* out);

 private:
  /// Embeddings of one model and width. Rows are in the order of their ids, which only grow; rows of removed entries
  /// have owner 0 until the group is packed.
  struct Group {
    Hash128 model = {};
    int64_t width = 0;
    int64_t padded_width = 0;
    int64_t gone = 0;
    Buffer<int64_t> ids, owners, expires;
    Buffer<float> steps;   // scales of the codes, with the length of the embedding divided out
    Buffer<int8_t> codes;  // [rows, padded_width]
  };

  Status follow(Catalogue& catalogue);
  Status add(const CatalogueVector& vector);
  bool is_known(int64_t id) const;
  void drop(int64_t id);
  static void pack(Group* group);
  Group* find_group(const Hash128& model, int64_t width);
  static Status scan(const Group& group, const Question& question, Buffer<Near>* candidates);

  static constexpr int32_t kMaxGroups = 64;
  std::unique_ptr<Group> groups_[kMaxGroups];
  int32_t group_count_ = 0;
  int64_t last_change_ = 0;
  bool is_loaded_ = false;
};

}  // namespace ocellus
