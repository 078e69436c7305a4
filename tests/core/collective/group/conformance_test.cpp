// The claims of tests/support/conformance.h, by ranks that are threads: over both kinds of links,
// and by an engine. Processes under launchers: tests/processes/conformance_test.cpp.
#include "tests/support/conformance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/core/collective/worlds.h"
#include "tests/support/ledger_engine.h"

namespace paceline::collective::testing {
namespace {

using test::Claim;

enum class Carrier { shared_memory, tcp, engine };

class Conformance : public ::testing::TestWithParam<std::tuple<Carrier, Claim>> {};

TEST_P(Conformance, Holds) {
  const auto& [carrier, claim] = GetParam();
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    test::Ledger& ledger = test::Ledger::make();
    run_ranks(ranks, carrier == Carrier::tcp ? kTcpFast : kSharedFast, [&](Job& job) {
      if (carrier != Carrier::engine) return claim.check(job, job.world());
      const auto group = test::world_over(job, ledger, 60s);
      claim.check(job, *group);
    });
  }
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Carrier, Claim>>& one) {
  constexpr std::string_view kNames[] = {"SharedMemory", "Tcp", "Engine"};
  const auto& [carrier, claim] = one.param;
  return fmt::format("{}_{}", kNames[static_cast<std::size_t>(carrier)], claim.name);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Conformance,
    ::testing::Combine(::testing::Values(Carrier::shared_memory, Carrier::tcp, Carrier::engine),
                       ::testing::ValuesIn(test::conformance().begin(), test::conformance().end())),
    name_of_case);

}  // namespace
}  // namespace paceline::collective::testing
