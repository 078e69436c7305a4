#include "paceline/core/compress/averaging/shared_index_average.h"

#include <algorithm>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/envelope.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/permutation.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/payload/codec.h"
#include "paceline/core/compress/payload/message.h"

namespace paceline::compress {
namespace {

class SharedIndexAverage final : public Averaging {
 public:
  SharedIndexAverage(const AveragedTensor& part, const SharedIndexOptions& options)
      : part_(part),
        options_(options),
        residual_(options.feedback, part.elements()),
        indices_(count_of(options.ratio, part.elements())),
        values_(indices_.size()) {
    if (options.leader) message_.resize(message_bytes(4 * indices_.size()));
  }

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = false;
    envelope_ = {kIndices, part_.tensor, step, part_.elements()};
    residual_.add_to(gradient);
    chosen_ = !options_.leader;
    if (options_.leader) return announce();
    indices_ = random_indices(part_.elements(), values_.size(), part_.seed, part_.tensor, step);
    return add_up();
  }

  Result<std::optional<Exchange>> next() override {
    if (chosen_) {
      overflowed_ = !all_finite(values_);
      return std::optional<Exchange>();
    }
    chosen_ = true;
    const auto heard = hear();
    if (!heard) return heard.error();
    overflowed_ = !heard.value();
    return overflowed_ ? std::optional<Exchange>() : std::optional<Exchange>(add_up());
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    if (options_.share == 1) residual_.keep_all_but(gradient_, indices_);
    else filter();
    const float factor =
        options_.feedback
            ? 1
            : static_cast<float>(static_cast<double>(part_.elements()) /
                                 static_cast<double>(std::max<std::size_t>(values_.size(), 1)));
    std::ranges::fill(gradient_, 0.0f);
    for (std::size_t i = 0; i < indices_.size(); ++i) gradient_[indices_[i]] = values_[i] * factor;
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  int leader() const {
    return static_cast<int>(envelope_.step % static_cast<std::uint32_t>(part_.ranks));
  }

  Exchange announce() {
    if (part_.rank == leader()) {
      std::optional<std::size_t> payload;
      if (select_largest(gradient_, indices_)) {
        payload = 4 * indices_.size();
        std::ranges::copy(std::as_bytes(std::span(indices_)), payload_of(message_).begin());
      }
      seal_in(message_, envelope_, payload);
    }
    return {.kind = Exchange::Kind::broadcast,
            .input = const_buffer_of(message_),
            .output = buffer_of(message_),
            .root = leader()};
  }

  // Returns false if the leader had an overflow.
  Result<bool> hear() {
    const auto payload = open_from(leader(), message_, envelope_);
    if (!payload) return payload.error();
    if (!payload.value()) return false;
    const MutableBytes into = std::as_writable_bytes(std::span(indices_));
    if (const auto right = expect_bytes(*payload.value(), into.size(), part_.elements()); !right)
      return blamed(leader(), right.error());
    std::ranges::copy(*payload.value(), into.begin());
    const bool ascending =
        std::ranges::adjacent_find(indices_, std::greater_equal()) == indices_.end();
    if (!ascending || (!indices_.empty() && indices_.back() >= part_.elements())) {
      return blamed(leader(), malformed_payload("indices are not ascending, or of no element"));
    }
    return true;
  }

  // NaN on one rank becomes NaN on all.
  Exchange add_up() {
    for (std::size_t i = 0; i < indices_.size(); ++i) values_[i] = gradient_[indices_[i]];
    if (!all_finite(gradient_)) values_.front() = std::numeric_limits<float>::quiet_NaN();
    return {.kind = Exchange::Kind::all_reduce,
            .input = const_buffer_of(values_),
            .output = buffer_of(values_),
            .op = ReduceOp::average};
  }

  void filter() {
    const std::span<float> kept = residual_.values();
    for (const std::uint32_t i : indices_) gradient_[i] = 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      kept[i] = (1 - options_.share) * kept[i] + options_.share * gradient_[i];
  }

  const AveragedTensor part_;
  const SharedIndexOptions options_;
  Residual residual_;
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
  std::vector<std::byte> message_;  // the leader's
  Envelope envelope_;
  std::span<float> gradient_;
  bool chosen_ = false;
  bool overflowed_ = false;
};

}  // namespace

std::unique_ptr<Averaging> shared_index_average(const AveragedTensor& part,
                                                const SharedIndexOptions& options) {
  PACELINE_CHECK(options.ratio > 0 && options.ratio <= 1, "a ratio of {} is not in (0, 1]",
                 options.ratio);
  PACELINE_CHECK(options.share > 0 && options.share <= 1, "a share of {} is not in (0, 1]",
                 options.share);
  return std::make_unique<SharedIndexAverage>(part, options);
}

}  // namespace paceline::compress
