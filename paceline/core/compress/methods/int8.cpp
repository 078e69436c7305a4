#include <algorithm>
#include <limits>
#include <memory>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/quantise.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

// Computes the mean by a sum of integers: ranks agree on the largest magnitude of each bucket
// (all_reduce max), turn their values into levels of that scale, and add them up (all_reduce of
// integers).
//
// The sum is exact, so the mean has the same bits for every algorithm and order. Levels are so
// small that sums fit: at most floor(127 / ranks) in i8, floor(32767 / ranks) in i16.
//
// Bytes: 4 ceil(N / bucket) + N or 2 N. Error of the mean: E err^2 <= d M^2 / (4 top^2 ranks) for a
// bucket of d elements with maximum M over the ranks; a rank with much smaller gradients than the
// others is rounded more coarsely than it would be alone (docs/compression/int8.md).
struct LevelSumOptions {
  int bits = 8;              // of the integers: 8 or 16
  std::size_t bucket = 512;  // elements that share a scale
  bool feedback = false;
};

template <typename Level>
class LevelSumAverage final : public Averaging {
 public:
  LevelSumAverage(const AveragedTensor& part, const LevelSumOptions& options)
      : part_(part),
        bucket_(options.bucket),
        residual_(options.feedback, part.elements()),
        norms_(buckets_of(part.elements(), bucket_)),
        levels_(residual_.kept() ? part.elements() : 0),
        sums_(part.elements()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    step_ = step;
    overflowed_ = scaled_ = false;
    residual_.add_to(gradient);
    if (!bucket_norms(gradient, bucket_, Norm::max, norms_))
      std::ranges::fill(norms_, std::numeric_limits<float>::quiet_NaN());
    return Exchange{.kind = Exchange::Kind::all_reduce,
                    .input = const_buffer_of(norms_),
                    .output = buffer_of(norms_),
                    .op = ReduceOp::max};
  }

  Result<std::optional<Exchange>> next() override {
    if (scaled_) return std::optional<Exchange>();
    scaled_ = true;
    overflowed_ = !all_finite(norms_);
    if (overflowed_) return std::optional<Exchange>();
    const RandomStream stream{.seed = part_.seed,
                              .tensor = part_.tensor,
                              .step = step_,
                              .rank = static_cast<std::uint32_t>(part_.rank)};
    const std::span own(residual_.kept() ? levels_ : sums_);
    quantise(gradient_, 0, shared_scale(), stream, own);
    return std::optional<Exchange>(Exchange{.kind = Exchange::Kind::all_reduce,
                                            .input = const_buffer_of(own),
                                            .output = buffer_of(sums_),
                                            .op = ReduceOp::sum});
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    if (residual_.kept()) {
      dequantise(std::span<const Level>(levels_), 0, shared_scale(), residual_.values());
      residual_.keep_rest_of(gradient_);
    }
    mean_of_sums(std::span<const Level>(sums_), 0, shared_scale(), part_.ranks, gradient_);
    return Done();
  }

  std::vector<StateView> state() override { return residual_.state(); }

 private:
  Scale shared_scale() const { return {norms_, bucket_, top_of_sum<Level>(part_.ranks)}; }

  const AveragedTensor part_;
  const std::size_t bucket_;
  Residual residual_;
  std::vector<float> norms_;
  std::vector<Level> levels_;  // this rank's, if they are needed after the exchange
  std::vector<Level> sums_;
  std::span<float> gradient_;
  std::uint32_t step_ = 0;
  bool scaled_ = false;
  bool overflowed_ = false;
};

template <typename Level>
std::unique_ptr<Averaging> made(const AveragedTensor& part, const LevelSumOptions& options) {
  PACELINE_CHECK(top_of_sum<Level>(part.ranks) > 0,
                 "sums over {} ranks do not fit into {} bits; use {}", part.ranks, options.bits,
                 options.bits == 8 ? "16 bits" : "another codec");
  return std::make_unique<LevelSumAverage<Level>>(part, options);
}

// THROWS misuse: the sum over the part's ranks does not fit in `bits` bits.
std::unique_ptr<Averaging> level_sum_average(const AveragedTensor& part,
                                             const LevelSumOptions& options) {
  PACELINE_CHECK(options.bucket > 0, "buckets have at least one element");
  PACELINE_CHECK(options.bits == 8 || options.bits == 16,
                 "sums of levels have 8 or 16 bits, not {}", options.bits);
  return options.bits == 8 ? made<std::int8_t>(part, options) : made<std::int16_t>(part, options);
}

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  return level_sum_average(part, {.bits = settings.on("bits") ? 16 : 8,
                                  .bucket = settings.as<std::size_t>("bucket"),
                                  .feedback = settings.on("feedback")});
}

}  // namespace

Method int8() {
  return {.name = "int8",
          .summary = "integers under a scale that all ranks share; their sum is exact",
          .reference = "after Li et al., THC, NSDI 2024",
          .settings = {{.name = "bits",
                        .standard = 0,
                        .meaning = "bits of an integer",
                        .whole = true,
                        .words = {"8", "16"}},
                       bucket_setting(),
                       feedback_setting(false)},
          .make = make};
}

}  // namespace paceline::compress::catalogue
