#include "paceline/torch/bridge/digest.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "paceline/core/base/base.h"
#include "paceline/core/base/sha256.h"

namespace paceline {

static_assert(std::endian::native == std::endian::little,
              "digests and wire formats are little-endian");

std::string sha256_of(std::span<const at::Tensor> tensors) {
  Sha256 sum;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    if (dense.numel() > 0)
      sum.add({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
  }
  return sum.hex();
}

// Four chains side by side. Each step is a bijection of the chain and of the word, so a word that
// differs is never lost.
std::uint64_t fingerprint_of(const at::Tensor& tensor) {
  constexpr std::size_t kWord = sizeof(std::uint64_t), kChains = 4;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const at::Tensor dense = tensor.detach().contiguous().cpu();
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
