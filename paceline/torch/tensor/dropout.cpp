#include "paceline/torch/tensor/dropout.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compress.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

using compress::RandomStream;

// Elements of a row that lie together, here and in the whole row.
struct Run {
  std::int64_t here, in_whole, count;
};

struct Rows {
  std::int64_t count, here, whole;  // elements of a row here and in all
  std::vector<Run> runs;
};

// The tokens of rank `context` in zigzag, as runs of whole rows of `tokens` tokens.
std::vector<Run> zigzag_runs(std::int64_t tokens, const tensor::DropoutClock& clock) {
  const std::int64_t chunk = tokens / (2 * clock.contexts);
  if (clock.contexts == 1) return {{0, 0, tokens}};
  return {{0, clock.context * chunk, chunk},
          {chunk, (2 * clock.contexts - 1 - clock.context) * chunk, chunk}};
}

// The tokens from `begin` on, `count` of them, among runs that lie one after the other.
std::vector<Run> cut(const std::vector<Run>& runs, std::int64_t begin, std::int64_t count) {
  std::vector<Run> found;
  for (const Run& run : runs) {
    const std::int64_t first = std::max(begin, run.here),
                       end = std::min(begin + count, run.here + run.count);
    if (first < end) found.push_back({first - begin, run.in_whole + first - run.here, end - first});
  }
  return found;
}

Rows rows_of(const at::Tensor& input, const tensor::LayerPlacePtr& place,
             const tensor::DropoutClock& clock) {
  const std::int64_t count = input.size(0), inner = count == 0 ? 0 : input.numel() / count;
  const int parts = place ? place->region->size() : 1;
  if (parts == 1 && clock.contexts == 1) return {count, inner, inner, {{0, 0, inner}}};
  if (input.dim() != 3) {
    throw_misuse(
        c10::str("a Dropout where ranks share sequences takes [batch, this rank's tokens, "
                 "features], and got ",
                 describe(input)));
  }
  const std::int64_t tokens = input.size(1), features = input.size(2);
  const std::int64_t of_context = tokens * parts, whole = of_context * clock.contexts;
  Rows rows{count, inner, whole * features,
            cut(zigzag_runs(whole, clock), place ? place->region->rank() * tokens : 0, tokens)};
  for (Run& run : rows.runs)
    run = {run.here * features, run.in_whole * features, run.count * features};
  return rows;
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
  const std::uint32_t pass = number_of_pass(input);
  const RandomStream stream{.seed = clock_->seed,
                            .tensor = layer_,
                            .step = static_cast<std::uint32_t>(step_),
                            .rank = pass % RandomStream::kShared,
                            .purpose = RandomStream::Purpose::dropout};
  const Rows rows = rows_of(input, place_, *clock_);
  const bool is_double = input.scalar_type() == at::kDouble;
  const at::Tensor mask =  // drawn on the host, wherever the input lies
      at::empty(input.sizes(), at::TensorOptions(is_double ? at::kDouble : at::kFloat));
  std::vector<std::uint32_t> words;
  const auto write = [&](auto* out) {
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t global = row * clock_->replicas + clock_->replica;
      for (const Run& run : rows.runs) {
        const auto first = static_cast<std::uint64_t>(global * rows.whole + run.in_whole);
        write_row(stream, first, options.p(), run.count, out + row * rows.here + run.here, words);
      }
    }
  };
  is_double ? write(mask.mutable_data_ptr<double>()) : write(mask.mutable_data_ptr<float>());
  return mask.to(input.device(), input.scalar_type());
}

// A part that is recomputed runs its first pass without gradients, so others need no record.
std::uint32_t DropoutImpl::number_of_pass(const at::Tensor& input) {
  if (const std::int64_t step = clock_->step(); step != step_) {
    step_ = step;
    passes_ = 0;
    recorded_.clear();
  }
  if (current_backward() >= 0 && passes_ > 0) return number_of_recomputed(input);
  if (!at::GradMode::is_enabled()) recorded_.push_back({fingerprint_of(input), passes_});
  return passes_++;
}

// Autograd goes through passes from the last to the first, so of equal inputs the last that was not
// recomputed yet is meant.
std::uint32_t DropoutImpl::number_of_recomputed(const at::Tensor& input) {
  const std::uint64_t fingerprint = fingerprint_of(input);
  const void* const node = torch::autograd::get_current_node().get();
  const int backward = current_backward();
  Recorded* found = nullptr;
  for (auto one = recorded_.rbegin(); one != recorded_.rend(); ++one) {
    if (one->input != fingerprint) continue;
    if (one->node == node && one->backward == backward) {
      throw_misuse(
          "a Dropout layer was used twice with the same input within a part of the model that is "
          "recomputed as a whole, so the masks of the two cannot be told apart: give each use a "
          "layer of its own, or recompute them as two parts");
    }
    if (found == nullptr || (found->node != nullptr && one->node == nullptr)) found = &*one;
  }
  if (found == nullptr) return passes_ - 1;
  found->node = node;
  found->backward = backward;
  return found->number;
}

void DropoutImpl::follow(std::shared_ptr<const tensor::DropoutClock> clock, std::uint32_t layer) {
  clock_ = std::move(clock);
  layer_ = layer;
}

std::string DropoutImpl::objection(const tensor::Request& request) const {
  return request.style == ParallelStyle::sequence ? "" : "a Dropout has the style sequence alone";
}

void DropoutImpl::place(const tensor::Request&, const tensor::LayerPlacePtr& place) {
  place_ = place;
}

}  // namespace paceline
