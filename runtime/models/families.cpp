#include <array>
#include <iterator>

#include "runtime/models/family.h"

namespace ocellus {

extern const Family kSmolVlmFamily, kLlavaNextFamily, kLlavaFamily, kInternVlFamily, kQwen2VlFamily, kQwen25VlFamily,
    kQwen3VlFamily, kGemma3Family;

namespace {

constexpr const Family* kFamilies[] = {&kSmolVlmFamily,  &kLlavaNextFamily, &kLlavaFamily,   &kInternVlFamily,
                                       &kQwen25VlFamily, &kQwen2VlFamily,   &kQwen3VlFamily, &kGemma3Family};

constexpr auto kVisionFamilies = [] {
  std::array<const VisionFamily*, std::size(kFamilies)> halves{};
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = &kFamilies[i]->vision;
  return halves;
}();

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

std::span<const VisionFamily* const> vision_families() { return kVisionFamilies; }

const Family& find_family(std::string_view name) {
  static constexpr Family kNone;
  for (const Family* family : kFamilies)
    if (family->name == name) return *family;
  return kNone;
}

const Family* family_of(const VisionConfig& config) {
  for (const Family* family : kFamilies)
    if (&family->vision == config.family) return family;
  return nullptr;
}

}  // namespace ocellus
