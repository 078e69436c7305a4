// Members that come and go while steps are open. Ssp's come and go in the test of ssp.
// Also covers paceline/core/server/machine/range_machine.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/server/machine/range_machine.h"
#include "tests/core/server/machine/partial_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A worker that leaves before it has given the first values ends all others, which are told why.
TEST(Members, WorkersLeaveAndJoinAtAnyMoment) {
  for (const char* synchrony :
       {"bsp", "bounded_delay:steps=2", "timeout:milliseconds=20,late=apply_late",
        "timeout:milliseconds=20,late=drop,quorum=2", "timeout:milliseconds=20,late=fold_into_next",
        "backup_workers:spare=1"}) {
    for (int number = 0; number < worlds_of(100); ++number) {
      SeededNumbers numbers(seed(2870000 + static_cast<std::uint64_t>(number)));
      PartialWorld world(synchrony, 3, numbers.next(), drawn_times(numbers.next()));
      const auto update = world.training.update;
      world.training.update = [&](int worker, std::int64_t clock, std::span<const double> values) {
        return update(worker == 100 ? 0 : worker, clock, values);  // 0 leaves before 100 comes
      };
      world.table.network.run(machine::Time(numbers.below(300'000'000)));
      const auto& first = world.table.workers.at(0)->table;
      const bool has_given = first.look([](const auto& one) { return one.is_assigned(); });
      world.table.gone.insert(0);
      if (numbers.below(2) == 0) world.table.network.kill(0, world.table.network.now());
      else world.table.network.tell(0, -1, {.kind = TableTrainer::kLeave});
      world.table.network.run(world.table.network.now() + machine::Time(numbers.below(50'000'000)));
      world.table.add_worker(100, true);
      if (world.run()) continue;
      ASSERT_FALSE(has_given) << synchrony << ": no progress; seed " << number;
      for (const int worker : {1, 2, 100}) {
        const auto failure = world.table.workers.at(worker)->table.look(
            [](const auto& one) { return one.failure(); });
        ASSERT_TRUE(failure) << synchrony << ": worker " << worker << " waits; seed " << number;
        EXPECT_THAT(failure->what, HasSubstr("worker 0 has ended before it gave the first values"));
      }
    }
  }
}

// A range of one element, which hears the packets of three workers one after the other.
struct LoneRange {
  server::TableShape shape;
  server::RangeMachine range;
  const float element = 3;

  explicit LoneRange(const std::string& synchrony)
      : shape(server::shape_of(
                  {.name = "w", .elements = 1, .synchrony = synchrony, .rule = "sgd:rate=1"},
                  server::TableMembers::of_servers(3, 1))
                  .value()),
        range(shape, 0, 1) {
    const float zero = 0;
    range.on_packet(0,
                    {.kind = server::PacketKind::assign,
                     .sequence = shape.fingerprint(),
                     .count = 1,
                     .elements = std::as_bytes(std::span(&zero, 1))},
                    {});
  }
  // The workers that the range sends rows to, when it has heard this.
  std::vector<int> rows(const machine::Actions& actions) const {
    std::vector<int> to;
    for (const auto& action : actions) {
      const auto* send = std::get_if<machine::Send>(&action);
      if (send == nullptr) continue;
      const auto packet =
          server::parse_packet(send->message, {.ranges = 1, .element_bytes = sizeof(float)});
      if (packet.value().kind == server::PacketKind::row) to.push_back(send->to);
    }
    return to;
  }
  std::vector<int> pull(int worker, std::int64_t least, std::uint64_t own) {
    return rows(range.on_packet(
        worker, {.kind = server::PacketKind::pull, .flags = 1, .sequence = own, .clock = least},
        {}));
  }
  std::vector<int> push(int worker, std::int64_t stamp) {
    return rows(range.on_packet(worker,
                                {.kind = server::PacketKind::push,
                                 .sequence = 1,
                                 .clock = stamp,
                                 .count = 1,
                                 .settings = server::values_of(shape.rule),
                                 .elements = std::as_bytes(std::span(&element, 1))},
                                {}));
  }
  std::vector<int> lose(int worker) { return rows(range.on_lost(worker, {})); }
};

// Worker 0 closed the step in another range and is lost before its push comes here. The others have
// read that range's new version, so they push to this step no more.
TEST(Members, AStepThatNobodyPushesToAnyMoreCloses) {
  for (const char* synchrony :
       {"timeout:milliseconds=20", "timeout:milliseconds=20,quorum=2", "backup_workers:spare=1"}) {
    LoneRange one(synchrony);
    EXPECT_THAT(one.pull(1, 1, 0), IsEmpty()) << synchrony;
    EXPECT_THAT(one.pull(2, 1, 0), IsEmpty()) << "worker 0 may push still: " << synchrony;
    EXPECT_THAT(one.lose(0), ElementsAre(1, 2)) << synchrony;
    EXPECT_EQ(one.range.value().clock(), 1);
  }
}

TEST(Members, NoStepClosesForAWorkerThatAsksFarAheadOrWhereTooFewAreLeft) {
  LoneRange one("timeout:milliseconds=20");
  one.lose(0);
  one.lose(1);
  EXPECT_THAT(one.pull(2, std::int64_t{1} << 60, 0), IsEmpty());
  EXPECT_EQ(one.range.value().clock(), 0);
  LoneRange spare("backup_workers:spare=1");
  spare.lose(0);
  spare.lose(1);
  EXPECT_THAT(spare.pull(2, 1, 0), IsEmpty());
  EXPECT_EQ(spare.range.value().clock(), 0);
}

TEST(Members, AStepWaitsForAPushThatItsWorkersPullOvertook) {
  for (const char* synchrony : {"timeout:milliseconds=20,quorum=2", "backup_workers:spare=1"}) {
    LoneRange one(synchrony);
    one.lose(0);
    EXPECT_THAT(one.pull(1, 1, 1), IsEmpty()) << synchrony;
    EXPECT_THAT(one.pull(2, 1, 0), IsEmpty()) << synchrony;
    EXPECT_THAT(one.push(1, 0), ElementsAre(1, 2)) << synchrony;
    EXPECT_EQ(one.range.value().own(1), 1U) << "the push counts: " << synchrony;
  }
}

}  // namespace
}  // namespace paceline::test
