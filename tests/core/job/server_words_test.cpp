#include "paceline/core/job/server_words.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "paceline/core/job/local_world.h"
#include "paceline/core/membership/store/store_frames.h"

namespace paceline::job {
namespace {

static_assert(kLongestServerWord == membership::kLongestServerWord);

std::vector<std::byte> word(const std::string& text) {
  const Bytes bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ServerWords, EachWatchHearsTheNewestMapAndThenEveryOneUntilItEnds) {
  auto jobs = make_local_world(1, {.servers = 1});
  std::string first, second;
  auto one = std::make_unique<MapWatch>(jobs[0], [&](Bytes map) { first += text_of(map); });
  EXPECT_EQ(first, "");
  tell_map(jobs[0], word("a"));
  tell_map(jobs[0], word("b"));
  {
    const MapWatch two(jobs[0], [&](Bytes map) { second += text_of(map); });
    tell_map(jobs[0], word("c"));
    one.reset();
    tell_map(jobs[0], word("d"));
  }
  tell_map(jobs[0], word("e"));
  EXPECT_EQ(first, "abc");
  EXPECT_EQ(second, "bcd");
}

TEST(ServerWords, AWatchMayEndWhileItOrAnotherOneHears) {
  auto jobs = make_local_world(1);
  MapWatchers watchers;
  std::string heard;
  std::uint64_t second = 0;
  watchers.add([&](Bytes map) {
    heard += text_of(map);
    watchers.remove(second);
  });
  second = watchers.add([&](Bytes) { heard += "second"; });
  watchers.tell(word("x"));
  watchers.tell(word("y"));
  EXPECT_EQ(heard, "xy");
}

TEST(ServerWords, WithoutReplicasAndALauncherThereIsNothingToSay) {
  auto jobs = make_local_world(1, {.servers = 1});
  for (Job& job : jobs) {
    EXPECT_EQ(replicas_of(job), 1);
    EXPECT_FALSE(is_late(job));
  }
  report_to_launcher(jobs[1], word("ready"));
  EXPECT_THROW(report_to_launcher(jobs[1], std::vector<std::byte>(kLongestServerWord + 1)), Error);
}

}  // namespace
}  // namespace paceline::job
