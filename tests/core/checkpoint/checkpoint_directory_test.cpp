#include "paceline/core/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>

#include <set>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/crash_disk.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::checkpoint::testing {
namespace {

using test::CrashDisk;

const std::string kRun = "run";

// A reader takes a step by its name alone.
std::vector<std::uint64_t> named_steps(Disk& disk) {
  return CheckpointDirectory(disk, kRun).steps().value();
}

bool are_whole(Disk& disk) {
  return std::ranges::all_of(named_steps(disk), [&](std::uint64_t step) {
    const std::string directory = CheckpointDirectory(disk, kRun).path_of(step);
    const auto manifest = read_manifest(disk, directory);
    return manifest && damages(disk, directory, manifest.value()).empty();
  });
}

std::uint64_t newest(Disk& disk) {
  const auto steps = named_steps(disk);
  return steps.empty() ? 0 : steps.back();
}

// All steps that are there count as verified.
Result<> prune(Disk& disk, const Keep& keep) {
  const auto steps = named_steps(disk);
  return CheckpointDirectory(disk, kRun).prune(keep, {steps.begin(), steps.end()});
}

void save(Disk& disk, std::uint64_t step, const Keep& keep = {}) {
  ASSERT_TRUE(SmallCheckpoint(step).save(disk, kRun));
  ASSERT_TRUE(prune(disk, keep));
}

TEST(CheckpointDirectory, NamesAndStepsBelongTogether) {
  EXPECT_EQ(name_of_step(400), "step-00000400");
  for (const std::uint64_t step : {0ULL, 400ULL, 99999999ULL, 1ULL << 62})
    EXPECT_EQ(step_of_name(name_of_step(step)), step);
  for (const char* name : {"step-400", "step-000000400", "step-", "step--0000001", "manifest.json"})
    EXPECT_FALSE(step_of_name(name)) << name;
}

TEST(CheckpointDirectory, KeepsTheNewestAndEveryNth) {
  CrashDisk disk;
  disk.make_directory(kRun).value();
  for (std::uint64_t step = 100; step <= 1000; step += 100)
    save(disk, step, {.last = 2, .every = 400});
  EXPECT_EQ(named_steps(disk), (std::vector<std::uint64_t>{400, 800, 900, 1000}));
  EXPECT_TRUE(are_whole(disk));
}

// Steps that this run has neither read nor written may be damaged.
TEST(CheckpointDirectory, OnlyStepsThatAreKnownToBeWholeTakeThePlaceOfOlderOnes) {
  CrashDisk disk;
  disk.make_directory(kRun).value();
  for (std::uint64_t step = 100; step <= 600; step += 100)
    SmallCheckpoint(step).save(disk, kRun).value();
  CheckpointDirectory directory(disk, kRun);
  const auto pruned = [&](const Keep& keep, const std::set<std::uint64_t>& verified) {
    directory.prune(keep, verified).value();
    return named_steps(disk);
  };
  const std::vector<std::uint64_t> all = named_steps(disk);
  EXPECT_EQ(pruned({.last = 2}, {}), all);
  EXPECT_EQ(pruned({.last = 2}, {300}), all);
  EXPECT_EQ(pruned({.last = 3}, {300, 500}), all);
  EXPECT_EQ(pruned({.last = 2}, {300, 700}), all) << "a step that is not there";
  EXPECT_EQ(pruned({.last = 2}, {300, 500}), (std::vector<std::uint64_t>{300, 400, 500, 600}));
  EXPECT_EQ(pruned({.last = 1, .every = 400}, {300, 500}),
            (std::vector<std::uint64_t>{400, 500, 600}));
  EXPECT_EQ(pruned({.last = 0}, {500, 600}), (std::vector<std::uint64_t>{600}));
}

TEST(CheckpointDirectory, StepsThatAreSetAsideStayWholeAndTheirNamesAreFree) {
  test::TemporaryFolder folder;
  SystemDisk disk;
  CheckpointDirectory directory(disk, folder.path());
  EXPECT_EQ(directory.set_aside().value(), "");
  for (const std::uint64_t first : {100, 200}) {
    for (const std::uint64_t step : {first, first + 5})
      SmallCheckpoint(step).save(disk, folder.path()).value();
    const std::string aside = directory.set_aside().value();
    EXPECT_EQ(aside, folder.file("aside-" + std::to_string(first / 100)));
    EXPECT_TRUE(directory.steps().value().empty());
    const CheckpointDirectory moved(disk, aside);
    EXPECT_EQ(moved.steps().value(), (std::vector<std::uint64_t>{first, first + 5}));
    for (const std::uint64_t step : moved.steps().value())
      EXPECT_EQ(damage_of(disk, moved.path_of(step)).value(), "");
  }
}

TEST(CheckpointDirectory, ACrashWhileStepsAreSetAsideLosesNoneAndLeavesTheNewestToTheEnd) {
  CrashDisk disk;
  disk.make_directory(kRun).value();
  disk.sync_directory("").value();
  for (const std::uint64_t step : {100, 200, 300}) SmallCheckpoint(step).save(disk, kRun).value();
  const std::size_t before = disk.operations();
  const std::string aside = CheckpointDirectory(disk, kRun).set_aside().value();
  for (std::size_t count = before; count <= disk.operations(); ++count) {
    CrashDisk crashed = disk.crashed(count, [] { return true; });
    std::set<std::uint64_t> found;
    for (const std::string& where : {kRun, aside})
      for (const std::uint64_t step : CheckpointDirectory(crashed, where).steps().value())
        EXPECT_TRUE(found.insert(step).second);
    EXPECT_EQ(found.size(), 3U) << count << " operations";
    const auto left = named_steps(crashed);
    EXPECT_TRUE(left.empty() || left.back() == 300U);
  }
}

TEST(CheckpointDirectory, AStepThatIsSavedAgainIsReplacedAndLeavesNothingBehind) {
  test::TemporaryFolder folder;
  SystemDisk disk;
  CheckpointDirectory directory(disk, folder.path());
  ASSERT_TRUE(SmallCheckpoint(5, 10).save(disk, folder.path()));
  ASSERT_TRUE(SmallCheckpoint(5, 20).save(disk, folder.path()));
  const Manifest manifest = read_manifest(disk, directory.path_of(5)).value();
  EXPECT_EQ(manifest.items[0].tensors[0].shape, (Extents{20, 2}));
  EXPECT_TRUE(damages(disk, directory.path_of(5), manifest).empty());
  EXPECT_EQ(disk.list(folder.path()).value().size(), 1U);
}

TEST(CheckpointDirectory, AFailedSaveLeavesTheFormerStepAndNothingElse) {
  for (std::size_t count = 0;; ++count) {
    CrashDisk disk;
    disk.make_directory(kRun).value();
    save(disk, 100);
    const auto before = disk.tree();
    disk.fail_after(count, {Fault::io, "no space left", {}});
    const bool saved = bool(SmallCheckpoint(200).save(disk, kRun));
    disk.work_again();
    if (saved) break;
    ASSERT_TRUE(CheckpointDirectory(disk, kRun).abandon(200));
    if (newest(disk) == 100) {
      ASSERT_EQ(disk.tree(), before) << count << " operations";
    }
    save(disk, 300);
    EXPECT_EQ(newest(disk), 300U);
    EXPECT_TRUE(are_whole(disk));
  }
}

// The disk of a run that saves steps 100, 200, 200 again, and 300 with one of them removed, and how
// many operations had been done when each save was told to be durable.
struct History {
  CrashDisk disk;
  std::vector<std::pair<std::size_t, std::uint64_t>> durable;

  // `lost_sync`: the number of a sync that does nothing, to see that it is missed.
  explicit History(std::size_t lost_sync = CrashDisk::kNone) {
    disk.make_directory(kRun).value();
    disk.sync_directory("").value();
    disk.lose_sync(lost_sync);
    for (const std::uint64_t step : {100, 200, 200, 300}) {
      SmallCheckpoint(step).save(disk, kRun).value();
      durable.emplace_back(disk.operations(), step);
      prune(disk, {}).value();
    }
  }
  std::uint64_t durable_at(std::size_t count) const {
    std::uint64_t step = 0;
    for (const auto& [operations, saved] : durable)
      if (operations <= count) step = saved;
    return step;
  }
};

// Whether a crash after `count` operations leaves whole steps, of which the newest is the one that
// was durable or the one that was being saved, and a directory in which the next save works and
// leaves nothing of the crashed one.
bool is_old_or_new(const History& history, std::size_t count,
                   const std::function<bool()>& survives) {
  CrashDisk disk = history.disk.crashed(count, survives);
  const std::uint64_t found = newest(disk), durable = history.durable_at(count);
  if (!are_whole(disk) || (found != durable && found != durable + 100)) return false;
  disk.make_directory(kRun).value();
  save(disk, 900, {.last = 1});
  return are_whole(disk) && named_steps(disk) == std::vector<std::uint64_t>{900} &&
         disk.list(kRun).value().size() == 1;
}

TEST(CheckpointDirectory, ACrashLeavesTheOldStepOrTheNewOneWhateverTheDiskHadNotWritten) {
  const History history;
  SeededNumbers numbers(test::seed(5));
  const int subsets = test::is_nightly() ? 10'000 : 500;
  for (std::size_t count = 1; count <= history.disk.operations(); ++count) {
    ASSERT_TRUE(is_old_or_new(history, count, [] { return true; })) << count;
    ASSERT_TRUE(is_old_or_new(history, count, [] { return false; })) << count;
  }
  for (int round = 0; round < subsets; ++round) {
    const std::size_t count = 1 + numbers.below(history.disk.operations());
    const std::uint64_t odds = 1 + numbers.below(9);
    ASSERT_TRUE(is_old_or_new(history, count, [&] { return numbers.below(10) < odds; })) << count;
  }
}

TEST(CheckpointDirectory, ASaveHasNoSyncThatMayBeMissing) {
  SeededNumbers numbers(test::seed(6));
  const std::size_t syncs = History().disk.syncs();
  ASSERT_GT(syncs, 20U);
  for (std::size_t lost = 1; lost < syncs; ++lost) {
    const History history(lost);
    bool is_missed = false;
    for (int round = 0; round < 2000 && !is_missed; ++round) {
      const std::size_t count = 1 + numbers.below(history.disk.operations());
      const std::uint64_t odds = numbers.below(11);
      is_missed = !is_old_or_new(history, count, [&] { return numbers.below(10) < odds; });
    }
    EXPECT_TRUE(is_missed) << "sync " << lost << " of " << syncs;
  }
}

}  // namespace
}  // namespace paceline::checkpoint::testing
