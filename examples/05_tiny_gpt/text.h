// A text as whole numbers, from which a model learns the next character.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tiny_gpt {

struct Text {
  std::string characters;         // number i stands for characters[i]; in rising order
  at::Tensor training, held_out;  // [characters] each, whole numbers; the last tenth is held out

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(characters.size()); }
  at::Tensor numbers_of(std::string_view text) const;  // of characters that the text has
  std::string text_of(const at::Tensor& numbers) const;
};

// The file's bytes; of an empty name the King James Bible of Debian's packages bible-kjv and
// bible-kjv-text. THROWS paceline::Error (misuse, io): it cannot be read, or is shorter than
// `shortest`.
Text read_text(const std::string& file, std::int64_t shortest);

// Sequences of `length` + 1 characters, one a row, from places that the seed and the step draw. The
// same for all ranks.
at::Tensor sequences(const at::Tensor& text, std::int64_t count, std::int64_t length,
                     std::uint64_t seed, std::int64_t step);

}  // namespace tiny_gpt
