// A rank that trains on a wrong loss: what --corrupt asks for.
#pragma once

#include <cmath>
#include <string>

#include "rank_and_factor.h"

// Empty: the text is one of --corrupt.
inline std::string complaint_about_corruption(const std::string& text) {
  const auto corrupt = rank_and_factor_in(text);
  return corrupt && !std::isinf(corrupt->factor)
             ? ""
             : text + " is no RANK:FACTOR or RANK:nan, as in 0:-10";
}

// The factor of this rank's loss, before backward; 1 on a sound rank. `text`: empty, or that of
// --corrupt.
inline double corruption_of(const std::string& text, int rank) {
  const auto corrupt = rank_and_factor_in(text);
  return corrupt && corrupt->rank == rank ? corrupt->factor : 1;
}
