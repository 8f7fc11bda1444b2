// PartsCollector: which schemas hold at a place.
#pragma once

#include "runtime/branches/constrain/grammar/schema_reader.h"

namespace ocellus {

/// Collects parts: schemas, and those that they bring in by $ref and allOf. Nothing else may take memory of the reader
/// before the end.
class PartsCollector {
 public:
  explicit PartsCollector(SchemaReader& reader) : reader_(reader) {}

  Status begin() { return reader_.memory().take(kMaxParts, &parts_.at); }
  /// Adds a part whose $ref and allOf were added before.
  Status add(const SchemaPart& part);
  /// Adds a schema and all it brings in.
  Status visit(int32_t node) { return visit(node, nullptr); }
  SchemaParts end();

 private:
  static constexpr int32_t kMaxParts = 64;
  struct Link;

  Status visit(int32_t index, const Link* up);
  Status visit_applied(int32_t index, const Link* here);
  Status check_keywords(int32_t index) const;
  Status resolve(int32_t reference, int32_t* out);
  bool says_something(const SchemaPart& part) const;

  SchemaReader& reader_;
  SchemaParts parts_;
  int visits_ = 0;
};

}  // namespace ocellus
