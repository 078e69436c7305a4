#include "paceline/torch/tensor/placed_layer.h"

namespace paceline {

const char* name_of(ParallelStyle style) {
  switch (style) {
    case ParallelStyle::column: return "column";
    case ParallelStyle::row: return "row";
    case ParallelStyle::heads: return "heads";
    case ParallelStyle::vocabulary: return "vocabulary";
    case ParallelStyle::sequence: return "sequence";
    case ParallelStyle::split: return "split";
  }
  return "unknown";
}

}  // namespace paceline
