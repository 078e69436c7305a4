#include "paceline/app/launch/process/binding.h"

#include <hwloc.h>

#include <limits>
#include <memory>
#include <utility>

namespace paceline::launch {
namespace {

struct Free {
  void operator()(hwloc_topology* machine) const { hwloc_topology_destroy(machine); }
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Machine = std::unique_ptr<hwloc_topology, Free>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Free>;

ProcessorSet set_of(const hwloc_bitmap_s* bitmap) {
  ProcessorSet set;
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) set.insert(i);
  return set;
}

// The topology of the processors that this process may use; null when it is unknown.
Machine this_machine() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return nullptr;
  Machine machine(made);
  const Bitmap mine(hwloc_bitmap_alloc());
  const bool is_known = hwloc_topology_load(made) == 0 &&
                        hwloc_get_cpubind(made, mine.get(), HWLOC_CPUBIND_THREAD) == 0 &&
                        hwloc_topology_restrict(made, mine.get(), 0) == 0;
  return is_known ? std::move(machine) : nullptr;
}

}  // namespace

std::vector<ProcessorSet> binding(hwloc_topology* machine, int workers) {
  const auto count = static_cast<std::size_t>(workers);
  std::vector<ProcessorSet> sets(count);
  if (workers < 2 || hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_PU) < workers) return sets;
  std::vector<hwloc_cpuset_t> parts(count);
  hwloc_obj_t root = hwloc_get_root_obj(machine);
  if (hwloc_distrib(machine, &root, 1, parts.data(), static_cast<unsigned>(workers),
                    std::numeric_limits<int>::max(), 0) != 0)
    return sets;
  for (std::size_t i = 0; i < count; ++i) sets[i] = set_of(Bitmap(parts[i]).get());
  return sets;
}

std::vector<ProcessorSet> binding(int workers) {
  const Machine machine = workers < 2 ? nullptr : this_machine();
  return machine ? binding(machine.get(), workers)
                 : std::vector<ProcessorSet>(static_cast<std::size_t>(workers));
}

}  // namespace paceline::launch
