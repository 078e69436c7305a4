#include "paceline/core/compress/averaging/low_rank_average.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/kernels/counter_random.h"
#include "paceline/core/compress/kernels/low_rank_products.h"
#include "paceline/core/compress/kernels/orthogonalise.h"

namespace paceline::compress {
namespace {

class LowRankAverage final : public Averaging {
 public:
  LowRankAverage(const AveragedTensor& part, const LowRankOptions& options)
      : part_(part),
        options_(options),
        rank_(std::min({part.rows, part.columns, static_cast<std::size_t>(options.rank)})),
        residual_(options.feedback, part.elements()),
        p_(rank_ * part.rows),
        q_(rank_ * part.columns),
        own_q_(q_.size()),
        mean_q_(q_.size()) {}

  std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) override {
    gradient_ = gradient;
    overflowed_ = false;
    if (step < options_.dense_steps) {
      stage_ = Stage::dense;
      return average(buffer_of(gradient), buffer_of(gradient));
    }
    stage_ = Stage::left;
    own_q_ = q_;
    start(step);
    add_and_multiply(matrix(), residual_.values(), own_q_, p_);
    return average(buffer_of(p_), buffer_of(p_));
  }

  Result<std::optional<Exchange>> next() override {
    if (stage_ == Stage::left) {
      stage_ = Stage::right;
      overflowed_ = !all_finite(p_);
      if (!overflowed_) return std::optional<Exchange>(project());
    } else if (stage_ == Stage::right) {
      overflowed_ = !all_finite(mean_q_);
    } else {
      overflowed_ = !all_finite(gradient_);
    }
    return std::optional<Exchange>();
  }

  bool overflowed() const override { return overflowed_; }

  Result<> finish() override {
    if (stage_ == Stage::dense) return Done();
    replace_by_product(matrix(), p_, own_q_, mean_q_, residual_.values());
    if (options_.warm_start) q_.swap(mean_q_);
    return Done();
  }

  std::vector<StateView> state() override {
    std::vector<StateView> views = residual_.state();
    if (options_.warm_start) views.push_back({StateView::Sharing::equal, "right_factor", q_});
    return views;
  }

 private:
  enum class Stage : std::uint8_t { dense, left, right };

  static Exchange average(Buffer input, Buffer output) {
    return {.kind = Exchange::Kind::all_reduce,
            .input = input,
            .output = output,
            .op = ReduceOp::average};
  }

  MatrixView matrix() const { return {gradient_, part_.columns}; }
  std::span<float> column(std::vector<float>& factor, std::size_t c) const {
    return std::span(factor).subspan(c * part_.columns, part_.columns);
  }

  // Makes own_q_ orthonormal. Columns that are 0, as all are at first, are drawn at random, because
  // a lost direction would never come back.
  void start(std::uint32_t step) {
    orthogonalise(own_q_, part_.columns);
    std::vector<float> drawn;
    for (std::size_t c = 0; c < rank_; ++c) {
      const std::span<float> q = column(own_q_, c);
      if (std::ranges::any_of(q, [](float value) { return value != 0; })) continue;
      if (drawn.empty()) drawn = normal_numbers(step);
      for (std::size_t j = 0; j < q.size(); ++j) q[j] = drawn[j * rank_ + c];
    }
    if (!drawn.empty()) orthogonalise(own_q_, part_.columns);
  }

  // Draws as many numbers as Q has (Box and Muller), the same on all ranks.
  std::vector<float> normal_numbers(std::uint32_t step) const {
    std::vector<std::uint32_t> words(2 * q_.size());
    random_words({.seed = part_.seed,
                  .tensor = part_.tensor,
                  .step = step,
                  .purpose = RandomStream::Purpose::start},
                 0, words);
    std::vector<float> numbers(q_.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double u = words[i] * 0x1p-32, turn = words[numbers.size() + i] * 0x1p-32;
      numbers[i] = static_cast<float>(std::sqrt(-2 * std::log(1 - u)) *
                                      std::cos(2 * std::numbers::pi * turn));
    }
    return numbers;
  }

  Exchange project() {
    orthogonalise(p_, part_.rows);
    multiply_transposed(matrix(), p_, own_q_);
    return average(buffer_of(own_q_), buffer_of(mean_q_));
  }

  const AveragedTensor part_;
  const LowRankOptions options_;
  const std::size_t rank_;
  Residual residual_;
  std::vector<float> p_;  // column by column, as the others
  std::vector<float> q_;  // Q of the last step; 0 before the first
  std::vector<float> own_q_, mean_q_;
  std::span<float> gradient_;
  Stage stage_ = Stage::dense;
  bool overflowed_ = false;
};

}  // namespace

bool low_rank_pays(const AveragedTensor& part, int rank, double min_rate) {
  const auto n = static_cast<double>(part.rows), m = static_cast<double>(part.columns);
  return (n + m) * std::min({n, m, static_cast<double>(rank)}) * min_rate < n * m;
}

std::unique_ptr<Averaging> low_rank_average(const AveragedTensor& part,
                                            const LowRankOptions& options) {
  PACELINE_CHECK(options.rank > 0, "a rank of {}", options.rank);
  return std::make_unique<LowRankAverage>(part, options);
}

}  // namespace paceline::compress
