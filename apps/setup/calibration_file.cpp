#include "apps/setup/calibration_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/base/bounded_json.h"
#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

constexpr char kKind[] = "ocellus calibration";
constexpr int64_t kMaxBytes = 1 << 20;

int64_t file_bytes(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 ? static_cast<int64_t>(facts.st_size) : -1;
}

// Returns the files of a model: for a split one, all from "m-00001-of-00003.gguf" on.
std::vector<std::string> model_files(const std::string& model_path) {
  constexpr size_t kSuffixBytes = 20;  // "-00001-of-00003.gguf"
  constexpr int kMaxParts = 256;       // the library's limit
  if (model_path.size() < kSuffixBytes) return {model_path};
  const size_t stem = model_path.size() - kSuffixBytes;
  int number = 0, count = 0, used = 0;
  std::sscanf(model_path.c_str() + stem, "-%5d-of-%5d.gguf%n", &number, &count, &used);
  if (used != static_cast<int>(kSuffixBytes) || number != 1 || count < 1 || count > kMaxParts) return {model_path};
  std::vector<std::string> files;
  for (int i = 1; i <= count; ++i) {
    char suffix[48];
    std::snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", i, count);
    files.push_back(model_path.substr(0, stem) + suffix);
  }
  return files;
}

// Returns size and a hash of pieces from all over the files: distinguishes models, also of one shape with different
// weights, without reading gigabytes.
std::string fingerprint(const std::string& model_path) {
  constexpr int64_t kPieces = 64, kPieceBytes = 4096;
  int64_t total_bytes = 0;
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  std::array<char, kPieceBytes> piece;
  for (const std::string& path : model_files(model_path)) {
    const int64_t bytes = file_bytes(path);
    std::ifstream file(path, std::ios::binary);
    for (int64_t i = 0; i < kPieces; ++i) {
      file.seekg(bytes / kPieces * i);
      file.read(piece.data(), kPieceBytes);
      for (int64_t k = 0; k < file.gcount(); ++k) {
        hash = (hash ^ static_cast<uint8_t>(piece[static_cast<size_t>(k)])) * 1099511628211u;
      }
      file.clear();  // the last piece of a small file may be short
    }
    total_bytes += bytes;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%lld-%016llx", static_cast<long long>(total_bytes),
                static_cast<unsigned long long>(hash));
  return text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Failure(kExitBadInput, path + ": " + why + "; run ocellus calibrate again, or give --calib none.");
}

// "2", or "calibquant:2" for a scheme that is not the default.
std::string entry_name(const CalibratedFor& what) {
  const std::string bits = std::to_string(what.bits);
  return what.scheme == "per-image" ? bits : what.scheme + ":" + bits;
}

// In the same folder, so that it can be renamed over the file.
std::string temporary_path(const std::string& model_path) { return calibration_path(model_path) + ".part"; }

[[noreturn]] void refuse_to_write(const std::string& model_path, int error) {
  throw Failure(kExitRuntime, calibration_path(model_path) + " cannot be written: " + std::strerror(error) +
                                  "; --dry-run only prints, or copy the model to a folder of yours.");
}

// Returns the whole file, or null if there is none.
nlohmann::ordered_json read_file(const std::string& model_path) {
  if (model_path.empty()) return nullptr;
  const std::string path = calibration_path(model_path);
  const int64_t bytes = file_bytes(path);
  if (bytes < 0 && errno == ENOENT) return nullptr;
  if (bytes > kMaxBytes) refuse(path, "too large for a calibration");
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) refuse(path, "cannot be read");
  const auto object = read_json(text.str(), kLocalJson);
  const auto has_text = [&object](const char* key, const std::string& value) {
    return object.is_object() && object.contains(key) && object[key].is_string() && object[key] == value;
  };
  if (!has_text("kind", kKind)) refuse(path, "is not a calibration, or is cut off");
  if (!object.contains("taus") || !object["taus"].is_object()) refuse(path, "holds no taus");
  if (!has_text("model", fingerprint(model_path))) refuse(path, "was made for another model file");
  return object;
}

}  // namespace

std::string calibration_path(const std::string& model_path) {
  const std::string ending = ".gguf";
  const bool has_ending = model_path.size() > ending.size() &&
                          model_path.compare(model_path.size() - ending.size(), ending.size(), ending) == 0;
  return (has_ending ? model_path.substr(0, model_path.size() - ending.size()) : model_path) + ".calib.json";
}

std::optional<TauPair> read_calibration(const std::string& model_path, const CalibratedFor& what) {
  const nlohmann::ordered_json object = read_file(model_path);
  if (object.is_null()) return std::nullopt;
  const auto entry = object["taus"].find(entry_name(what));
  if (entry == object["taus"].end()) return std::nullopt;
  const std::string path = calibration_path(model_path);
  const auto tau = [&](const char* name) {
    const bool is_number = entry->is_object() && entry->contains(name) && (*entry)[name].is_number();
    const double value = is_number ? (*entry)[name].get<double>() : -1;
    if (!(value >= 0 && value <= kMaxTau)) refuse(path, "holds a tau that is no number from 0 to 100");
    return static_cast<float>(value);
  };
  return TauPair{tau("tau_1"), tau("tau_2")};
}

int64_t calibration_questions(const std::string& model_path, const CalibratedFor& what) {
  const nlohmann::ordered_json object = read_file(model_path);
  if (object.is_null()) return 0;
  const auto entry = object["taus"].find(entry_name(what));
  const bool tells = entry != object["taus"].end() && entry->is_object() && entry->contains("questions") &&
                     (*entry)["questions"].is_number_integer();
  return tells ? (*entry)["questions"].get<int64_t>() : 0;
}

void check_calibration_file(const std::string& model_path) {
  (void)read_file(model_path);
  const std::string temporary = temporary_path(model_path);
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (file == nullptr) refuse_to_write(model_path, errno);
  std::fclose(file);
  std::remove(temporary.c_str());
}

void write_calibration(const std::string& model_path, const CalibratedFor& what, const TauPair& taus, double accuracy,
                       int64_t questions) {
  nlohmann::ordered_json object = read_file(model_path);
  if (object.is_null()) object = {{"kind", kKind}, {"model", fingerprint(model_path)}};
  object["taus"][entry_name(what)] = {
      {"tau_1", taus.low}, {"tau_2", taus.high}, {"accuracy", accuracy}, {"questions", questions}};
  const std::string temporary = temporary_path(model_path), text = object.dump(2) + "\n";
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (file == nullptr) refuse_to_write(model_path, errno);
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0 && written;
  int error = errno;
  if (std::fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && std::rename(temporary.c_str(), calibration_path(model_path).c_str()) == 0) return;
  if (written) error = errno;
  std::remove(temporary.c_str());
  refuse_to_write(model_path, error);
}

}  // namespace ocellus::app
