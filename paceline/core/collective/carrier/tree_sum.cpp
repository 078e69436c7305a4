#include "paceline/core/collective/carrier/tree_sum.h"

#include <algorithm>

#include "paceline/core/base/half.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/carrier/combine.h"

namespace paceline::collective {

// The last sum lies in the target. 16-bit values are held as f32 on the way to it.
TreeSum::TreeSum(int inputs, std::size_t longest)
    : partial_sums_(2 * longest * static_cast<std::size_t>(std::max(inputs - 2, 0))) {}

void TreeSum::operator()(ReduceOp op, std::span<const ConstBuffer> inputs, Buffer target,
                         double factor) {
  const Dtype wide = is_half(target.dtype) ? Dtype::f32 : target.dtype;
  std::byte* free = partial_sums_.data();
  std::size_t left = inputs.size() - 1;
  values_.assign(inputs.begin(), inputs.end());
  sum_in_place(values_, [&](ConstBuffer a, ConstBuffer b) {
    const bool is_last = --left == 0;
    const Buffer sum = is_last ? target : Buffer{free, target.count, wide};
    if (!is_last) free += sum.size_bytes();
    combine(op, a, b, sum, is_last ? factor : 1.0);
    return ConstBuffer(sum);
  });
}

}  // namespace paceline::collective
