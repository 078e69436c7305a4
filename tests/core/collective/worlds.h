// Shared parts of the tests of the communicator: guarded memory of both kinds, values that sum
// exactly, and a plain reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/partition.h"
#include "tests/support/arena.h"
#include "tests/support/local_world.h"
#include "tests/support/sanitized.h"

namespace paceline::collective::testing {

using test::Arena;
using test::kSanitized;
using test::run_ranks;
using namespace std::chrono_literals;

inline const LocalWorldOptions kShared = {}, kTcp = {.share_memory = false};
inline const LocalWorldOptions kSharedFast = {.reproducible = false};
inline const LocalWorldOptions kTcpFast = {.share_memory = false, .reproducible = false};

inline std::string label(const LocalWorldOptions& options) {
  return options.share_memory ? "shared memory" : "tcp";
}

// 2..5 ranks, whichever differs, on both transports.
inline void for_every_odd_one(
    const std::function<void(const LocalWorldOptions& options, int ranks, int odd)>& body) {
  for (const auto& options : {kShared, kTcp}) {
    for (int ranks = 2; ranks <= (kSanitized ? 3 : 5); ++ranks) {
      for (int odd = 0; odd < ranks; ++odd) body(options, ranks, odd);
    }
  }
}

// Element `i` of rank `rank`'s input: a small whole number, so that sums of floats are exact.
template <typename T>
T value(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 5 + i / 11) % 13 + 1);
}

// Fills a buffer with values whose sums depend on their order.
inline std::vector<float> thirds(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value<float>(rank, i) / 3;
  return values;
}

// The number of elements after which the values repeat.
constexpr std::size_t kPeriod = 11 * 13;

template <typename T>
void fill(std::span<T> values, int rank, std::size_t first = 0) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i < kPeriod ? value<T>(rank, first + i) : values[i - kPeriod];
}

// Element `i` of the reduction over all ranks, one after the other.
template <typename T>
T expected(int ranks, ReduceOp op, std::size_t i) {
  T result = value<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T other = value<T>(rank, i);
    if (op == ReduceOp::min) result = std::min(result, other);
    else if (op == ReduceOp::max) result = std::max(result, other);
    else result = static_cast<T>(result + other);
  }
  return op == ReduceOp::average ? static_cast<T>(result * static_cast<T>(1.0 / ranks)) : result;
}

// The same for many elements.
template <typename T>
auto expected_by_index(int ranks, ReduceOp op) {
  std::vector<T> period;
  for (std::size_t i = 0; i < kPeriod; ++i) period.push_back(expected<T>(ranks, op, i));
  return [period](std::size_t i) { return period[i % kPeriod]; };
}

// The first index whose bits differ; values.size() when none does.
template <typename T, typename Function>
std::size_t first_difference(std::span<const T> values, const Function& wanted) {
  using Bits = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t,
                         std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T want = wanted(i);
    if (std::bit_cast<Bits>(values[i]) != std::bit_cast<Bits>(want)) return i;
  }
  return values.size();
}

// The failure that `call` throws; one with an empty text if it throws none.
template <typename Function>
Failure failure_of(const Function& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.failure();
  }
  return {Fault::io, "", {}};
}

}  // namespace paceline::collective::testing
