// Seeded random numbers for tests, simulations and identities that need not be secret: equal seeds
// give equal numbers.
#pragma once

#include <cstdint>

namespace paceline {

// splitmix64 (Steele, Lea, Flood 2014) has one 64-bit state, for which any seed is good.
class SeededNumbers {
 public:
  using result_type = std::uint64_t;
  explicit SeededNumbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound) up to a bias of bound / 2^64. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // in [0, 1)

  std::uint64_t operator()() { return next(); }
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }

 private:
  std::uint64_t state_;
};

// Mixes a value into a 64-bit fingerprint (not for secrets).
std::uint64_t mix(std::uint64_t fingerprint, std::uint64_t value);

}  // namespace paceline
