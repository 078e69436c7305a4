// The codec ef_sign (Karimireddy et al. 2019) sends signs, scaled by the mean magnitude. It is a
// contraction, for use with error feedback.
#pragma once

#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

std::unique_ptr<Codec> ef_sign_codec();

}  // namespace paceline::compress
