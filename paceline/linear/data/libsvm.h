// Reads samples in LIBSVM's text format: a sample a line, "LABEL INDEX:VALUE INDEX:VALUE ...".
//
// Indices are whole numbers from 1 to kMostLibsvmFeatures, each at most once in a line, in any
// order; features that are not named are 0. Words are parted by spaces or tabs, "#" begins a
// comment, lines may end in CRLF, and lines without words are skipped. Labels and values are finite
// decimal numbers; a loss says which labels it takes. Source: Chang and Lin, LIBSVM, ACM TIST 2011,
// and its README.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/linear/data/samples.h"

namespace paceline::linear {

inline constexpr std::uint32_t kMostLibsvmFeatures = 1u << 27;  // 1 GiB of weights
inline constexpr std::size_t kLongestLibsvmLine = std::size_t{16} << 20;

struct LibsvmOptions {
  bool zero_based = false;  // indices count from 0
};

// Feature INDEX becomes column INDEX - 1, or INDEX where they count from 0; the width is that of
// the largest index. A failure (misuse) names the file, the line and the column in bytes, and says
// what is right; `name` is the file's name in it. Takes at most 16 bytes of memory for each byte of
// the text, whatever stands in it.
Result<Samples> parse_libsvm(std::string_view text, std::string_view name,
                             const LibsvmOptions& options = {});

// A failure is the parser's, or misuse for a file that cannot be read.
Result<Samples> read_libsvm(const std::string& path, const LibsvmOptions& options = {});

}  // namespace paceline::linear
