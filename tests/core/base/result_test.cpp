#include "paceline/core/base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <thread>

#include "paceline/core/base/check.h"

namespace paceline {
namespace {

const Failure kLost{Fault::peer_lost, "rank 3 is gone: restart it", {3}};

Result<int> number(bool succeeds) {
  if (succeeds) return 7;
  return kLost;
}

TEST(Result, HoldsAValueOrAFailure) {
  Result<int> good = number(true), bad = number(false);
  EXPECT_TRUE(good.has_value());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(good.value(), 7);
  EXPECT_EQ(*good, 7);
  EXPECT_FALSE(bad.has_value());
  EXPECT_FALSE(static_cast<bool>(bad));
  EXPECT_EQ(bad.error(), kLost);
}

TEST(Result, ValueOfAFailureThrowsThatFailure) {
  Result<int> bad = number(false);
  const Result<int> constant = number(false);
  EXPECT_THROW((void)constant.value(), Error);
  EXPECT_THROW((void)number(false).value(), Error);
  try {
    (void)bad.value();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), kLost);
    EXPECT_EQ(error.fault(), Fault::peer_lost);
    EXPECT_STREQ(error.what(), "rank 3 is gone: restart it");
  }
}

struct Reader {
  std::optional<Failure>& read;
  ~Reader() { read = failure_in_flight(); }
};

TEST(FailureInFlight, IsThatOfTheErrorWhichPassesAndNoLonger) {
  std::optional<Failure> own, others;
  EXPECT_FALSE(failure_in_flight());
  try {
    const Reader reader{own};
    (void)number(false).value();
  } catch (const Error&) {
    EXPECT_EQ(failure_in_flight(), kLost);
    std::thread([&] { EXPECT_FALSE(failure_in_flight()); }).join();
  }
  EXPECT_EQ(own, kLost);
  EXPECT_FALSE(failure_in_flight());
  try {
    const Reader reader{others};
    throw std::runtime_error("another library's");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(others);
  }
}

TEST(Result, GivesUpAValueThatCanOnlyBeMoved) {
  const auto make = [] { return Result<std::unique_ptr<int>>(std::make_unique<int>(5)); };
  EXPECT_EQ(*make().value(), 5);
  EXPECT_EQ(**make(), 5);
}

TEST(Result, OfNothingTellsOnlyWhetherItIsDone) {
  EXPECT_TRUE(Result<>(Done{}).has_value());
  EXPECT_FALSE(Result<>(kLost).has_value());
}

TEST(Fault, HasANameOrIsUnknown) {
  for (int number = 1; number <= 7; ++number) {
    EXPECT_NE(name_of(static_cast<Fault>(number)), "unknown fault") << number;
  }
  EXPECT_EQ(name_of(static_cast<Fault>(0)), "unknown fault");
  EXPECT_EQ(name_of(static_cast<Fault>(8)), "unknown fault");
  EXPECT_EQ(name_of(Fault::timed_out), "timed out");
}

TEST(Failure, OfTheSystemSaysWhatWasDoneAndWhy) {
  const Failure failure = io_failure("cannot open x", ENOENT);
  EXPECT_EQ(failure.fault, Fault::io);
  EXPECT_EQ(failure.what, "cannot open x: No such file or directory");
}

TEST(Check, ThrowsMisuseWithItsTextOnlyWhereItIsViolated) {
  const auto checked = [](int value) { PACELINE_CHECK(value < 3, "{} is not below {}", value, 3); };
  EXPECT_NO_THROW(checked(2));
  try {
    checked(4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_STREQ(error.what(), "4 is not below 3");
  }
}

}  // namespace
}  // namespace paceline
