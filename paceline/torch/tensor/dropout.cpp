#include "paceline/torch/tensor/dropout.h"

#include <torch/torch.h>

#include <cmath>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compress.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

using compress::RandomStream;

// An activation cut along its sequence: `inner` elements of each row lie on this rank, from `begin`
// of the `whole` that the row has.
struct Rows {
  std::int64_t count, inner, begin, whole;
};

Rows rows_of(const at::Tensor& input, const tensor::PlacePtr& place) {
  const std::int64_t count = input.size(0), inner = count == 0 ? 0 : input.numel() / count;
  if (!place) return {count, inner, 0, inner};
  if (input.dim() != 3) {
    throw_misuse(c10::str("layer '", place->layer,
                          "' is split along the sequence, so its input is "
                          "[batch, part of the sequence, features], and this one is ",
                          describe(input)));
  }
  const tensor::Region& region = *place->region;
  return {count, inner, region.rank() * inner, region.size() * inner};
}

// Writes `scale` for the elements that stay, 0 for others. The first word is that of element
// `first`.
template <typename Number>
void write_row(const RandomStream& stream, std::uint64_t first, double p, std::int64_t count,
               Number* out, std::vector<std::uint32_t>& words) {
  const std::uint64_t aligned = first / 4 * 4, skipped = first - aligned;
  words.resize(static_cast<std::size_t>(count) + skipped);
  compress::random_words(stream, aligned, words);
  const auto dropped = static_cast<std::uint64_t>(std::llround(p * 4294967296.0));
  const auto scale = static_cast<Number>(1 / (1 - p));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = words[static_cast<std::size_t>(i) + skipped];
    out[i] = word < dropped ? Number(0) : scale;
  }
}

}  // namespace

DropoutImpl::DropoutImpl(const torch::nn::DropoutOptions& dropout_options)
    : options(dropout_options) {
  if (!(options.p() >= 0 && options.p() <= 1))
    throw_misuse(c10::str("Dropout: p is the probability of an element to be dropped, and ",
                          options.p(), " is not between 0 and 1"));
  if (options.inplace())
    throw_misuse("paceline::Dropout works on a copy: leave inplace(true) out of its options");
}

void DropoutImpl::pretty_print(std::ostream& stream) const {
  stream << "paceline::Dropout(p=" << options.p() << (place_ ? ", split=sequence)" : ")");
}

at::Tensor DropoutImpl::forward(const at::Tensor& input) {
  const bool has_clock = clock_ && clock_->step;
  if (!is_training() || options.p() == 0 || options.p() == 1 || !has_clock)
    return at::dropout(input, options.p(), is_training());
  return input * mask_like(input);
}

at::Tensor DropoutImpl::mask_like(const at::Tensor& input) {
  const std::int64_t step = clock_->step();
  uses_ = step == step_ ? uses_ + 1 : 0;
  step_ = step;
  const RandomStream stream{.seed = clock_->seed,
                            .tensor = layer_,
                            .step = static_cast<std::uint32_t>(step),
                            .rank = uses_ % RandomStream::kShared,
                            .purpose = RandomStream::Purpose::dropout};
  const Rows rows = rows_of(input, place_);
  const bool is_double = input.scalar_type() == at::kDouble;
  const at::Tensor mask =
      at::empty(input.sizes(), input.options().dtype(is_double ? at::kDouble : at::kFloat));
  std::vector<std::uint32_t> words;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t global = row * clock_->replicas + clock_->replica;
    const auto first = static_cast<std::uint64_t>(global * rows.whole + rows.begin);
    const auto write = [&](auto* out) {
      write_row(stream, first, options.p(), rows.inner, out + row * rows.inner, words);
    };
    is_double ? write(mask.mutable_data_ptr<double>()) : write(mask.mutable_data_ptr<float>());
  }
  return mask.to(input.scalar_type());
}

void DropoutImpl::follow(std::shared_ptr<const tensor::DropoutClock> clock, std::uint32_t layer) {
  clock_ = std::move(clock);
  layer_ = layer;
}

std::string DropoutImpl::objection(const tensor::Request& request) const {
  return request.style == ParallelStyle::sequence ? "" : "a Dropout has the style sequence alone";
}

void DropoutImpl::place(const tensor::Request&, const tensor::PlacePtr& place) {
  place_ = place;
}

}  // namespace paceline
