// The small file beside a model that holds its calibration by bits: MODEL.gguf -> MODEL.calib.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ocellus::app {

// CalibQuant's tau 1 and tau 2.
struct TauPair {
  float low = 0;
  float high = 0;
};

std::string calibration_path(const std::string& model_path);

// What the file says for these bits; nothing if there is no file or no such entry, or for a model without files (an
// empty path). A Failure if the file is damaged or of another model.
std::optional<TauPair> read_calibration(const std::string& model_path, int32_t bits);

// A Failure now rather than after a long search: if there is a file that is damaged or of another model, or if none can
// be written.
void check_calibration_file(const std::string& model_path);

// Adds an entry, or replaces it; the file changes as a whole or not at all. `accuracy` and `questions` say how good it
// was found to be.
void write_calibration(const std::string& model_path, int32_t bits, const TauPair& taus, double accuracy,
                       int64_t questions);

}  // namespace ocellus::app
