// The calibration file of a model, by packing scheme and bits: MODEL.gguf -> MODEL.calib.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ocellus::app {

inline constexpr double kMaxTau = 100;

// CalibQuant's tau 1 and tau 2, from 0 to kMaxTau.
struct TauPair {
  float low = 0;
  float high = 0;
};

std::string calibration_path(const std::string& model_path);

// The packing scheme, by name, and the bits that a pair was found for.
struct CalibratedFor {
  std::string scheme;
  int32_t bits = 0;
};

// Returns the entry; nullopt if there is no file or no such entry, or for a model without files (an empty path). Throws
// a Failure if the file is damaged or of another model.
std::optional<TauPair> read_calibration(const std::string& model_path, const CalibratedFor& what);

// The number of questions on which the entry is founded; 0: there is none, or it does not say.
int64_t calibration_questions(const std::string& model_path, const CalibratedFor& what);

// Throws a Failure before a long search if the file is damaged or of another model, or if none can be written.
void check_calibration_file(const std::string& model_path);

// Adds or replaces an entry; the file is replaced atomically. `accuracy` and `questions` are its result.
void write_calibration(const std::string& model_path, const CalibratedFor& what, const TauPair& taus, double accuracy,
                       int64_t questions);

}  // namespace ocellus::app
