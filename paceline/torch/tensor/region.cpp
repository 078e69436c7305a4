#include "paceline/torch/tensor/region.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::tensor {
namespace {

template <typename Call>
auto in_layer(const LayerPlace& place, const char* purpose, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str("in layer '", place.layer, "', which is split along tp, while it ",
                            purpose, ": ", failure.what);
    throw Error(std::move(failure));
  }
}

}  // namespace

Work LayerPlace::start(const char* purpose, const std::function<Work()>& call) const {
  return in_layer(*this, purpose, call);
}

void LayerPlace::wait(const char* purpose, const Work& work) const {
  in_layer(*this, purpose, [&] { work.wait(); });
}

void LayerPlace::run(const char* purpose, const std::function<Work()>& call) const {
  in_layer(*this, purpose, [&] { call().wait(); });
}

void Region::keep_range(const at::Tensor& tensor, int dimension, const ShardRange& range,
                        bool is_first_copy) {
  for (const replica::Placement& known : placements) {
    if (!known.tensor.is_same(tensor)) continue;
    if (known.dimension == dimension && known.begin == range.begin &&
        tensor.size(dimension) == range.length())
      return;
    throw_misuse(
        c10::str("parallelize: a parameter ", describe(tensor),
                 " that two layers share is to be split in two ways: give them styles that "
                 "split it alike, as vocabulary does of an Embedding and a Linear"));
  }
  const at::NoGradGuard no_grad;
  const std::int64_t whole = tensor.size(dimension);
  if (size() > 1) {
    group->broadcast(buffer_of(tensor)).wait();
    tensor.set_data(
        tensor.narrow(dimension, range.begin, range.length()).clone(at::MemoryFormat::Contiguous));
  }
  placements.push_back({tensor, dimension, range.begin, whole, is_first_copy});
  if (size() > 1) replica::mark_part(placements.back());
}

ShardRange range_of(std::int64_t length, int rank, int ranks) {
  return {length * rank / ranks, length * (rank + 1) / ranks};
}

}  // namespace paceline::tensor

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
