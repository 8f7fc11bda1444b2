// SHA-256 of a file, or SHA-1 as Git has it of a blob, by libcrypto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ocellus::app {

enum class DigestKind { kSha256, kGitBlob };

class Digest {
 public:
  // `bytes`: size of the whole file, which Git puts before it. Throws a Failure if libcrypto cannot be loaded.
  Digest(DigestKind kind, int64_t bytes);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(const void* bytes, size_t count);
  // Ends it and returns hexadecimal digits in lower case.
  std::string finish();
  // Begins again.
  void reset();

 private:
  struct State;
  DigestKind kind_;
  int64_t bytes_;
  std::unique_ptr<State> state_;
};

}  // namespace ocellus::app
