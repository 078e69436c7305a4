#include "paceline/core/collective/price/timetable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/collective/program/cells.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using Payer = Timetable::Payer;

std::size_t loads_of(const Timetable& table) {
  std::size_t loads = 0;
  for (const Timetable::Message& message : table.messages) loads += message.loads.size();
  return loads;
}

TEST(Timetable, EverySendIsInOneMessageAndEveryMessageIsCountedAtBothEnds) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : {1, 2, 3, 5, 8, 13}) {
      if (!algorithm.fits({.ranks = ranks})) continue;
      const auto programs = programs_of(algorithm, ranks);
      const Timetable table = timetable_of(programs);
      std::size_t sends = 0, ends = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        ASSERT_EQ(table.rounds[r].size(), programs[r].rounds.size());
        for (const Round& round : programs[r].rounds) {
          sends += static_cast<std::size_t>(std::ranges::count_if(round, is_send));
        }
        for (const auto& work : table.rounds[r]) ends += static_cast<std::size_t>(work.messages);
      }
      EXPECT_EQ(loads_of(table), sends) << algorithm.name;
      EXPECT_EQ(2 * table.messages.size(), ends) << algorithm.name;
    }
  }
}

TEST(Timetable, ARanksMessagesOfLaterRoundsAreInLaterWaves) {
  const Timetable table = timetable_of(built_in(Operation::all_reduce, "ring"), {.ranks = 5});
  EXPECT_EQ(table.messages.size(), 5U * 8U);
  for (std::size_t i = 0; i < table.messages.size(); ++i)
    EXPECT_EQ(table.messages[i].wave, static_cast<int>(i / 5))
        << "all ranks take the step together";
}

TEST(Timetable, InMemoryDirectReadsInPlaceAndStoresWhatItSums) {
  const Timetable table = timetable_of(built_in(Operation::all_reduce, "direct"), {.ranks = 4});
  for (const Timetable::Message& message : table.messages) {
    for (const Timetable::Load& load : message.loads)
      EXPECT_EQ(load.payer, message.wave == 0 ? Payer::nobody : Payer::the_sum);
  }
}

TEST(Timetable, AStoreOfWhatIsNotJustSummedIsPaidByItsSenderAndACopyByItsReceiver) {
  const Timetable stores = timetable_of(built_in(Operation::all_gather, "direct"), {.ranks = 3});
  const Timetable copies = timetable_of(built_in(Operation::all_gather, "ring"), {.ranks = 3});
  for (const auto& message : stores.messages) EXPECT_EQ(message.loads[0].payer, Payer::sender);
  for (const auto& message : copies.messages) EXPECT_EQ(message.loads[0].payer, Payer::receiver);
}

TEST(Timetable, WithoutPayersOnlyThePayersAreMissing) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    if (!algorithm.fits({.ranks = 6})) continue;
    const Timetable with = timetable_of(algorithm, {.ranks = 6});
    const Timetable without = timetable_of(algorithm, {.ranks = 6}, false);
    EXPECT_EQ(loads_of(with), loads_of(without));
    ASSERT_EQ(with.messages.size(), without.messages.size());
    for (const auto& message : without.messages) {
      for (const auto& load : message.loads) EXPECT_EQ(load.payer, Payer::nobody);
    }
  }
}

TEST(Timetable, ProgramsThatWaitForEachOtherHaveNone) {
  auto programs = programs_of(built_in(Operation::all_reduce, "ring"), 2);
  programs[0].rounds.pop_back();
  EXPECT_THROW(timetable_of(programs), Error);
}

}  // namespace
}  // namespace paceline::collective
