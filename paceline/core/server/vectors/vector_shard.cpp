#include "paceline/core/server/vectors/vector_shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/core/quasi_newton/quasi_newton.h"

namespace paceline::server {
namespace {

template <typename T>
double sum_of_absolutes(const std::vector<T>& vector) {
  double sum = 0;
  for (const T one : vector) sum += std::fabs(static_cast<double>(one));
  return sum;
}

// NaN if one is.
template <typename T>
double greatest_absolute(const std::vector<T>& vector) {
  double greatest = 0;
  for (const T one : vector) {
    const double size = std::fabs(static_cast<double>(one));
    if (!(size <= greatest)) greatest = size;
    if (std::isnan(greatest)) break;
  }
  return greatest;
}

template <typename T>
double carry_out_on(std::vector<T>& target, const std::vector<T>& source,
                    const VectorCommand& command) {
  const T factor = static_cast<T>(command.factor);
  switch (command.op) {
    case VectorOp::copy: target = source; break;
    case VectorOp::axpy:
      for (std::size_t i = 0; i < target.size(); ++i) target[i] += factor * source[i];
      break;
    case VectorOp::scale:
      for (T& one : target) one *= factor;
      break;
    case VectorOp::dot:
      return quasi_newton::inner_product(target.data(), source.data(), target.size());
    case VectorOp::sum_abs: return sum_of_absolutes(target);
    case VectorOp::greatest: return greatest_absolute(target);
  }
  return 0;
}

}  // namespace

VectorShard::VectorShard(std::size_t elements, Dtype dtype, std::size_t vectors) {
  if (dtype == Dtype::f64) vectors_ = Vectors<double>(vectors, std::vector<double>(elements));
  else vectors_ = Vectors<float>(vectors, std::vector<float>(elements));
}

std::vector<double> VectorShard::carry_out(std::span<const VectorCommand> commands) {
  std::vector<double> values;
  std::visit(
      [&](auto& vectors) {
        for (const VectorCommand& command : commands) {
          const double value =
              carry_out_on(vectors[command.target], vectors[command.source], command);
          if (tells_value(command.op)) values.push_back(value);
        }
      },
      vectors_);
  return values;
}

void VectorShard::clear(std::size_t vector) {
  std::visit([&](auto& vectors) { std::ranges::fill(vectors[vector], 0); }, vectors_);
}

void VectorShard::store(std::size_t vector, Bytes elements) {
  std::visit(
      [&](auto& vectors) {
        if (!elements.empty())
          std::memcpy(vectors[vector].data(), elements.data(), elements.size());
      },
      vectors_);
}

void VectorShard::add(std::size_t vector, Bytes elements) {
  std::visit(
      [&](auto& vectors) {
        for (auto& one : vectors[vector]) {
          std::remove_reference_t<decltype(one)> other;
          std::memcpy(&other, elements.data(), sizeof other);
          elements = elements.subspan(sizeof other);
          one += other;
        }
      },
      vectors_);
}

Bytes VectorShard::bytes(std::size_t vector) const {
  return std::visit([&](const auto& vectors) { return std::as_bytes(std::span(vectors[vector])); },
                    vectors_);
}

}  // namespace paceline::server
