// Changes to JSON that keep it JSON most of the time: values of other kinds, other keys, depth, length, odd numbers and
// strings; and some that JSON does not allow.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace ocellus::fuzz {

void change_json(Bytes& input, Random& random);

/// The same for one line of many, or for the lines.
void change_json_lines(Bytes& input, Random& random);

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace ocellus::fuzz
