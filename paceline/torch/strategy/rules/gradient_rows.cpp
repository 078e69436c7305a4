#include "paceline/torch/strategy/rules/gradient_rows.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy::rules {
namespace {

// So many that the blocks of some dozens of rows stay in a processor's cache.
constexpr std::int64_t kColumnsOfABlock = 1024;

// Calls `work` with the tensor's elements as they are stored.
template <typename Work>
decltype(auto) with_elements(const at::Tensor& tensor, const Work& work) {
  if (tensor.scalar_type() == at::kDouble) return work(tensor.const_data_ptr<double>());
  return work(tensor.const_data_ptr<float>());
}

template <typename Element>
bool all_finite(const Element* values, std::int64_t count) {
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i)
    finite &= std::abs(values[i]) <= std::numeric_limits<Element>::max();
  return finite;
}

// Eight partial sums, which one instruction may add to, always in the same order.
double square_distance(std::span<const double> a, std::span<const double> b) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  const std::size_t whole = a.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double difference = a[i + lane] - b[i + lane];
      sums[lane] += difference * difference;
    }
  }
  for (std::size_t i = whole; i < a.size(); ++i) {
    const double difference = a[i] - b[i];
    sums[i - whole] += difference * difference;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

GradientRows::GradientRows(at::Tensor rows, int faulty) : rows_(std::move(rows)) {
  if (rows_.dim() != 2 || !rows_.is_contiguous() ||
      (rows_.scalar_type() != at::kFloat && rows_.scalar_type() != at::kDouble)) {
    throw_misuse(c10::str("robust rules take the rows of a contiguous matrix of f32 or f64, not ",
                          describe(rows_), ": convert it by .to(torch::kFloat).contiguous()"));
  }
  for (std::int64_t i = 0; i < rows_.size(0); ++i) {
    const bool finite = with_elements(rows_, [&](const auto* elements) {
      return all_finite(elements + i * columns(), columns());
    });
    if (finite) kept_.push_back(i);
  }
  const auto left_out = static_cast<int>(rows_.size(0)) - static_cast<int>(count());
  faulty_ = std::max(0, faulty - left_out);
}

void GradientRows::for_each_block(const std::function<void(const RowBlock&)>& work) const {
  std::vector<double> values(count() *
                             static_cast<std::size_t>(std::min(kColumnsOfABlock, columns())));
  for (std::int64_t begin = 0; begin < columns(); begin += kColumnsOfABlock) {
    RowBlock block{.begin = begin, .rows = count()};
    block.width = static_cast<std::size_t>(std::min(kColumnsOfABlock, columns() - begin));
    block.values = std::span(values).first(block.rows * block.width);
    for (std::size_t i = 0; i < block.rows; ++i) {
      with_elements(rows_, [&](const auto* elements) {
        const auto* from = elements + kept_[i] * columns() + begin;
        std::copy(from, from + block.width, block.row(i).begin());
      });
    }
    work(block);
  }
}

at::Tensor GradientRows::vector_of(const Centre& centre) const {
  at::Tensor vector = at::empty({columns()}, rows_.options());
  std::array<double, kColumnsOfABlock> memory;
  for_each_block([&](const RowBlock& block) {
    const std::span<double> values = std::span(memory).first(block.width);
    centre(block, values);
    if (vector.scalar_type() == at::kDouble) {
      std::ranges::copy(values, vector.mutable_data_ptr<double>() + block.begin);
    } else {
      std::ranges::transform(values, vector.mutable_data_ptr<float>() + block.begin,
                             [](double value) { return static_cast<float>(value); });
    }
  });
  return vector;
}

at::Tensor GradientRows::row(std::size_t i) const {
  return rows_.select(0, kept_[i]).clone();
}

at::Tensor GradientRows::weighted_sum(std::span<const double> weights) const {
  return vector_of([&](const RowBlock& block, std::span<double> into) {
    std::ranges::fill(into, 0.0);
    add_weighted(block, weights, into);
  });
}

std::vector<double> GradientRows::square_distances(const Centre& centre) const {
  std::vector<double> squares(count(), 0.0);
  std::array<double, kColumnsOfABlock> memory;
  for_each_block([&](const RowBlock& block) {
    const std::span<double> values = std::span(memory).first(block.width);
    centre(block, values);
    for (std::size_t i = 0; i < block.rows; ++i)
      squares[i] += square_distance(block.row(i), values);
  });
  return squares;
}

std::vector<double> GradientRows::pair_square_distances() const {
  const std::size_t n = count();
  std::vector<double> squares(n * n, 0.0);
  for_each_block([&](const RowBlock& block) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j)
        squares[i * n + j] += square_distance(block.row(i), block.row(j));
  });
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) squares[i * n + j] = squares[j * n + i];
  return squares;
}

void read_columns(const at::Tensor& vector, std::int64_t begin, std::span<double> into) {
  with_elements(vector, [&](const auto* elements) {
    std::copy(elements + begin, elements + begin + into.size(), into.begin());
  });
}

void add_weighted(const RowBlock& block, std::span<const double> weights, std::span<double> into) {
  for (std::size_t i = 0; i < block.rows; ++i) {
    const double weight = weights[i];
    const std::span<const double> row = block.row(i);
    for (std::size_t c = 0; c < into.size(); ++c) into[c] += weight * row[c];
  }
}

}  // namespace paceline::strategy::rules
