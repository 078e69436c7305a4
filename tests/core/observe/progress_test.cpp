#include "paceline/core/observe/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::observe {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

// A stream that remembers what was written to it.
class Screen {
 public:
  Screen() : file_(open_memstream(&text_, &size_)) {}
  ~Screen() {
    std::fclose(file_);
    std::free(text_);
  }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

std::size_t count_of(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

const Clock::time_point kStart = Clock::time_point(1h);

TEST(Progress, ABarShowsStepSpeedLossAndTimeLeft) {
  const std::string bar = draw_bar({120, 400, 5321, 0.43123, 83s}, 100);
  EXPECT_THAT(bar, StartsWith("[============>"));
  EXPECT_THAT(bar, HasSubstr("] 120/400  5321 samples/s  loss 0.4312  ETA 1:23"));
}

TEST(Progress, ABarIsNeverWiderThanTheTerminal) {
  for (int columns = 20; columns < 140; ++columns) {
    EXPECT_LE(draw_bar({99999, 100000, 1e6, 12.5, 7200s}, columns).size(),
              static_cast<std::size_t>(columns));
  }
}

TEST(Progress, ABarIsFullAtTheEndAndBearsOddNumbers) {
  EXPECT_THAT(draw_bar({400, 400, 1, 0, 0s}, 120),
              HasSubstr("[========================================]"));
  EXPECT_THAT(draw_bar({0, 0, 0, 0, -1s}, 120), HasSubstr("ETA -:--"));
  EXPECT_THAT(draw_bar({500, 400, 0, 0, -1s}, 120), HasSubstr("- samples/s"));
}

TEST(Progress, PlainLinesComeEveryFewSecondsAndAtBothEnds) {
  Screen screen;
  {
    Progress progress(screen.file(), 100, {.line_every = 5s});
    for (int step = 1; step <= 100; ++step)
      progress.update(step, 64, 1.0 / step, kStart + step * 100ms);
  }
  const std::string text = screen.text();
  EXPECT_THAT(text, StartsWith("step 1/100"));
  EXPECT_THAT(text, HasSubstr("step 51/100  640 samples/s"));
  EXPECT_THAT(text, HasSubstr("step 100/100"));
  EXPECT_EQ(count_of(text, '\n'), 3u);
  EXPECT_EQ(count_of(text, '\r'), 0u);
}

TEST(Progress, ALiveBarIsRedrawnInPlaceAtABoundedRate) {
  Screen screen;
  {
    Progress progress(screen.file(), 1000, {.live = true, .columns = 80});
    for (int step = 1; step <= 1000; ++step) progress.update(step, 1, 1, kStart + step * 1ms);
  }
  const std::string text = screen.text();
  EXPECT_GE(count_of(text, '\r'), 10u);
  EXPECT_LE(count_of(text, '\r'), 12u);
  EXPECT_EQ(count_of(text, '\n'), 1u) << "the terminal is left on a fresh line";
}

TEST(Progress, PausesDoNotCount) {
  Screen screen;
  {
    Progress progress(screen.file(), 4, {.line_every = 0s});
    progress.update(1, 10, 1, kStart);
    progress.update(2, 10, 1, kStart + 1s);
    progress.pause(kStart + 1s);
    progress.update(3, 10, 1, kStart + 100s);
    progress.update(4, 10, 1, kStart + 101s);
  }
  EXPECT_THAT(screen.text(), HasSubstr("step 4/4  10 samples/s"));
}

}  // namespace
}  // namespace paceline::observe
