// The processors that workers get, on machines that are described to hwloc.
#include "paceline/app/launch/process/binding.h"

#include <gtest/gtest.h>
#include <hwloc.h>

#include <memory>
#include <string>

namespace paceline::launch {
namespace {

struct Free {
  void operator()(hwloc_topology* machine) const { hwloc_topology_destroy(machine); }
};
using Machine = std::unique_ptr<hwloc_topology, Free>;

Machine machine_of(const std::string& description) {
  hwloc_topology_t made = nullptr;
  hwloc_topology_init(&made);
  EXPECT_EQ(hwloc_topology_set_synthetic(made, description.c_str()), 0) << description;
  EXPECT_EQ(hwloc_topology_load(made), 0);
  return Machine(made);
}

ProcessorSet processors(int begin, int end) {
  ProcessorSet set;
  for (int i = begin; i < end; ++i) set.insert(i);
  return set;
}

TEST(Binding, EveryProcessorGoesToOneWorkerAndEveryWorkerHasSome) {
  for (const std::string description :
       {"core:2 pu:1", "core:7 pu:1", "pack:2 core:4 pu:2", "pack:2 numa:2 core:3 pu:2"}) {
    const Machine machine = machine_of(description);
    const int all = hwloc_get_nbobjs_by_type(machine.get(), HWLOC_OBJ_PU);
    for (int workers = 2; workers <= all; ++workers) {
      ProcessorSet given;
      int count = 0;
      for (const ProcessorSet& own : binding(machine.get(), workers)) {
        EXPECT_GE(own.count(), 1) << description << ", " << workers;
        EXPECT_FALSE(own.meets(given)) << description << ", " << workers;
        given.insert(own);
        count += own.count();
      }
      EXPECT_EQ(count, all) << description << ", " << workers;
    }
  }
}

TEST(Binding, APackageIsNotSharedAndThreadsOfACoreStayTogether) {
  // Processors are numbered as on many systems: first one thread of each core, then the others.
  const Machine machine = machine_of("pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)");
  for (const int workers : {2, 4}) {
    const auto sets = binding(machine.get(), workers);
    const int cores = 4 / workers;
    for (int i = 0; i < workers; ++i) {
      ProcessorSet expected = processors(i * cores, (i + 1) * cores);
      expected.insert(processors(4 + i * cores, 4 + (i + 1) * cores));
      EXPECT_EQ(sets[static_cast<std::size_t>(i)].words, expected.words) << i << " of " << workers;
    }
  }
}

TEST(Binding, OnlyProcessorsThatMayBeUsedAreGiven) {
  const Machine machine = machine_of("pack:2 core:4 pu:1");
  hwloc_bitmap_t usable = hwloc_bitmap_alloc();
  hwloc_bitmap_set_range(usable, 3, 5);
  ASSERT_EQ(hwloc_topology_restrict(machine.get(), usable, 0), 0);
  hwloc_bitmap_free(usable);
  for (const ProcessorSet& own : binding(machine.get(), 3)) {
    EXPECT_EQ(own.count(), 1);
    EXPECT_TRUE(own.meets(processors(3, 6)));
  }
}

TEST(Binding, NobodyIsBoundWhereItWouldNotBeForItself) {
  const Machine machine = machine_of("core:4 pu:1");
  for (const int workers : {1, 5, 64}) {
    const auto sets = binding(machine.get(), workers);
    ASSERT_EQ(sets.size(), static_cast<std::size_t>(workers));
    for (const ProcessorSet& own : sets) EXPECT_EQ(own.count(), 0);
  }
}

TEST(Binding, OfThisMachineIsWhatThisProcessMayUse) {
  const ProcessorSet mine = own_processors().allowed;
  if (mine.count() < 2) GTEST_SKIP() << "one processor";
  ProcessorSet given;
  for (const ProcessorSet& own : binding(2)) given.insert(own);
  EXPECT_EQ(given.words, mine.words);
}

}  // namespace
}  // namespace paceline::launch
