// Random legal collectives for a long time: no error, and nothing grows (covers communicator.h and
// all below it between processes; between threads:
// tests/core/collective/group/communicator_soak_test.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

struct Kept {
  long resident = 0, heap = 0, descriptors = 0;
};

// The memory and descriptors of each rank, at each of its reports.
std::map<std::string, std::vector<Kept>> kept_by_rank(const std::string& output) {
  std::map<std::string, std::vector<Kept>> ranks;
  for (const std::string& line : lines_of(output)) {
    std::istringstream words(line);
    std::string rank, word;
    Kept kept;
    if (words >> rank >> word >> kept.resident >> kept.heap >> kept.descriptors && word == "kept")
      ranks[rank].push_back(kept);
  }
  return ranks;
}

// Kept for good by any call, however small, it would be 32 bytes: the least that the heap gives.
constexpr long kForEachCall = 1;
// Queues and tables that grow to the longest they ever hold.
constexpr long kOfTheHeap = 2 << 20;
// The buffers of all ranks' threads, which a rank comes to see page by page.
constexpr long kOfPages = 48 << 20;

TEST(Soak, LegalCollectivesOnGroupsThatComeAndGoLeaveNothingBehind) {
  const bool nightly = is_nightly();
  const std::string seed = std::to_string(test::seed(1));
  const long calls = nightly ? 1'000'000 : 6'000;
  for (const std::string& transport : transports()) {
    SCOPED_TRACE(fmt::format("{}, seed {}", transport, seed));
    const auto result =
        run(paceline_run({"-n", "4", "--transport", transport, "--determinism", "fast"},
                         {binary("collective_soak"), std::to_string(calls), seed}),
            Deadline::in(nightly ? std::chrono::seconds(1800) : 60s));
    ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
    const auto ranks = kept_by_rank(result.output);
    EXPECT_EQ(ranks.size(), 4U) << result.output;
    for (const auto& [rank, kept] : ranks) {
      ASSERT_EQ(kept.size(), 2U) << result.output;
      EXPECT_EQ(kept[1].descriptors, kept[0].descriptors) << rank;
      EXPECT_LT(kept[1].heap - kept[0].heap, kOfTheHeap + calls * kForEachCall) << rank;
      EXPECT_LT(kept[1].resident - kept[0].resident, kOfPages + calls * kForEachCall) << rank;
    }
  }
}

}  // namespace
}  // namespace paceline::test
