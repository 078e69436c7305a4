// Measures the cost of a compression method for its rank, without the links: steps of a model of
// 512 MiB, more than caches hold, in tensors of 16 MiB, on a rank that is alone, so exchanges are
// copies. With an all_gather, each further rank adds a decoding. Prints the median for 64 MiB in
// ms, and GB of gradient a second.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/compress.h"

namespace {

using namespace paceline;
using namespace paceline::compress;

constexpr std::size_t kRows = 2048, kTensors = 32;
constexpr int kRounds = 7;

std::vector<float> gradient() {
  SeededNumbers numbers(1);
  std::vector<float> values(kRows * kRows);
  for (float& value : values)
    value = static_cast<float>(numbers.unit() + numbers.unit() + numbers.unit() - 1.5) * 1e-2f;
  return values;
}

void carry_out(const Exchange& exchange) {
  if (exchange.input.data != exchange.output.data)
    std::memcpy(exchange.output.data, exchange.input.data, exchange.output.size_bytes());
}

double seconds_of_step(Averaging& averaging, std::span<float> values, std::uint32_t step) {
  const auto start = std::chrono::steady_clock::now();
  auto exchange = averaging.begin(values, step);
  while (exchange) {
    carry_out(*exchange);
    exchange = averaging.next().value();
  }
  averaging.finish().value();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int count, char** texts) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // freed memory stays, as in workers
  mallopt(M_TRIM_THRESHOLD, -1);
  std::vector<std::string> chosen(texts + 1, texts + count);
  if (chosen.empty()) {
    for (const Method& method : built_in_methods()) chosen.emplace_back(method.name);
    chosen.insert(chosen.end(), {"ef_sign:path=owners", "top_k:indices=leader",
                                 "one_bit_adam:freeze_step=0", "power_sgd:rank=4"});
  }
  const auto values = gradient();
  for (const std::string& text : chosen) {
    const auto compression = parse_compression(text, built_in_methods()).value();
    std::vector<std::unique_ptr<Averaging>> averagings;
    for (std::uint32_t t = 0; t < kTensors; ++t)
      averagings.push_back(compression.averaging({.tensor = t, .rows = kRows, .columns = kRows}));
    std::vector<double> times;
    for (std::uint32_t step = 0; step <= kRounds; ++step) {
      std::vector gradients(kTensors, values);
      double seconds = 0;
      for (std::size_t t = 0; t < kTensors; ++t)
        seconds += seconds_of_step(*averagings[t], gradients[t], step);
      if (step > 0) times.push_back(seconds);
    }
    std::ranges::sort(times);
    const double median = times[times.size() / 2];
    constexpr double kBytes = 4.0 * kRows * kRows * kTensors;
    std::printf("%-28s %8.1f ms %7.2f GB/s\n", text.c_str(), 1e3 * median / kBytes * (64 << 20),
                1e-9 * kBytes / median);
  }
}
