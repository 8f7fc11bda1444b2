#include "apps/hub/digest.h"

#include <openssl/evp.h>

#include <new>

#include "apps/base/failure.h"
#include "apps/hub/loaded_library.h"

namespace ocellus::app {
namespace {

struct Crypto {
  decltype(&EVP_MD_CTX_new) make = nullptr;
  decltype(&EVP_MD_CTX_free) free = nullptr;
  decltype(&EVP_sha256) sha256 = nullptr;
  decltype(&EVP_sha1) sha1 = nullptr;
  decltype(&EVP_DigestInit_ex) begin = nullptr;
  decltype(&EVP_DigestUpdate) update = nullptr;
  decltype(&EVP_DigestFinal_ex) finish = nullptr;

  Crypto() {
    const LoadedLibrary library = {"libcrypto.so.3", "libcrypto.so.1.1"};
    const bool is_loaded = library.find("EVP_MD_CTX_new", &make) && library.find("EVP_MD_CTX_free", &free) &&
                           library.find("EVP_sha256", &sha256) && library.find("EVP_sha1", &sha1) &&
                           library.find("EVP_DigestInit_ex", &begin) && library.find("EVP_DigestUpdate", &update) &&
                           library.find("EVP_DigestFinal_ex", &finish);
    if (!is_loaded)
      throw Failure(kExitRuntime, "libcrypto, which checks files, is not on this system: install libssl3.");
  }
};

const Crypto& crypto() {
  static const Crypto functions;
  return functions;
}

void expect(int result) {
  if (result != 1) throw Failure(kExitRuntime, "libcrypto refuses to hash: its own settings forbid it.");
}

}  // namespace

struct Digest::State {
  State() : context(crypto().make()) {
    if (context == nullptr) throw std::bad_alloc();
  }
  ~State() { crypto().free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Digest::Digest(DigestKind kind, int64_t bytes) : kind_(kind), bytes_(bytes), state_(std::make_unique<State>()) {
  reset();
}

Digest::~Digest() = default;

void Digest::reset() {
  const bool is_git = kind_ == DigestKind::kGitBlob;
  expect(crypto().begin(state_->context, is_git ? crypto().sha1() : crypto().sha256(), nullptr));
  const std::string head = "blob " + std::to_string(bytes_);
  if (is_git) add(head.c_str(), head.size() + 1);  // with the null byte
}

void Digest::add(const void* bytes, size_t count) { expect(crypto().update(state_->context, bytes, count)); }

std::string Digest::finish() {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  expect(crypto().finish(state_->context, hash, &count));
  std::string text;
  for (unsigned int i = 0; i < count; ++i) text += {kDigits[hash[i] >> 4], kDigits[hash[i] & 15]};
  return text;
}

}  // namespace ocellus::app
