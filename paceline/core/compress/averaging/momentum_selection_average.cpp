#include "paceline/core/compress/averaging/momentum_selection_average.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/payload/codec.h"
#include "paceline/core/compress/payload/sparse.h"

namespace paceline::compress {
namespace {

// A sample of 1 % says little about fewer elements.
constexpr std::size_t kFewestSampled = 1 << 14;

class MomentumSelectionAverage final : public Averaging {
 public:
  MomentumSelectionAverage(const AveragedTensor& part, const MomentumSelectionOptions& options)
      : part_(part),
        options_(options),
        momentum_(part.elements()),
        velocity_(part.elements()),
        next_momentum_(part.elements()),
        slots_(part) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    envelope_ = {static_cast<std::uint8_t>(PayloadFormat::sparse), part_.tensor, step,
                 part_.elements()};
    accumulate(clipping());
    const std::size_t count = count_of(ratio_at(options_, step), gradient.size());
    slots_.resize(sparse_bytes(count));
    std::optional<std::size_t> payload;
    if (select(count)) {
      payload = sparse_bytes(own_.size());
      write_sparse(gradient, own_, slots_.own_payload().first(*payload));
    }
    return slots_.gather(envelope_, payload);
  }

  Result<std::optional<Exchange>> next() override {
    const auto opened = slots_.open(envelope_);
    if (!opened) return opened.error();
    overflowed_ = !opened.value();
    received_.clear();
    for (int rank = 0; rank < part_.ranks && !overflowed_; ++rank) {
      const auto sparse = open_sparse(slots_.payload(rank), gradient_.size());
      if (!sparse) return blamed(rank, sparse.error());
      received_.push_back(sparse.value());
    }
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    momentum_.swap(next_momentum_);
    std::ranges::copy(gradient_, velocity_.begin());
    const bool masked = options_.masking && envelope_.step >= options_.warm_up_steps;
    for (const std::uint32_t i : own_) {
      velocity_[i] = 0;
      if (masked) momentum_[i] = 0;
    }
    std::ranges::fill(gradient_, 0.0f);
    for (const SparseView& sparse : received_) {
      for (std::size_t i = 0; i < sparse.size(); ++i) gradient_[sparse.index(i)] += sparse.value(i);
    }
    scale(Dtype::f32, std::as_writable_bytes(gradient_), 1.0 / part_.ranks);
    return Done();
  }

  std::vector<StateView> state() override {
    return {{StateView::Sharing::own, "momentum", momentum_},
            {StateView::Sharing::own, "velocity", velocity_}};
  }

 private:
  float clipping() const {
    if (options_.clip == 0) return 1;
    double squares = 0;
    for (const float g : gradient_) squares += static_cast<double>(g) * g;
    const double limit = options_.clip / std::sqrt(part_.ranks);
    return squares > limit * limit ? static_cast<float>(limit / std::sqrt(squares)) : 1;
  }

  // next_momentum_ becomes u, and the gradient v.
  void accumulate(float clipping) {
    const float m = options_.momentum;
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      const float g = gradient_[i] * clipping;
      const float u = options_.nesterov ? m * (momentum_[i] + g) : m * momentum_[i] + g;
      next_momentum_[i] = u;
      gradient_[i] = options_.nesterov ? velocity_[i] + u + g : velocity_[i] + u;
    }
  }

  bool select(std::size_t count) {
    if (!options_.sampled || gradient_.size() < kFewestSampled) {
      own_.resize(count);
      return select_largest(gradient_, own_);
    }
    auto selected = select_by_sample(gradient_, count,
                                     {.seed = part_.seed,
                                      .tensor = part_.tensor,
                                      .step = envelope_.step,
                                      .rank = static_cast<std::uint32_t>(part_.rank),
                                      .purpose = RandomStream::Purpose::sample});
    if (!selected) return false;
    own_ = std::move(*selected);
    return true;
  }

  const AveragedTensor part_;
  const MomentumSelectionOptions options_;
  std::vector<float> momentum_, velocity_;  // u and v
  std::vector<float> next_momentum_;
  Slots slots_;
  std::vector<std::uint32_t> own_;
  std::vector<SparseView> received_;
  Envelope envelope_;
  std::span<float> gradient_;
  bool overflowed_ = false;
};

class MomentumAverage final : public Averaging {
 public:
  MomentumAverage(const AveragedTensor& part, float momentum, bool nesterov)
      : factor_(momentum),
        nesterov_(nesterov),
        mean_(cast_average(part, Dtype::f32)),
        momentum_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    return mean_->begin(gradient, step);
  }

  Result<std::optional<Exchange>> next() override { return mean_->next(); }
  bool overflowed() const override { return mean_->overflowed(); }

  Result<> finish() override {
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      momentum_[i] = factor_ * momentum_[i] + gradient_[i];
      gradient_[i] = nesterov_ ? gradient_[i] + factor_ * momentum_[i] : momentum_[i];
    }
    return Done();
  }

  std::vector<StateView> state() override {
    return {{StateView::Sharing::equal, "momentum", momentum_}};
  }

 private:
  const float factor_;
  const bool nesterov_;
  const std::unique_ptr<Averaging> mean_;
  std::vector<float> momentum_;
  std::span<float> gradient_;
};

}  // namespace

double ratio_at(const MomentumSelectionOptions& options, std::uint32_t step) {
  if (step >= options.warm_up_steps) return options.ratio;
  const auto stages = static_cast<std::uint64_t>(options.warm_up_stages);
  const std::uint64_t stage = step * stages / options.warm_up_steps;
  return std::pow(options.ratio, static_cast<double>(stage + 1) / static_cast<double>(stages + 1));
}

std::unique_ptr<Averaging> momentum_selection_average(const AveragedTensor& part,
                                                      const MomentumSelectionOptions& options) {
  PACELINE_CHECK(options.ratio > 0 && options.ratio <= 1, "a ratio of {} is not in (0, 1]",
                 options.ratio);
  PACELINE_CHECK(options.warm_up_stages > 0, "a warm-up of {} stages", options.warm_up_stages);
  return std::make_unique<MomentumSelectionAverage>(part, options);
}

std::unique_ptr<Averaging> momentum_average(const AveragedTensor& part, float momentum,
                                            bool nesterov) {
  return std::make_unique<MomentumAverage>(part, momentum, nesterov);
}

}  // namespace paceline::compress
