// The definitions of robust rules in plain loops over numbers: the oracle of their tests.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace paceline {

using PlainRow = std::vector<double>;
using PlainRows = std::vector<PlainRow>;

inline PlainRows plain_rows(const at::Tensor& matrix) {
  const at::Tensor values = matrix.to(at::kDouble).contiguous();
  PlainRows rows;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const double* row = values.const_data_ptr<double>() + i * values.size(1);
    rows.emplace_back(row, row + values.size(1));
  }
  return rows;
}

inline double plain_distance(const PlainRow& a, const PlainRow& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

inline PlainRow plain_mean(const PlainRows& rows) {
  PlainRow mean(rows.front().size(), 0.0);
  for (const PlainRow& row : rows)
    for (std::size_t c = 0; c < mean.size(); ++c)
      mean[c] += row[c] / static_cast<double>(rows.size());
  return mean;
}

// Per column, the mean of the sorted values from `first` to `last`.
inline PlainRow plain_middle(const PlainRows& rows, std::size_t first, std::size_t last) {
  PlainRow result;
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    std::vector<double> column;
    for (const PlainRow& row : rows) column.push_back(row[c]);
    std::sort(column.begin(), column.end());
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += column[i];
    result.push_back(sum / static_cast<double>(last - first));
  }
  return result;
}

inline PlainRow plain_median(const PlainRows& rows) {
  return plain_middle(rows, (rows.size() - 1) / 2, rows.size() / 2 + 1);
}

// Multi-Krum of `taken` rows; Krum takes one.
inline PlainRow plain_krum(const PlainRows& rows, int faulty, bool takes_one) {
  const int all = static_cast<int>(rows.size());
  const auto neighbours = static_cast<std::size_t>(std::max(1, all - faulty - 2));
  std::vector<std::pair<double, std::size_t>> scores;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<double> squares;
    for (std::size_t j = 0; j < rows.size(); ++j)
      if (j != i) squares.push_back(std::pow(plain_distance(rows[i], rows[j]), 2));
    std::sort(squares.begin(), squares.end());
    double score = 0;
    for (std::size_t k = 0; k < std::min(neighbours, squares.size()); ++k) score += squares[k];
    scores.emplace_back(score, i);
  }
  std::sort(scores.begin(), scores.end());
  PlainRows taken;
  for (std::size_t k = 0; k < (takes_one ? 1 : std::min(neighbours, rows.size())); ++k)
    taken.push_back(rows[scores[k].second]);
  return plain_mean(taken);
}

inline PlainRow plain_geometric_median(const PlainRows& rows) {
  PlainRow z = plain_median(rows);
  for (int iteration = 0; iteration < 50; ++iteration) {
    PlainRow next(z.size(), 0.0);
    double total = 0;
    for (const PlainRow& row : rows) {
      const double weight = 1 / std::max(1e-6, plain_distance(row, z));
      total += weight;
      for (std::size_t c = 0; c < z.size(); ++c) next[c] += weight * row[c];
    }
    for (double& value : next) value /= total;
    z = next;
  }
  return z;
}

inline PlainRow plain_clipping(const PlainRows& rows, PlainRow centre, double radius, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    PlainRow next = centre;
    for (const PlainRow& row : rows) {
      const double factor = std::min(1.0, radius / std::max(plain_distance(row, centre), 1e-300)) /
                            static_cast<double>(rows.size());
      for (std::size_t c = 0; c < next.size(); ++c) next[c] += factor * (row[c] - centre[c]);
    }
    centre = next;
  }
  return centre;
}

// The rule by its name; `start`: of clipping. Rows that are not finite are left out.
inline at::Tensor plain_rule(const std::string& rule, const at::Tensor& matrix, int faulty,
                             const at::Tensor& start = {}, double radius = 1, int rounds = 3) {
  PlainRows rows;
  for (const PlainRow& row : plain_rows(matrix)) {
    if (std::all_of(row.begin(), row.end(), [](double value) { return std::isfinite(value); }))
      rows.push_back(row);
    else if (faulty > 0) --faulty;
  }
  const std::size_t cut = std::min(static_cast<std::size_t>(faulty), (rows.size() - 1) / 2);
  const PlainRow result =
      rule == "krum"           ? plain_krum(rows, faulty, true)
      : rule == "multi_krum"   ? plain_krum(rows, faulty, false)
      : rule == "median"       ? plain_median(rows)
      : rule == "trimmed_mean" ? plain_middle(rows, cut, rows.size() - cut)
      : rule == "geometric_median"
          ? plain_geometric_median(rows)
          : plain_clipping(rows, plain_rows(start.unsqueeze(0)).front(), radius, rounds);
  return at::tensor(result, at::kDouble);
}

}  // namespace paceline
