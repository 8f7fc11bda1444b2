#include "quant/weight_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "quant/block_codes.h"
#include "tests/support/small_run.h"
#include "tests/support/weights.h"

namespace ocellus {
namespace {

std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> formats;
  for (int i = 0; i < kWeightFormatCount; ++i) formats.push_back(static_cast<WeightFormat>(i));
  return formats;
}

// Blocks of random bytes with what the `gguf` package 0.19.0 (gguf.quants.dequantize) makes of them: twelve elements,
// and the sum of all elements weighted by 1, 2, 3 ...
struct Fixture {
  WeightFormat format;
  const char* hex;
  struct {
    int index;
    float value;
  } samples[12];
  double weighted_sum;
};

const Fixture kFixtures[] = {
    {WeightFormat::kQ8_0,
     "fc186ae4eb0eb3479ecafa42f5b50d7671321ee59205291f9fdad03f33a9c9857d802622c642bf682303235828f85612"
     "4849d0084ce1551935199ba9eb647dfca60d08ee",
     {{0, 0.257980347f},
      {5, 0.172798157f},
      {11, -0.182533264f},
      {17, -0.0657119751f},
      {22, -0.236076355f},
      {28, -0.133857727f},
      {34, -0.780563354f},
      {40, 0.48034668f},
      {45, 0.87663269f},
      {51, 0.300216675f},
      {57, 1.2008667f},
      {63, -0.216156006f}},
     302.3372344970703},
    {WeightFormat::kQ4_0,
     "3725aeb11c9e8d67f8c13e45812d89b3bf9c4a25ac93288eb58bc612f5536c367c3f760d",
     {{0, 0.1222229f},
      {5, -0.0203704834f},
      {11, 0.101852417f},
      {17, 0.0611114502f},
      {22, 0.142593384f},
      {28, 0.0f},
      {34, 0.0f},
      {40, -0.0619812012f},
      {45, 0.144622803f},
      {51, 0.0f},
      {57, -0.0619812012f},
      {63, -0.165283203f}},
     -19.28912353515625},
    {WeightFormat::kQ4_1,
     "bc1fcfa2d0d1450116a9cec4cc817e54033fc4a5be237421b42b5138595ecb775ea8ca447de5209e",
     {{0, -0.0132980347f},
      {5, 0.0546798706f},
      {11, 0.0169143677f},
      {17, 0.0848922729f},
      {22, 0.0773391724f},
      {28, -0.0132980347f},
      {34, 0.0257720947f},
      {40, 0.222351074f},
      {45, 0.0862579346f},
      {51, 0.0560150146f},
      {57, 0.161865234f},
      {63, 0.146743774f}},
     218.192626953125},
    {WeightFormat::kQ5_0,
     "359fb9683030a977b47bfa873686104c03fea2b390dc8921eac9fd22d64d5c15791fd242b6340f2533391766",
     {{0, -0.0633430481f},
      {5, -0.0492668152f},
      {11, -0.0985336304f},
      {17, 0.0633430481f},
      {22, 0.0914955139f},
      {28, -0.0703811646f},
      {34, -0.0432434082f},
      {40, 0.0648651123f},
      {45, -0.0756759644f},
      {51, 0.0108108521f},
      {57, 0.0324325562f},
      {63, -0.108108521f}},
     -11.241535186767578},
    {WeightFormat::kQ5_1,
     "f71e94a0491e23d5ff50ceb1e826701acd6a32b4d8c65ca947257aa3a5fbb0362f49dc2c10b7e602186e0ebff1d9bb64",
     {{0, 0.201908112f},
      {5, 0.031867981f},
      {11, 0.127090454f},
      {17, 0.133892059f},
      {22, 0.0386695862f},
      {28, 0.188304901f},
      {34, 0.562606812f},
      {40, 0.480148315f},
      {45, 0.500762939f},
      {51, 0.0266265869f},
      {57, 0.438919067f},
      {63, 0.109085083f}},
     560.7792472839355},
    {WeightFormat::kQ4_K,
     "8b2643262ed756e67e634b6e77f10c7770603ba221e7aa77ee528ab2651acfe31e1b6a18bdf9d4587144effbd509eae4"
     "4552384a39347d455e814672d9c2adc6ceeccc4d0a52d2047ed1360a4140713246ba993e22ae0dfa9d5bb653a0c920ed"
     "ee633e93dbdce70a09ffce11453d81ca367448eef2597545c112e632ad48c88fea268787cbd6ff6fba09335b4098472f",
     {{0, -1.51651001f},
      {23, 7.88900757f},
      {46, 6.19804382f},
      {69, 1.98008728f},
      {92, 0.293228149f},
      {115, 2.75973511f},
      {139, -0.0258483887f},
      {162, 10.513031f},
      {185, 18.0272217f},
      {208, 6.76501465f},
      {231, 5.06028748f},
      {255, 2.24885559f}},
     203827.21746826172},
    {WeightFormat::kQ5_K,
     "37a02e1cf3214bfd265c439cf5ce9584ecc79d4712b2e4bb0ad2a027ff771a60c0f62077a8090a72d411722b2897cb85"
     "196b3e7faf1a8c8b444814122a80636d83e74b044c18793f14ff10889d6e4da5a14577646785a16152d812ffbabb36bf"
     "17f9e05fec81bfe4ae125988085423f6b3bec0638203bac010a30fc615bd0683f29da660f7abb013ca76d0411a5379df"
     "6daf01755d90f8ffec8da9cd3fda3f20049aa3857327985b6035c4addbab0055",
     {{0, -3.93364716f},
      {23, -6.45267487f},
      {46, -6.09080505f},
      {69, -0.465011597f},
      {92, -0.736671448f},
      {115, -2.62508392f},
      {139, -2.679039f},
      {162, -1.49728394f},
      {185, -0.921035767f},
      {208, -3.55953217f},
      {231, -13.4334412f},
      {255, -9.15274048f}},
     -147746.43437957764},
    {WeightFormat::kQ6_K,
     "a422279a67db40a0d3ea9563e25ed8e1bc5804ccf2859ea20015de4463180e62539d29d064386e141ac9905bffb24b85"
     "357dd7541e4a5238b9326deb8378cedf9120bdde17fea328b19d568ac3bb0e4be1d84bd3e2cf29ee5747f1ddb33ee573"
     "4315fac45ceac0320b7dfa95f13ab5363d38ebbc7dc5890c585e1d0e1d70a1e2c31cc55313c79ba8231a7f85e0ed340e"
     "7283a21f0c98f595e2f523351745218ace67312e6ab9d2a0afe56e3d9d10169b41280e5fb7e1e4d10bd6264a48c6304e"
     "95d3feec63f5560bebac55066771d4c8f321",
     {{0, -24.8658752f},
      {23, 7.32032776f},
      {46, 0.116195679f},
      {69, -21.8564072f},
      {92, 1.27815247f},
      {115, -3.45101166f},
      {139, 1.46406555f},
      {162, -21.7285919f},
      {185, -0.139434814f},
      {208, -23.634201f},
      {231, -1.53378296f},
      {255, 1.3013916f}},
     1496.356330871582},
    {WeightFormat::kIQ4_NL,
     "4da45c647120adb05a95067a92b73f51ab9d28939088a0fcd234d2e71d7bfd9915f8a857",
     {{0, -0.890396118f},
      {5, 2.1335907f},
      {11, 0.167999268f},
      {17, 0.369598389f},
      {22, 0.587997437f},
      {28, 1.09199524f},
      {34, 0.110942841f},
      {40, -0.0602760315f},
      {45, -0.000873565674f},
      {51, -0.0987129211f},
      {57, 0.00873565674f},
      {63, 0.0305747986f}},
     100.4507827758789},
    {WeightFormat::kQ2_K,
     "d3e3c2e423e738667f619536097da8b7f1fc56dea109e44794bdbe5dd1752d15eedc2bf6e4ee42f8a65af0b1d0805d90"
     "db911d91f437f2a42bf046bd25d9ad93be9af0c8aa41b179f680a35c9fbc551fd6202c24",
     {{0, -0.183517456f},
      {23, -0.228149414f},
      {46, -0.138885498f},
      {69, -0.0325927734f},
      {92, -0.162033081f},
      {115, 0.0722351074f},
      {139, 0.0276031494f},
      {162, -0.00498962402f},
      {185, -0.0488891602f},
      {208, 0.25428772f},
      {231, -0.0118408203f},
      {255, -0.179260254f}},
     -11.410659790039062},
    {WeightFormat::kQ3_K,
     "dcd54750ea65cfb1c56a7be3ada8cabe4528c5f2e6c43a7b13df80064d1cc89dc218f0bc699d1426c4842fac926385c3"
     "154c0ca0001ea539ba563ba3b522ee90054a5320a24adbad186c4ca0eb19a1d851d97ec9cb18fbdad508e50109a28311"
     "3c87c9eb6615bbd37a0b71212718",
     {{0, -0.0486602783f},
      {23, 0.0466327667f},
      {46, -0.0141925812f},
      {69, 0.0121650696f},
      {92, 0.030412674f},
      {115, 0.117595673f},
      {139, -0.154090881f},
      {162, -0.227081299f},
      {185, -0.0567703247f},
      {208, -0.0628528595f},
      {231, -0.020275116f},
      {255, -0.0f}},
     114.24014091491699},
    {WeightFormat::kIQ4_XS,
     "1a202e601ae724d4f6a0b69ba004ce77725aa78c7ce5150f1e9c416360f407e152675ce1411564900a0f8965294086ad"
     "e0b89edf4d28f6ed973c73543c8a2e5699272fa00b2f69c928a98dd9b66a19bd0306ad1e762247269ef8bf2b6aad0124"
     "177a6fba1e1140790ca52c20208730db631f5c04683420e109f9ce3071b7b0ba30020e654d4d8f5f",
     {{0, -1.76239014f},
      {23, -0.801086426f},
      {46, -6.67304993f},
      {69, -7.12165833f},
      {92, -2.74772644f},
      {115, 5.04684448f},
      {139, -19.9630737f},
      {162, -27.1568298f},
      {185, 2.40325928f},
      {208, -4.06951904f},
      {231, -0.600814819f},
      {255, 0.841140747f}},
     26457.986068725586},
    {WeightFormat::kMXFP4,
     "7904e1b3f389d75d1393d836a23df75a347579395761aa1dbd2c480df52f05e095b5",
     {{0, 0.03125f},
      {5, 0.09375f},
      {11, 0.015625f},
      {17, -0.0625f},
      {22, 0.046875f},
      {28, 0.0234375f},
      {34, 0.005859375f},
      {40, 0.0f},
      {45, 0.0f},
      {51, 0.00390625f},
      {57, 0.0f},
      {63, -0.00146484375f}},
     -1.58642578125},
};

std::vector<uint8_t> parse_hex(const char* hex) {
  std::vector<uint8_t> bytes;
  for (; hex[0] != 0; hex += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex, 2), nullptr, 16)));
  return bytes;
}

double half_at(const uint8_t* source) {
  const int bits = source[0] | source[1] << 8;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Element i of a block, from the layout's description one element at a time: shares no code with the decoders.
double element(WeightFormat format, const uint8_t* block, int i) {
  const auto nibble = [&](int start) { return i < 16 ? block[start + i] & 15 : block[start + i - 16] >> 4; };
  const auto fifth = [&](int start) { return (block[start + i / 8] >> (i % 8) & 1) * 16; };
  const auto packed6 = [&](int index, bool minimum) {
    const uint8_t* s = block + 4;
    const int shift = minimum ? 4 : 0;
    if (index < 4) return s[index + shift] & 63;
    return (s[index + 4] >> shift & 15) + (s[index - 4 + shift] >> 6) * 16;
  };
  static const int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  switch (format) {
    case WeightFormat::kQ8_0: return half_at(block) * static_cast<int8_t>(block[2 + i]);
    case WeightFormat::kQ4_0: return half_at(block) * (nibble(2) - 8);
    case WeightFormat::kQ4_1: return half_at(block) * nibble(4) + half_at(block + 2);
    case WeightFormat::kQ5_0: return half_at(block) * (nibble(6) + fifth(2) - 16);
    case WeightFormat::kQ5_1: return half_at(block) * (nibble(8) + fifth(4)) + half_at(block + 2);
    case WeightFormat::kIQ4_NL: return half_at(block) * levels[nibble(2)];
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: {
      const int g = i / 32, start = format == WeightFormat::kQ4_K ? 16 : 48;
      int code = block[start + g / 2 * 32 + i % 32] >> (g % 2 * 4) & 15;
      if (format == WeightFormat::kQ5_K) code += (block[16 + i % 32] >> g & 1) * 16;
      return half_at(block) * packed6(g, false) * code - half_at(block + 2) * packed6(g, true);
    }
    case WeightFormat::kQ6_K: {
      const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
      const int low = block[64 * half + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
      const int high = block[128 + 32 * half + l] >> (2 * quarter) & 3;
      const int scale = static_cast<int8_t>(block[192 + 8 * half + 2 * quarter + l / 16]);
      return half_at(block + 208) * scale * (low + 16 * high - 32);
    }
    case WeightFormat::kQ2_K: {
      const int code = block[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
      return half_at(block + 80) * (block[i / 16] % 16) * code - half_at(block + 82) * (block[i / 16] / 16);
    }
    case WeightFormat::kQ3_K: {
      const int low = block[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3, high = block[i % 32] >> (i / 32) & 1;
      const int g = i / 16, low_scale = g < 8 ? block[96 + g] % 16 : block[88 + g] / 16;
      const int scale = low_scale + 16 * (block[104 + g % 4] >> (g / 4 * 2) & 3) - 32;
      return half_at(block + 108) * scale * (high == 1 ? low : low - 4);
    }
    case WeightFormat::kIQ4_XS: {
      const int g = i / 32, byte = block[8 + 16 * g + i % 16], code = i % 32 < 16 ? byte % 16 : byte / 16;
      const int low_scale = g % 2 == 0 ? block[4 + g / 2] % 16 : block[4 + g / 2] / 16;
      const int scale = low_scale + 16 * (block[2 + g / 4] >> (g % 4 * 2) & 3) - 32;
      return half_at(block) * scale * levels[code];
    }
    case WeightFormat::kMXFP4: {
      static const double floats[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
      const int code = nibble(1);
      return std::ldexp(code < 8 ? floats[code] : -floats[code - 8], block[0] - 127);
    }
    default: return 0.0;
  }
}

}  // namespace

TEST_CASE("the format table is in the order of the enum and agrees with ggml's numbers and names") {
  std::set<uint32_t> ids;
  for (const WeightFormat format : all_formats()) {
    const WeightFormatInfo& info = format_info(format);
    CHECK(info.format == format);
    CHECK(find_format(info.ggml_id) == &info);
    CHECK(std::string(ggml_type_name(info.ggml_id)) == info.name);
    CHECK(row_bytes(format, 3 * info.block_elements) == 3 * info.block_bytes);
    CHECK(row_bytes(format, 0) == 0);
    ids.insert(info.ggml_id);
  }
  CHECK(ids == std::set<uint32_t>{0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39});
}

TEST_CASE("types we cannot run have a name, removed and unknown ones have none") {
  CHECK(std::string(ggml_type_name(21)) == "IQ3_S");
  CHECK(std::string(ggml_type_name(26)) == "I32");
  CHECK(std::string(ggml_type_name(35)) == "TQ2_0");
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 1000u, 0xFFFFFFFFu})
    CHECK(ggml_type_name(id) == nullptr);
  for (const uint32_t id : {4u, 21u, 26u, 35u, 40u, 1000u, 0xFFFFFFFFu}) CHECK(find_format(id) == nullptr);
}

TEST_CASE("row sizes do not overflow 32 bits") {
  CHECK(row_bytes(WeightFormat::kF32, int64_t{1} << 33) == int64_t{1} << 35);
}

TEST_CASE("blocks decode to what the gguf package makes of them") {
  for (const Fixture& fixture : kFixtures) {
    const WeightFormatInfo& info = format_info(fixture.format);
    CAPTURE(std::string(info.name));
    const std::vector<uint8_t> bytes = parse_hex(fixture.hex);
    REQUIRE(bytes.size() % static_cast<size_t>(info.block_bytes) == 0);
    const int64_t cols = static_cast<int64_t>(bytes.size()) / info.block_bytes * info.block_elements;
    std::vector<float> values(static_cast<size_t>(cols));
    decode_row(fixture.format, bytes.data(), cols, values.data());
    for (const auto& sample : fixture.samples)
      CHECK(values[static_cast<size_t>(sample.index)] == doctest::Approx(sample.value).epsilon(1e-6));
    double sum = 0.0;
    for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(i + 1) * values[i];
    CHECK(sum == doctest::Approx(fixture.weighted_sum).epsilon(1e-6));
  }
}

TEST_CASE("every element of random blocks agrees with the layout's description") {
  test::Random random(7);
  for (const WeightFormat format : all_formats()) {
    if (!is_block_format(format)) continue;
    const WeightFormatInfo& info = format_info(format);
    CAPTURE(std::string(info.name));
    for (int round = 0; round < 50; ++round) {
      const test::Weights weights = test::random_weights(format, 1, 3 * info.block_elements, random);
      const std::vector<float> values = weights.decoded();
      for (int i = 0; i < 3 * info.block_elements; ++i) {
        const uint8_t* block = weights.bytes.data() + i / info.block_elements * info.block_bytes;
        const double expected = element(format, block, i % info.block_elements);
        const double error = std::abs(values[static_cast<size_t>(i)] - expected);
        CHECK_MESSAGE(error <= 2e-7 * std::max(1.0, std::abs(expected)), "element " << i << " is wrong by " << error);
      }
    }
  }
}

TEST_CASE("every byte of a block's scales, minimums and codes counts as the layout's description says") {
  test::Random random(9);
  for (const WeightFormat format : all_formats()) {
    if (!is_block_format(format)) continue;
    const WeightFormatInfo& info = format_info(format);
    CAPTURE(std::string(info.name));
    test::Weights weights = test::random_weights(format, 1, info.block_elements, random);
    const std::vector<int> halves = test::scale_offsets(format);
    int wrong = 0;
    for (int place = 0; place < info.block_bytes; ++place) {
      uint8_t& byte = weights.bytes[static_cast<size_t>(place)];
      const uint8_t before = byte;
      const bool of_half =
          std::any_of(halves.begin(), halves.end(), [&](int at) { return at == place || at + 1 == place; });
      for (int value = 0; value < 256 && !of_half; ++value) {
        if (test::skip(static_cast<uint64_t>(place + value))) continue;
        byte = static_cast<uint8_t>(value);
        const std::vector<float> values = weights.decoded();
        for (int i = 0; i < info.block_elements; ++i)
          wrong += values[static_cast<size_t>(i)] != static_cast<float>(element(format, weights.bytes.data(), i));
      }
      byte = before;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("codes, scales and minimums give the decoded weights back, and nothing behind them is written") {
  test::Random random(8);
  for (const WeightFormat format : all_formats()) {
    if (!is_block_format(format)) continue;
    const CodeLayout layout = code_layout(format);
    CAPTURE(std::string(format_info(format).name));
    const test::Weights weights = test::random_weights(format, 1, 768, random);
    const auto groups = static_cast<size_t>(768 / layout.group_elements);
    std::vector<int8_t> codes(768 + 1, 99);
    std::vector<float> scales(groups + 1, 77.0f), minimums(groups + 1, 0.0f);
    decode_codes(format, weights.bytes.data(), 768, codes.data(), scales.data(),
                 layout.has_minimum ? minimums.data() : nullptr);
    CHECK(codes.back() == 99);
    CHECK(scales.back() == 77.0f);
    CHECK(minimums.back() == 0.0f);
    const std::vector<float> values = weights.decoded();
    for (size_t i = 0; i < 768; ++i) {
      const size_t g = i / static_cast<size_t>(layout.group_elements);
      const int8_t code = layout.levels == nullptr ? codes[i] : layout.levels[codes[i]];
      CHECK(scales[g] * static_cast<float>(code) - minimums[g] == doctest::Approx(values[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("plain formats decode exactly") {
  const float floats[3] = {1.5f, -0.0f, 3e38f};
  float out[3];
  decode_row(WeightFormat::kF32, reinterpret_cast<const uint8_t*>(floats), 3, out);
  CHECK(std::memcmp(floats, out, sizeof out) == 0);
  const uint16_t brains[3] = {0x3FC0, 0xC040, 0x0001};
  decode_row(WeightFormat::kBF16, reinterpret_cast<const uint8_t*>(brains), 3, out);
  CHECK(out[0] == 1.5f);
  CHECK(out[1] == -3.0f);
  CHECK(out[2] == std::ldexp(1.0f, -133));
  const uint16_t halves[3] = {0x3E00, 0xC200, 0x0001};
  decode_row(WeightFormat::kF16, reinterpret_cast<const uint8_t*>(halves), 3, out);
  CHECK(out[0] == 1.5f);
  CHECK(out[1] == -3.0f);
  CHECK(out[2] == std::ldexp(1.0f, -24));
}

TEST_CASE("all 65536 halves become the right float and come back") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const float value = half_to_float(half);
    if ((bits & 0x7C00) == 0x7C00) {
      const bool infinite = (bits & 0x3FF) == 0;
      wrong += infinite ? !(std::isinf(value) && std::signbit(value) == (bits >> 15)) : !std::isnan(value);
      wrong += infinite ? float_to_half(value).bits != bits : (float_to_half(value).bits & 0x7FFF) <= 0x7C00;
      continue;
    }
    const uint8_t bytes[2] = {static_cast<uint8_t>(bits & 255), static_cast<uint8_t>(bits >> 8)};
    wrong += value != half_at(bytes) || std::signbit(value) != (bits >> 15 != 0);
    wrong += float_to_half(value).bits != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats round to the nearest half, ties to even") {
  int wrong = 0;
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = half_to_float({bits}), high = half_to_float({static_cast<uint16_t>(bits + 1)});
    const float middle = 0.5f * (low + high);  // exact: one more bit
    wrong += float_to_half(middle).bits != bits + bits % 2;
    wrong += float_to_half(std::nextafter(middle, 0.0f)).bits != bits;
    wrong += float_to_half(-std::nextafter(middle, 1e9f)).bits != ((bits + 1) | 0x8000);
  }
  CHECK(wrong == 0);
  CHECK(float_to_half(65519.99f).bits == 0x7BFF);
  CHECK(float_to_half(65520.0f).bits == 0x7C00);
  CHECK(float_to_half(1e30f).bits == 0x7C00);
  CHECK(float_to_half(1e-30f).bits == 0);
}

}  // namespace ocellus
