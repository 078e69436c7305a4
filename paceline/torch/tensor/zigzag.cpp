#include "paceline/torch/tensor/zigzag.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"

namespace paceline {

at::Tensor zigzag_positions(std::int64_t length, const Communicator& group) {
  const std::int64_t chunks = 2 * group.size();
  if (length % chunks != 0) {
    throw_misuse(c10::str("a sequence of ", length, " tokens cannot be shared by ", group.size(),
                          " ranks in zigzag, which takes ", chunks,
                          " equal chunks: take a length that ", chunks, " divides"));
  }
  const at::Tensor all = at::arange(length, at::kLong).view({chunks, -1});
  return at::cat({all[group.rank()], all[chunks - 1 - group.rank()]});
}

at::Tensor zigzag_part(const at::Tensor& whole, std::int64_t dimension, const Communicator& group) {
  return whole.index_select(dimension, zigzag_positions(whole.size(dimension), group));
}

}  // namespace paceline
