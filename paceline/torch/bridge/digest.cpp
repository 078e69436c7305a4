#include "paceline/torch/bridge/digest.h"

#include <openssl/evp.h>
#include <torch/torch.h>

#include <array>
#include <bit>
#include <memory>

#include "paceline/core/base/result.h"

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

}  // namespace paceline
