// Measures the time that a gradient path adds to a call: gradients of 4 KiB to 1 MiB, each one
// message, against the same all_reduce called directly, in memory that the ranks share. On several
// ranks:
//
//   paceline run -n 2 -- bench_schedule_gradient_path
//
// Both run in alternating blocks. Prints the medians of the blocks' mean times on the slowest rank,
// and their ratio. The path should take at most 1.15 times the call.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "paceline/core/base/stopwatch.h"
#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/schedule.h"

namespace {

using namespace paceline;

constexpr int kBlocks = 41;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <typename Call>
double seconds_of(Communicator& world, int calls, const Call& call) {
  world.barrier().wait();
  const Stopwatch watch;
  for (int i = 0; i < calls; ++i) call();
  return world.all_reduce(watch.seconds() / calls, ReduceOp::max);
}

}  // namespace

int main() {
  Job job = init();
  Communicator& world = job.world();
  for (std::size_t bytes = 4 << 10; bytes <= 1 << 20; bytes *= 4) {
    const schedule::Model model{.name = "one", .tensors = {{.bytes = bytes}}};
    const Allocation memory = world.allocate(bytes);
    const Buffer gradients{memory.data(), bytes / sizeof(float), Dtype::f32};
    schedule::GradientPath path(schedule::transport_in_lanes(world, 1), model,
                                schedule::barrier(model), {gradients});
    const int calls = static_cast<int>(std::max<std::size_t>(20, (4 << 20) / bytes));
    std::vector<double> direct, by_path;
    for (int block = 0; block < kBlocks; ++block) {
      direct.push_back(seconds_of(
          world, calls, [&] { world.all_reduce(gradients, {.op = ReduceOp::average}).wait(); }));
      by_path.push_back(seconds_of(world, calls, [&] {
        path.ready(0);
        path.wait(0);
      }));
    }
    if (job.rank() == 0)
      std::printf("%7zu bytes: call %8.2f us, path %8.2f us, ratio %.3f\n", bytes,
                  1e6 * median(direct), 1e6 * median(by_path), median(by_path) / median(direct));
  }
}
