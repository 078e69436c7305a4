#include "tests/support/seed.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "paceline/core/base/seed.h"

namespace paceline::test {
namespace {

const char* seed_of_run() {
  static const char* const given = std::getenv("PACELINE_SEED");
  return given;
}

// Tells how a failed test is repeated.
class SeedPrinter final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::printf("[   SEED   ] PACELINE_SEED=%s\n", seed_of_run() ? seed_of_run() : "(not set)");
  }
};

[[maybe_unused]] const bool kPrints = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SeedPrinter);
  return true;
}();

}  // namespace

std::uint64_t seed(std::uint64_t own) {
  static const std::uint64_t of_run = seed_of_run() ? std::strtoull(seed_of_run(), nullptr, 10) : 0;
  return seed_of_run() ? mix(of_run, own) : own;
}

}  // namespace paceline::test
