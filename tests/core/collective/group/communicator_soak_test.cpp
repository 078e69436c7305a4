// Thousands of steps with a random group, tag and operation from several threads: no error, and
// nothing grows (covers communicator.h and group.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"

extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace paceline::collective::testing {
namespace {

constexpr int kSoakRanks = 4, kThreads = 3;
const int kSteps = kSanitized ? 200 : 2000;  // over all threads

// Bytes. Sanitizers keep what was freed for a while, so they are asked for what was not.
long memory_in_use() {
  if (kSanitized) return static_cast<long>(__sanitizer_get_current_allocated_bytes());
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

long descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// While nothing new is opened: other ranks' threads may still be closing what their last groups
// had, so the fewest of half a second are those that stay.
long fewest_descriptors() {
  long fewest = descriptors();
  const Deadline deadline = Deadline::in(500ms);
  while (!deadline.passed()) fewest = std::min(fewest, descriptors());
  return fewest;
}

// The groups of one thread: the same on all ranks that are in them.
std::vector<std::unique_ptr<Communicator>> groups_of(Communicator& world) {
  std::vector<std::unique_ptr<Communicator>> groups;
  groups.push_back(world.split(0));
  groups.push_back(world.split(world.rank() % 2));
  groups.push_back(world.split(world.rank() / 2, -world.rank()));
  groups.push_back(world.subgroup(std::vector{3, 0, 2}));
  return groups;
}

// One operation in one group; every member draws the same from `numbers`.
void step(Communicator& group, SeededNumbers& numbers) {
  const auto operation = numbers.below(7);
  const auto count =
      static_cast<std::size_t>(numbers.below(10) == 0 ? 30'000 : numbers.below(3000));
  const auto tag = static_cast<std::uint32_t>(numbers.below(1 << 30));
  const int root = static_cast<int>(numbers.below(64)) % group.size(), size = group.size(),
            rank = group.rank();
  std::vector<float> values(count), other(count);
  fill(std::span(values), rank);
  const auto check = [&](const std::vector<float>& got,
                         const std::function<float(std::size_t)>& wanted) {
    if (first_difference<float>(got, wanted) != got.size())
      throw std::runtime_error(fmt::format("wrong values in operation {}", operation));
  };
  const auto sum = [&](std::size_t i) { return expected<float>(size, ReduceOp::sum, i); };
  if (operation == 0) {
    group.all_reduce(buffer_of(values)).wait();
    check(values, sum);
  } else if (operation == 1) {
    group.reduce(buffer_of(values), root).wait();
    if (rank == root) check(values, sum);
  } else if (operation == 2) {
    group.broadcast(buffer_of(values), root).wait();
    check(values, [&](std::size_t i) { return value<float>(root, i); });
  } else if (operation == 3) {
    const std::size_t part = count / static_cast<std::size_t>(size);
    values.resize(part * static_cast<std::size_t>(size));
    other.resize(values.size());
    group.all_to_all(const_buffer_of(values), buffer_of(other)).wait();
    check(other, [&](std::size_t i) {
      return value<float>(static_cast<int>(i / part),
                          static_cast<std::size_t>(rank) * part + i % part);
    });
  } else if (operation == 4) {
    const Work sent = group.send(const_buffer_of(values), (rank + 1) % size, {.tag = tag});
    const int from = (rank + size - 1) % size;
    const Work got = group.recv(buffer_of(other), tag % 2 == 0 ? from : kAnyRank, {.tag = tag});
    Work::all_of({sent, got}).wait();
    if (got.source() != from) throw std::runtime_error("from another rank");
    check(other, [&](std::size_t i) { return value<float>(from, i); });
  } else if (operation == 5) {
    group.barrier().wait();
  } else {
    const auto inner = group.split(rank % 2);
    inner->all_reduce(buffer_of(values)).wait();
  }
}

TEST(CommunicatorSoak, RandomGroupsTagsAndOperationsFromSeveralThreadsLeaveNothingBehind) {
  for (const auto& options : {kShared, kTcp}) {
    SCOPED_TRACE(label(options));
    std::atomic<int> warm = 0;
    std::atomic<long> memory = 0, open = 0;
    run_ranks(kSoakRanks, options, [&](Job& job) {
      std::vector<std::vector<std::unique_ptr<Communicator>>> groups;
      for (int t = 0; t < kThreads; ++t) groups.push_back(groups_of(job.world()));
      const auto run = [&](int thread, std::uint64_t seed, int steps) {
        SeededNumbers choice(test::seed(seed * 100 + static_cast<std::uint64_t>(thread)));
        for (int i = 0; i < steps; ++i) {
          auto& group = groups[static_cast<std::size_t>(thread)][choice.below(4)];
          SeededNumbers numbers(test::seed(choice.next()));
          if (group) step(*group, numbers);
        }
      };
      const auto phase = [&](std::uint64_t seed, int steps) {
        std::atomic<bool> failed = false;
        {
          std::vector<std::jthread> threads;
          for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
              try {
                run(t, seed, steps);
              } catch (const std::exception& error) {
                ADD_FAILURE() << "rank " << job.rank() << ", thread " << t << ": " << error.what();
                failed = true;
              }
            });
          }
        }
        ASSERT_FALSE(failed);
        job.world().barrier().wait();
      };
      phase(1, kSteps / kThreads);  // memory settles
      for (const auto& of_thread : groups) {
        for (const auto& group :
             of_thread) {  // each has its stage, or room to read (shared_reduction.h)
          std::vector<float> longer(1 << 15);
          if (group) group->all_reduce(buffer_of(longer)).wait();
        }
      }
      if (++warm == kSoakRanks) {
        memory = memory_in_use();
        open = fewest_descriptors();
      }
      job.world().barrier().wait();
      for (std::uint64_t seed = 2; seed < 4; ++seed) phase(seed, kSteps / kThreads);
      job.world().barrier().wait();
      if (job.rank() == 0) {
        const Deadline deadline = Deadline::in(10s);
        while (descriptors() > open && !deadline.passed()) std::this_thread::yield();
        EXPECT_LE(descriptors(), open);
        EXPECT_LT(memory_in_use() - memory, 4 << 20)
            << "bytes, after " << 2 * kSteps << " more steps";
      }
      job.world().barrier().wait();
    });
  }
}

}  // namespace
}  // namespace paceline::collective::testing
