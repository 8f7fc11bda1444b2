// Boxes and points of an answer in the picture that was asked about.
#pragma once

#include <string>
#include <vector>

#include "apps/base/places.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// Returns the sentence about `option` for a model whose answers hold no places; `families`: those whose answers do.
std::string describe_missing_places(const std::string& option, const std::vector<std::string>& families);

// Throws a Failure unless the model's answers hold places.
void require_places(const Model& model, const std::string& option);

// Returns the places of an answer about one picture, in its pixels; none for a model whose answers hold no places.
std::vector<Place> read_places(const std::string& answer, const Model& model, const Engine& engine, int32_t width,
                               int32_t height);

// Throws a Failure unless `path` ends in .png, .jpg or .jpeg, can be written and is none of `inputs`.
void check_drawing(const std::string& path, const std::vector<std::string>& inputs);

// Writes the picture, as the model sees it, with its places painted on it; `path` was checked.
void write_drawing(const std::string& path, const ImageFile& image, const DepthRange& depth,
                   const std::vector<Place>& places);

}  // namespace ocellus::app
