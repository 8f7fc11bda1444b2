#include "runtime/branches/library/library_index.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "kernels/search/nearest_rows.h"
#include "platform/round_up.h"

namespace ocellus {
namespace {

double length_of(std::span<const float> numbers) {
  double square = 0;
  for (const float number : numbers) square += static_cast<double>(number) * static_cast<double>(number);
  return std::sqrt(square);
}

float greatest_of(std::span<const float> numbers) {
  float greatest = 0;
  for (const float number : numbers) greatest = std::max(greatest, std::fabs(number));
  return greatest;
}

/// Adds elements, with room for as many again.
template <class T>
Status grow(Buffer<T>* buffer, int64_t count) {
  const int64_t size = buffer->size() + count;
  if (size > buffer->capacity()) OCELLUS_TRY(buffer->reserve(2 * size));
  return buffer->resize(size);
}

}  // namespace

void LibraryIndex::reset() {
  for (int32_t i = 0; i < group_count_; ++i) groups_[i].reset();
  group_count_ = 0;
  last_change_ = 0;
  is_loaded_ = false;
}

LibraryIndex::Group* LibraryIndex::find_group(const Hash128& model, int64_t width) {
  for (int32_t i = 0; i < group_count_; ++i)
    if (groups_[i]->model == model && groups_[i]->width == width) return groups_[i].get();
  return nullptr;
}

Status LibraryIndex::add(const CatalogueVector& vector) {
  const auto width = static_cast<int64_t>(vector.embedding.size());
  const float greatest = greatest_of(vector.embedding);
  const double length = length_of(vector.embedding);
  if (!(greatest > 0) || !std::isfinite(length)) return {};  // no direction
  Group* group = find_group(vector.model, width);
  if (group == nullptr) {
    if (group_count_ == kMaxGroups)
      return OCELLUS_FAIL(Code::kUnsupported, "a library searches entries of at most %d models", kMaxGroups);
    groups_[group_count_].reset(new (std::nothrow) Group);
    group = groups_[group_count_].get();
    if (group == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for the library's index");
    ++group_count_;
    group->model = vector.model;
    group->width = width;
    group->padded_width = round_up(width, kNearestRowsWidth);
  }
  const int64_t first = group->codes.size();
  OCELLUS_TRY(grow(&group->codes, group->padded_width));
  const float scale = 127.0f / greatest;
  for (int64_t w = 0; w < width; ++w)
    group->codes[first + w] = static_cast<int8_t>(std::lrintf(vector.embedding[static_cast<size_t>(w)] * scale));
  OCELLUS_TRY(group->steps.push(static_cast<float>(static_cast<double>(greatest) / 127 / length)));
  OCELLUS_TRY(group->ids.push(vector.id));
  OCELLUS_TRY(group->owners.push(vector.owner));
  return group->expires.push(vector.expires);
}

bool LibraryIndex::is_known(int64_t id) const {
  for (int32_t i = 0; i < group_count_; ++i)
    if (std::binary_search(groups_[i]->ids.begin(), groups_[i]->ids.end(), id)) return true;
  return false;
}

void LibraryIndex::drop(int64_t id) {
  for (int32_t i = 0; i < group_count_; ++i) {
    Group& group = *groups_[i];
    const int64_t* found = std::lower_bound(group.ids.begin(), group.ids.end(), id);
    if (found == group.ids.end() || *found != id) continue;
    int64_t& owner = group.owners[found - group.ids.begin()];
    group.gone += owner != 0 ? 1 : 0;
    owner = 0;
    if (2 * group.gone > group.ids.size()) pack(&group);
  }
}

void LibraryIndex::pack(Group* group) {
  int64_t kept = 0;
  for (int64_t row = 0; row < group->ids.size(); ++row) {
    if (group->owners[row] == 0) continue;
    group->ids[kept] = group->ids[row];
    group->owners[kept] = group->owners[row];
    group->expires[kept] = group->expires[row];
    group->steps[kept] = group->steps[row];
    std::copy_n(group->codes.data() + row * group->padded_width, group->padded_width,
                group->codes.data() + kept * group->padded_width);
    ++kept;
  }
  // Shrinking allocates nothing and cannot fail.
  (void)group->ids.resize(kept);
  (void)group->owners.resize(kept);
  (void)group->expires.resize(kept);
  (void)group->steps.resize(kept);
  (void)group->codes.resize(kept * group->padded_width);
  group->gone = 0;
}

Status LibraryIndex::follow(Catalogue& catalogue) {
  int64_t latest = 0;
  OCELLUS_TRY(catalogue.last_change(&latest));
  if (is_loaded_ && latest == last_change_) return {};
  const auto add_one = [](void* user, const CatalogueVector& vector) {
    return static_cast<LibraryIndex*>(user)->add(vector);
  };
  Buffer<int64_t> ids;
  bool complete = false;
  if (is_loaded_) OCELLUS_TRY(catalogue.list_changes(last_change_, &ids, &complete));
  // After a failure the index is loaded again.
  is_loaded_ = false;
  if (!complete) {
    reset();
    OCELLUS_TRY(catalogue.visit_vectors(0, add_one, this));
  }
  // An entry is added once and removed once, and new ids are greater than all before. One that was added during a full
  // read is known already.
  std::sort(ids.begin(), ids.end());
  for (const int64_t id : ids) {
    CatalogueRow row;
    bool exists = false;
    OCELLUS_TRY(catalogue.find_row(id, &row, &exists));
    if (!exists)
      drop(id);
    else if (!is_known(id))
      OCELLUS_TRY(catalogue.visit_vectors(id, add_one, this));
  }
  last_change_ = latest;
  is_loaded_ = true;
  return {};
}

Status LibraryIndex::scan(const Group& group, const Question& question, Buffer<Near>* candidates) {
  Buffer<int16_t> query;
  OCELLUS_TRY(query.resize(group.padded_width));
  const float scale = static_cast<float>(kNearestQueryLimit) / greatest_of(question.embedding);
  for (int64_t w = 0; w < group.width; ++w)
    query[w] = static_cast<int16_t>(std::lrintf(question.embedding[static_cast<size_t>(w)] * scale));
  // Codes of eight bits sometimes order neighbours wrongly, so more than requested are compared exactly.
  Buffer<NearRow> best;
  OCELLUS_TRY(best.resize(2 * int64_t{question.count} + 16));
  const auto counts = [&](int64_t row) {
    return !has_expired(group.expires[row], question.now) &&
           std::find(question.owners.begin(), question.owners.end(), group.owners[row]) != question.owners.end();
  };
  int64_t count = 0;
  for (int64_t row = 0, end = 0; row < group.ids.size(); row = end + 1) {
    // Consecutive rows in memory at once.
    for (end = row; end < group.ids.size() && counts(end);) ++end;
    nearest_rows({.codes = {group.codes.data() + row * group.padded_width, end - row, group.padded_width},
                  .steps = group.steps.data() + row,
                  .query = query.data(),
                  .first = row,
                  .best = best.data(),
                  .capacity = best.size(),
                  .count = &count});
  }
  for (int64_t i = 0; i < count; ++i) OCELLUS_TRY(candidates->push({group.ids[best[i].row], 0}));
  return {};
}

Status LibraryIndex::search(Catalogue& catalogue, const Question& question, Buffer<Near>* out) {
  *out = {};
  OCELLUS_TRY(follow(catalogue));
  const Group* group = find_group(question.model, static_cast<int64_t>(question.embedding.size()));
  if (group == nullptr || question.owners.empty()) return {};
  OCELLUS_TRY(scan(*group, question, out));
  struct Score {
    std::span<const float> query;
    double length;
    float similarity;
  } score{question.embedding, length_of(question.embedding), 0};
  for (Near& near : *out) {
    score.similarity = -2;  // an entry removed just now comes last
    OCELLUS_TRY(catalogue.visit_vectors(
        near.id,
        [](void* user, const CatalogueVector& vector) -> Status {
          auto& s = *static_cast<Score*>(user);
          double product = 0;
          for (size_t w = 0; w < s.query.size() && w < vector.embedding.size(); ++w)
            product += static_cast<double>(s.query[w]) * static_cast<double>(vector.embedding[w]);
          s.similarity = static_cast<float>(product / s.length / length_of(vector.embedding));
          return {};
        },
        &score));
    near.similarity = score.similarity;
  }
  std::sort(out->begin(), out->end(), [](const Near& a, const Near& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.id < b.id;
  });
  return out->resize(std::min<int64_t>(out->size(), question.count));
}

}  // namespace ocellus
