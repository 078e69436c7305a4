#include "paceline/core/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "paceline/core/base/result.h"

namespace paceline {
namespace {

void check(int done) {
  if (done != 1) throw Error({Fault::io, "OpenSSL cannot compute SHA-256 here", {}});
}

}  // namespace

struct Sha256::Context {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state{EVP_MD_CTX_new(),
                                                                      &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  check(context_->state ? ::EVP_DigestInit_ex(context_->state.get(), ::EVP_sha256(), nullptr) : 0);
}

Sha256::~Sha256() = default;

void Sha256::add(Bytes bytes) {
  if (!bytes.empty()) check(::EVP_DigestUpdate(context_->state.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  check(::EVP_DigestFinal_ex(context_->state.get(), digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(Bytes bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

}  // namespace paceline
