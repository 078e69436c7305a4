// The codec qsgd (Alistarh et al. 2017) and what are settings of it: int8 and terngrad (Wen et al.
// 2017). Levels at random between 0 and the norm of a bucket, 2 to 8 bits each; unbiased.
#pragma once

#include "paceline/core/compress/codec.h"
#include "paceline/core/compress/quantise.h"

namespace paceline::compress {

struct QsgdSettings {
  int bits = 4;              // of a level: 2 to 8, so levels up to 2^(bits-1) - 1
  std::size_t bucket = 512;  // elements that share a norm; more than a tensor has: one bucket
  Norm norm = Norm::l2;
  // More than 0: a norm is at most so many root mean squares of its bucket, and larger values are
  // cut to it. Less variance, for a bias of what is cut off.
  double clip = 0;
};

// THROWS misuse: settings out of range.
std::unique_ptr<Codec> qsgd_codec(const QsgdSettings& settings = {});
std::unique_ptr<Codec> int8_codec(std::size_t bucket = 512);  // 8 bits, largest magnitude
std::unique_ptr<Codec> terngrad_codec(double clip = 0);  // 2 bits, one bucket, largest magnitude

}  // namespace paceline::compress
