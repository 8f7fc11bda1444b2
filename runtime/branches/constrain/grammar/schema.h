// JSON schemas (draft 2020-12) as grammars of the texts that satisfy them.
//
// Read: boolean schemas, type, enum, const, properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties, items, prefixItems, minItems, maxItems, uniqueItems, minLength,
// maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf (as
// anyOf), allOf, $ref within the document, $defs, definitions; a list of items and additionalItems as earlier drafts
// have them. Those that stand beside each other all hold: conditions on one string are multiplied as automata.
// Annotations have no effect: unknown formats and keywords too, unless a keyword looks like a misspelt one. Conditions
// that are always true are none. Everything else is refused by its place with what to write instead, never ignored.
//
// Every text of the grammar satisfies the schema; it may leave some out that would:
//  - members come in the schema's order, those of propertyNames with an enum too, additional ones last, without escapes
//    in names if there are listed ones;
//  - properties and patternProperties without additionalProperties allow no others;
//  - a schema without type, enum and const is of the types its keywords are about;
//  - integers have at most 18 digits, numbers no exponent where they have bounds, constants one spelling;
//  - `time` is that of RFC 3339 ("12:30:00Z");
//  - strings with several conditions have at most 256 characters above minLength if they have a maxLength, and no
//    control characters that JSON writes with \u;
//  - more than 8 values of uniqueItems come in the schema's order.
#pragma once

#include <cstddef>
#include <string_view>

#include "platform/status.h"
#include "platform/views.h"
#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

struct SchemaOptions {
  /// White space between tokens is free, within limits; else it is that of Python's json.dumps (see JsonSpaces).
  bool free_space = false;
};

/// Longest schema, bytes.
inline constexpr size_t kMaxSchemaBytes = size_t{1} << 20;

/// Adds a schema to the grammar. The workspace, aligned to 8 bytes, is free again afterwards. kBadArgument for what is
/// no JSON or no schema or is satisfied by no value, kUnsupported for what cannot be held exactly, each with the place
/// in the schema; kFull if the workspace or the grammar's memory is too small.
Status read_schema(std::string_view text, const SchemaOptions& options, HostView<std::byte> workspace, Grammar* grammar,
                   Expression* out);

}  // namespace ocellus
