#include "paceline/torch/bridge/digest.h"

#include <openssl/evp.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "paceline/core/base/base.h"

namespace paceline {

static_assert(std::endian::native == std::endian::little,
              "digests and wire formats are little-endian");

std::string sha256_of(std::span<const at::Tensor> tensors) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    good = good && (dense.numel() == 0 ||
                    EVP_DigestUpdate(context.get(), dense.const_data_ptr(), dense.nbytes()) == 1);
  }
  std::array<unsigned char, 32> digest{};
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  if (!good) throw Error({Fault::io, "OpenSSL cannot compute SHA-256 here", {}});
  std::string text;
  for (unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Four chains side by side. Each step is a bijection of the chain and of the word, so a word that
// differs is never lost.
std::uint64_t fingerprint_of(const at::Tensor& tensor) {
  constexpr std::size_t kWord = sizeof(std::uint64_t), kChains = 4;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const at::Tensor dense = tensor.detach().contiguous();
  const std::size_t bytes = dense.nbytes();
  const auto* data = static_cast<const std::byte*>(bytes == 0 ? nullptr : dense.const_data_ptr());
  std::array<std::uint64_t, kChains> chains{1, 2, 3, 4};
  const auto step = [&](std::uint64_t& chain, const std::byte* from, std::size_t length) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, length);
    chain = std::rotl((chain ^ word) * kOdd, 29);
  };
  std::size_t at = 0;
  for (; at + kChains * kWord <= bytes; at += kChains * kWord) {
    for (std::size_t c = 0; c < kChains; ++c) step(chains[c], data + at + c * kWord, kWord);
  }
  for (; at < bytes; at += kWord) step(chains[0], data + at, std::min(kWord, bytes - at));
  std::uint64_t fingerprint = bytes;
  for (const std::uint64_t chain : chains) fingerprint = mix(fingerprint, chain);
  return fingerprint;
}

}  // namespace paceline
