// The traffic that hierarchical algorithms save where each host has one uplink for its ranks:
// network namespaces, two ranks on each (tests/net/hosts).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

// For each algorithm, the bytes that left its host by the account of each rank.
std::map<std::string, std::vector<long>> uplink_bytes(const std::string& output) {
  std::map<std::string, std::vector<long>> bytes;
  for (const auto& line : lines_of(output)) {
    std::istringstream words(line);
    std::string prefix, what, algorithm, result;
    long sent = 0;
    if (!(words >> prefix >> what >> algorithm >> result >> sent) || what != "uplink") continue;
    EXPECT_EQ(result, "right") << line;
    bytes[algorithm].push_back(sent);
  }
  return bytes;
}

TEST_F(SeveralHosts, OfTwoRanksEachSendTheLeastThatCanDoInAHierarchyWhichIsChosen) {
  constexpr long kMiB = 16, kBytes = kMiB << 20;
  const auto result =
      run(run_over(2, {}, {binary("collective_worker"), "uplink:16"}), Deadline::in(60s));
  ASSERT_EQ(result.exit_code, 0) << result.error << result.output;
  auto sent = uplink_bytes(result.output);
  for (const auto* algorithm : {"hierarchical", "automatic"}) {
    ASSERT_EQ(sent[algorithm].size(), 4U) << result.output;
    for (const long bytes : sent[algorithm]) {
      EXPECT_GE(bytes, kBytes) << "2(q-1)/q of the buffer from each of q hosts";
      EXPECT_LT(static_cast<double>(bytes), 1.08 * kBytes) << "headers and acknowledgements";
    }
  }
  for (const long bytes : sent["direct"]) EXPECT_GE(bytes, 2 * kBytes);
}

}  // namespace
}  // namespace paceline::test
