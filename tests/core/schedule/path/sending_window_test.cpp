#include "paceline/core/schedule/path/sending_window.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

constexpr std::size_t kLong = 8 << 20;

TEST(SendingWindow, TwoLongMessagesAreSentAndFourMorePrepared) {
  SendingWindow window;
  for (int message = 0; message < 6; ++message) {
    EXPECT_EQ(window.may_send(), message < 2);
    EXPECT_TRUE(window.may_prepare());
    window.begin(message, kLong);
    EXPECT_EQ(window.may_transfer(message), message < 2);
  }
  EXPECT_FALSE(window.may_prepare());
  window.end(1);
  EXPECT_TRUE(window.may_transfer(2));
  EXPECT_FALSE(window.may_transfer(3));
  EXPECT_TRUE(window.may_prepare());
}

TEST(SendingWindow, ShortMessagesAndThoseThatBecomeShortGoInNumbers) {
  SendingWindow window;
  for (int message = 0; message < 4; ++message) window.begin(message, kLong);
  for (int message = 0; message < 4; ++message) window.shorten(message, 100);
  for (int message = 0; message < 4; ++message) EXPECT_TRUE(window.may_transfer(message));
  for (int message = 4; message < 50; ++message) {
    EXPECT_TRUE(window.may_send());
    window.begin(message, 1000);
  }
}

// So ranks cannot wait for each other, even if each of them has prepared other messages.
TEST(SendingWindow, TheFirstThatIsNotOverIsAlwaysAdmittedAndWhatComesBeforeAnAdmittedOneIsToo) {
  SeededNumbers numbers(test::seed(7));
  SendingWindow window;
  std::vector<int> open;
  for (int next = 0; next < 5000;) {
    const std::uint64_t choice = numbers.below(4);
    if (choice < 2 && window.may_prepare()) {
      window.begin(next, numbers.below(kLong));
      open.push_back(next++);
    } else if (choice == 2 && !open.empty()) {
      window.shorten(open[numbers.below(open.size())], numbers.below(1000));
    } else if (choice == 3 && !open.empty()) {
      const std::size_t at = numbers.below(open.size());
      window.end(open[at]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
    bool earlier = true;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool admitted = window.may_transfer(open[i]);
      EXPECT_TRUE(admitted || i > 0);
      EXPECT_TRUE(earlier || !admitted);
      earlier = admitted;
    }
  }
}

TEST(SendingWindow, AMessageThatHasNotBegunIsMisuse) {
  SendingWindow window;
  window.begin(3, 1);
  EXPECT_THROW(window.may_transfer(4), Error);
  EXPECT_THROW(window.end(4), Error);
}

}  // namespace
}  // namespace paceline::schedule
