// Measures the speed of codecs on one core: encoding and decoding 64 MiB of f32, with each tensor's
// memory touched before. Prints the median of each, and the input in GB/s over the sum of both.
//
// The sum should reach 5 GB/s with fp16, 3 with int8 and signs, and 1 with top-k of 1 %.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/compress.h"

namespace {

using namespace paceline;

constexpr std::size_t kElements = 16 << 20;
constexpr int kRounds = 9;

template <typename Call>
double seconds(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Gradients are about normal: each is the sum of uniform numbers.
std::vector<float> gradient() {
  SeededNumbers numbers(1);
  std::vector<float> values(kElements);
  for (float& value : values) {
    const std::uint64_t bits = numbers.next();
    int sum = 0;
    for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int>(bits >> shift & 0xffff);
    value = static_cast<float>(sum - 2 * 0xffff) * 1e-7f;
  }
  return values;
}

void tell(const char* name, std::vector<double> encodes, std::vector<double> decodes) {
  constexpr double kGigabytes = 4e-9 * kElements;
  std::vector<double> both;
  for (std::size_t i = 0; i < encodes.size(); ++i) both.push_back(encodes[i] + decodes[i]);
  std::printf("%-26s encode %6.2f ms, decode %6.2f ms, together %6.2f GB/s\n", name,
              1e3 * median(encodes), 1e3 * median(decodes), kGigabytes / median(both));
}

void measure(const char* name, const compress::Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> payload(codec.longest_payload(values.size()));
  std::vector<float> back(values.size());
  std::vector<double> encodes, decodes;
  for (int round = 0; round <= kRounds; ++round) {
    std::size_t bytes = 0;
    const double encode = seconds([&] { bytes = codec.encode(values, {}, payload).value(); });
    const double decode = seconds([&] { codec.decode(Bytes(payload).first(bytes), back).value(); });
    if (round == 0) continue;  // its pages were not there yet
    encodes.push_back(encode);
    decodes.push_back(decode);
  }
  tell(name, encodes, decodes);
}

}  // namespace

int main() {
  using namespace compress;
  const auto values = gradient();
  std::vector<float> copy(values.size());
  std::vector<double> copies;
  for (int round = 0; round < kRounds; ++round)
    copies.push_back(seconds([&] { std::copy(values.begin(), values.end(), copy.begin()); }));
  tell("(a copy)", copies, std::vector<double>(copies.size()));
  measure("fp16", *cast_codec(Dtype::f16), values);
  measure("bf16", *cast_codec(Dtype::bf16), values);
  measure("int8", *int8_codec(), values);
  measure("qsgd, 4 bits", *qsgd_codec(), values);
  measure("terngrad", *terngrad_codec(), values);
  measure("ef_sign", *ef_sign_codec(), values);
  measure("one_bit, 1024 columns", *one_bit_codec(1024), values);
  measure("top_k, 1 %", *top_k_codec(0.01), values);
  std::vector<std::uint32_t> words(values.size());
  std::vector<double> draws;
  for (int round = 0; round < kRounds; ++round)
    draws.push_back(seconds([&] { random_words({}, 0, words); }));
  tell("(random words)", draws, std::vector<double>(draws.size()));
}
