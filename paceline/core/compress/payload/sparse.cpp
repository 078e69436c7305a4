#include "paceline/core/compress/payload/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

void write_sparse(std::span<const float> values, std::span<const std::uint32_t> indices,
                  MutableBytes payload) {
  PACELINE_CHECK(payload.size() == sparse_bytes(indices.size()), "{} elements in {} bytes",
                 indices.size(), payload.size());
  if (indices.empty()) return;
  std::memcpy(payload.data(), indices.data(), indices.size_bytes());
  std::byte* target = payload.data() + indices.size_bytes();
  for (const std::uint32_t index : indices) {
    std::memcpy(target, &values[index], sizeof(float));
    target += sizeof(float);
  }
}

Result<SparseView> open_sparse(Bytes payload, std::size_t elements) {
  if (payload.size() % sparse_bytes(1) != 0) {
    return malformed_payload(
        fmt::format("its {} bytes are no indices and values of 4 bytes each", payload.size()));
  }
  const SparseView sparse(payload);
  std::uint64_t next = 0;  // the least index that may follow
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    const std::uint32_t index = sparse.index(i);
    if (index < next || index >= elements) {
      return malformed_payload(
          fmt::format("index {} of {} is {}, and must be at least {} and below {}", i,
                      sparse.size(), index, next, elements));
    }
    if (!std::isfinite(sparse.value(i)))
      return malformed_payload(fmt::format("the value of element {} is not finite", index));
    next = std::uint64_t{index} + 1;
  }
  return sparse;
}

void scatter(const SparseView& sparse, std::span<float> values) {
  std::size_t next = 0;
  decode_in_blocks(values, [&](std::size_t at, std::span<float> block) {
    std::ranges::fill(block, 0.0f);
    for (; next < sparse.size() && sparse.index(next) < at + block.size(); ++next)
      block[sparse.index(next) - at] = sparse.value(next);
    return true;
  });
}

SparseSum SparseSum::of(std::span<const float> values, std::span<const std::uint32_t> indices) {
  SparseSum sum{{indices.begin(), indices.end()}, {}};
  for (const std::uint32_t index : indices) sum.values.push_back(values[index]);
  return sum;
}

SparseSum SparseSum::of(const SparseView& view) {
  SparseSum sum;
  for (std::size_t i = 0; i < view.size(); ++i) {
    sum.indices.push_back(view.index(i));
    sum.values.push_back(view.value(i));
  }
  return sum;
}

SparseSum merged(const SparseSum& left, const SparseSum& right) {
  SparseSum sum;
  std::size_t l = 0, r = 0;
  const auto take = [&sum](const SparseSum& from, std::size_t& at) {
    sum.indices.push_back(from.indices[at]);
    sum.values.push_back(from.values[at++]);
  };
  while (l < left.indices.size() || r < right.indices.size()) {
    const bool has_left = l < left.indices.size(), has_right = r < right.indices.size();
    if (has_left && has_right && left.indices[l] == right.indices[r]) {
      take(left, l);
      sum.values.back() += right.values[r++];
    } else if (has_left && (!has_right || left.indices[l] < right.indices[r])) {
      take(left, l);
    } else {
      take(right, r);
    }
  }
  return sum;
}

Dropped keep_largest(SparseSum& sum, std::size_t count) {
  std::vector<std::uint32_t> positions(std::min(count, sum.indices.size()));
  Dropped dropped;
  dropped.finite = select_largest(sum.values, positions);
  if (!dropped.finite) return dropped;
  SparseSum kept;
  auto next = positions.begin();
  for (std::uint32_t i = 0; i < sum.indices.size(); ++i) {
    const bool keep = next != positions.end() && *next == i;
    if (keep) ++next;
    SparseSum& into = keep ? kept : dropped.others;
    into.indices.push_back(sum.indices[i]);
    into.values.push_back(sum.values[i]);
  }
  sum = std::move(kept);
  return dropped;
}

void write(const SparseSum& sum, MutableBytes payload) {
  const Bytes indices = std::as_bytes(std::span(sum.indices));
  std::ranges::copy(indices, payload.begin());
  std::ranges::copy(std::as_bytes(std::span(sum.values)), payload.subspan(indices.size()).begin());
}

}  // namespace paceline::compress
