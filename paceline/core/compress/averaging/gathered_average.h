// Computes the mean by an all_gather of the ranks' encoded gradients: every rank decodes all of
// them and adds them up in rank order. It serves codecs whose payloads cannot be added
// (docs/compression/README.md), and pays if these are shorter than 2/ranks of the gradient.
//
// Bytes that a rank sends: (ranks - 1) * message_bytes(longest_payload).
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

struct GatheredOptions {
  bool feedback = true;  // error feedback: for contractions; unbiased codecs need none
  // Decoded values are multiplied by it. Around an unbiased codec of variance omega, error feedback
  // can diverge unless this is 1 / (1 + omega).
  float gain = 1;
};

std::unique_ptr<Averaging> gathered_average(const AveragedTensor& part,
                                            std::unique_ptr<const Codec> codec,
                                            const GatheredOptions& options = {});

}  // namespace paceline::compress
