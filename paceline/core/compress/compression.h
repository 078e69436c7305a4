// How gradients are compressed, as a user says it: a method and its settings, and which tensors it
// is for.
#pragma once

#include <string>

#include "paceline/core/compress/catalogue.h"

namespace paceline::compress {

struct Compression {
  Method method;
  Settings settings;
  // Shorter tensors travel whole (BytePS's limit), and so do vectors: biases and norms.
  std::size_t min_compress_bytes = 65536;

  bool compresses(const Part& part) const;
  // For one tensor: the method's, or what small ones get. THROWS misuse: settings that do not fit
  // the part, as sums in too few bits for its ranks.
  std::unique_ptr<Averaging> averaging(const Part& part) const;
  std::string text() const;  // "top_k:ratio=0.01", with all settings
};

// "NAME" or "NAME:SETTING=VALUE,SETTING=VALUE", as in "power_sgd:rank=4"; min_compress_bytes is a
// setting of every method. A failure says what is wrong and what there is.
Result<Compression> parse_compression(std::string_view text, const Catalogue& methods);

}  // namespace paceline::compress
