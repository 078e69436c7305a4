// The mean by an all_gather of what a codec makes of each rank's gradient; every rank decodes all
// of it and adds it up in rank order. For codecs whose payloads cannot be added
// (docs/compression/README.md): it pays where they are shorter than 2/ranks of the gradient.
//
// Bytes that a rank sends: (ranks - 1) * message_bytes(longest_payload).
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"
#include "paceline/core/compress/codec.h"

namespace paceline::compress {

struct GatheredOptions {
  bool feedback = true;  // of errors: for contractions; unbiased codecs go without
  // What is decoded is multiplied by it. Around an unbiased codec of variance omega error feedback
  // can diverge unless this is 1 / (1 + omega).
  float gain = 1;
};

std::unique_ptr<Averaging> gathered_average(const Part& part, std::unique_ptr<const Codec> codec,
                                            const GatheredOptions& options = {});

}  // namespace paceline::compress
