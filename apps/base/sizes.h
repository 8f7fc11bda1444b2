// Sizes as users write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ocellus::app {

// Parses bytes: "41234567", "512M" or "512MiB" (powers of 1024), "44MB" (powers of 1000); units K, M, G, T in either
// case. Whole numbers only; nullopt if the text is anything else or does not fit 63 bits.
std::optional<int64_t> parse_bytes(const std::string& text);

// Parses a pixel count: "1920x1080" or "2073600"; nullopt if the text is anything else, zero or more than 2^31 - 1.
std::optional<int64_t> parse_pixels(const std::string& text);

// Parses seconds: "90s", "30m", "12h" or "7d"; nullopt if the text is anything else, zero or more than 1000 years.
std::optional<int64_t> parse_seconds(const std::string& text);

// "39.3" for 41234567: 1 MiB is 1048576 bytes.
std::string format_mib(int64_t bytes);

// "41234567 bytes (39.3 MiB)"
std::string format_bytes(int64_t bytes);

// Formats a number with the given number of decimals: "3.14".
std::string format_number(double value, int decimals);

// "1 image", "2 images"
std::string format_count(int64_t count, const std::string& noun);

}  // namespace ocellus::app
