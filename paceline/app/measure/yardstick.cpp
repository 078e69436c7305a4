#include "paceline/app/measure/yardstick.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "paceline/app/measure/pattern.h"
#include "paceline/core/base/check.h"

namespace paceline::measure {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 16;  // floats; no two ranks write into one

std::size_t stride_of(std::size_t count) {
  return (count * sizeof(float) + kPage - 1) / kPage * kPage;
}

// The rank count is a constant so that the compiler makes one vectorised loop of it.
template <std::size_t kRanks>
void add_and_store(float* first, std::size_t stride, std::size_t low, std::size_t high) {
  std::array<float*, kRanks> of;
  for (std::size_t r = 0; r < kRanks; ++r) of[r] = first + r * stride;
#pragma GCC ivdep
  for (std::size_t i = low; i < high; ++i) {
    float sum = of[0][i];
    for (std::size_t r = 1; r < kRanks; ++r) sum += of[r][i];
    for (std::size_t r = 0; r < kRanks; ++r) of[r][i] = sum;
  }
}

using Kernel = void (*)(float*, std::size_t, std::size_t, std::size_t);
constexpr std::array<Kernel, kMostYardstickRanks - 1> kKernels = {
    add_and_store<2>, add_and_store<3>, add_and_store<4>, add_and_store<5>,
    add_and_store<6>, add_and_store<7>, add_and_store<8>};

class Yardstick final : public Contestant {
 public:
  Yardstick(Communicator& group, const CommonMemory& memory, StartLine& line, std::size_t count)
      : rank_(group.rank()),
        ranks_(group.size()),
        line_(line),
        first_(reinterpret_cast<float*>(memory.bytes().data())),
        stride_(stride_of(count) / sizeof(float)),
        count_(count),
        kernel_(kKernels.at(static_cast<std::size_t>(ranks_ - 2))) {
    const auto ranks = static_cast<std::size_t>(ranks_), rank = static_cast<std::size_t>(rank_);
    const std::size_t part = ((count + ranks - 1) / ranks + kLine - 1) / kLine * kLine;
    low_ = std::min(count, part * rank);
    high_ = std::min(count, low_ + part);
  }

  void clear() override { std::memset(own().data(), 0, own().size()); }
  void fill(int iteration) override { pattern(iteration).fill(own(), rank_, 0); }
  void operate() override {
    kernel_(first_, stride_, low_, high_);
    line_.wait();
  }
  std::size_t wrong(int iteration) override {
    return pattern(iteration).wrong(own(), Pattern::kSumOfAll, 0);
  }

 private:
  Pattern pattern(int iteration) const { return {Dtype::f32, ranks_, iteration}; }
  MutableBytes own() const {
    return std::as_writable_bytes(
        std::span(first_ + static_cast<std::size_t>(rank_) * stride_, count_));
  }

  const int rank_, ranks_;
  StartLine& line_;
  float* const first_;
  const std::size_t stride_, count_;
  const Kernel kernel_;
  std::size_t low_ = 0, high_ = 0;
};

}  // namespace

std::size_t yardstick_bytes(std::size_t count, int ranks) {
  return stride_of(count) * static_cast<std::size_t>(ranks);
}

std::unique_ptr<Contestant> make_yardstick(Communicator& group, const CommonMemory& memory,
                                           StartLine& line, std::size_t count) {
  return std::make_unique<Yardstick>(group, memory, line, count);
}

}  // namespace paceline::measure
