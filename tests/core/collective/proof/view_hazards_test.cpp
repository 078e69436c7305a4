#include "paceline/core/collective/proof/view_hazards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::string fault(const std::vector<Program>& programs, bool in_place) {
  const auto checked = check_views(programs, meet(programs).value(), in_place);
  return checked ? "" : checked.error().what;
}

TEST(ViewHazards, TwoRanksThatReadEachOtherMustNotWriteThereInPlace) {
  // Each sums the other's input into its own input, which the other reads.
  const auto program = [](int peer) {
    return Program{.chunks = 1,
                   .scratch_places = 1,
                   .rounds = {{send(peer, input(0)), recv(peer, scratch(0, 0))},
                              {completing(reduce(input(0), scratch(0, 0), output(0)))}}};
  };
  const std::vector<Program> programs = {program(1), program(0)};
  EXPECT_EQ(fault(programs, false), "");
  EXPECT_THAT(fault(programs, true), HasSubstr("still reads as a view, which waits for it"));
}

TEST(ViewHazards, OneThatTakesTheSumAwayFirstIsRight) {
  const auto program = [](int peer) {
    return Program{.chunks = 1,
                   .scratch_places = 1,
                   .rounds = {{send(peer, input(0)),
                               completing(recv_reduce(peer, input(0), scratch(0, 0), peer == 1))},
                              {copy(scratch(0, 0), output(0))}}};
  };
  EXPECT_EQ(fault({program(1), program(0)}, true), "");
}

TEST(ViewHazards, AReaderThatWaitsForNobodyIsWaitedFor) {
  const Program writer{.chunks = 1, .rounds = {{send(1, input(0))}, {recv(1, output(0))}}};
  const Program reader{.chunks = 1,
                       .scratch_places = 1,
                       .rounds = {{recv(0, scratch(0, 0))},
                                  {completing(reduce(scratch(0, 0), input(0), output(0)))},
                                  {send(0, output(0))}}};
  EXPECT_EQ(fault({writer, reader}, true), "");
}

}  // namespace
}  // namespace paceline::collective
