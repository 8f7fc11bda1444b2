// uniqueItems over values that can be listed.
#pragma once

#include "runtime/branches/constrain/grammar/schema_reader.h"

namespace ocellus {

/// Adds lists of different items with commas between. `item` must have few texts, none an array or object: those of
/// enum and const, booleans, integers between near bounds. Up to 8 come in any order, more in the schema's.
Status add_unique_items(SchemaReader& reader, int32_t place, Expression item, const CountRange& counts,
                        Expression* out);

}  // namespace ocellus
