// The codec qsgd (Alistarh et al. 2017), and int8 and terngrad (Wen et al. 2017) as settings of it.
// Values become random levels between 0 and the norm of their bucket, 2 to 8 bits each, unbiased.
#pragma once

#include "paceline/core/compress/kernels/quantise.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

struct QsgdSettings {
  int bits = 4;              // of a level: 2 to 8; levels reach 2^(bits-1) - 1
  std::size_t bucket = 512;  // elements that share a norm; a longer bucket holds the whole tensor
  Norm norm = Norm::l2;
  // If above 0, a norm is at most `clip` root mean squares of its bucket, and larger values are cut
  // to it: less variance, at the price of a bias.
  double clip = 0;
};

// THROWS misuse: settings out of range.
std::unique_ptr<Codec> qsgd_codec(const QsgdSettings& settings = {});
std::unique_ptr<Codec> int8_codec(std::size_t bucket = 512);  // 8 bits, largest magnitude
std::unique_ptr<Codec> terngrad_codec(double clip = 0);  // 2 bits, one bucket, largest magnitude

}  // namespace paceline::compress
