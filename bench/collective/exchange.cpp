// f32 all_reduce of one host side by side with the physical yardstick ("exchange",
// ../shared/peers): every rank rewrites its buffer before and reads it after each operation,
// untimed. Both alternate in blocks in the same pinned processes; what counts is the median of the
// blocks' ratios.
//
//   build/release/bin/paceline run -n 2 -- build/release/bin/bench_collective_exchange [--bytes N]
//   [--blocks N] [--operations N] [--ordinary]
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include <CLI/CLI.hpp>

#include "paceline/core/collective/collective.h"

namespace {

using paceline::Clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

// Memory that all ranks map: one counter for barriers, then one buffer for each rank.
class Yardstick {
 public:
  Yardstick(paceline::Communicator& world, std::size_t bytes)
      : rank_(world.rank()), size_(world.size()), count_(bytes / 4) {
    stride_ = (bytes + 4095) / 4096 * 4096;
    const std::size_t total = 4096 + stride_ * static_cast<std::size_t>(size_);
    std::vector<std::int64_t> where(2);
    int fd = -1;
    if (rank_ == 0) {
      fd = ::memfd_create("yardstick", 0);
      if (::ftruncate(fd, static_cast<off_t>(total)) != 0) throw std::runtime_error("ftruncate");
      where = {::getpid(), fd};
    }
    world.broadcast(paceline::buffer_of(where)).wait();
    if (rank_ != 0) fd = ::open(fmt::format("/proc/{}/fd/{}", where[0], where[1]).c_str(), O_RDWR);
    base_ =
        static_cast<std::byte*>(::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
    std::memset(buffer(rank_), 0, stride_);
    world.barrier().wait();
  }

  float* buffer(int rank) {
    return reinterpret_cast<float*>(base_ + 4096 + stride_ * static_cast<std::size_t>(rank));
  }

  void barrier() {
    target_ += size_;
    auto& counter = *reinterpret_cast<std::atomic<long>*>(base_);
    counter.fetch_add(1);
    const bool yield = size_ > 2;
    while (counter.load(std::memory_order_acquire) < target_) {
      if (yield) ::sched_yield();
    }
  }

  // Adds the own part of all buffers up and stores the sum into all of them.
  void exchange() {
    const std::size_t n = static_cast<std::size_t>(size_), r = static_cast<std::size_t>(rank_);
    const std::size_t part = ((count_ + n - 1) / n + 15) / 16 * 16,
                      low = std::min(count_, part * r), high = std::min(count_, low + part);
    if (size_ == 2) return add<2>(low, high);
    if (size_ == 4) return add<4>(low, high);
    throw std::runtime_error("the yardstick knows 2 and 4 ranks");
  }

 private:
  template <int kRanks>
  void add(std::size_t low, std::size_t high) {
    float* x[kRanks];
    for (int k = 0; k < kRanks; ++k) x[k] = buffer(k);
#pragma GCC ivdep
    for (std::size_t i = low; i < high; ++i) {
      float sum = x[0][i];
      for (int k = 1; k < kRanks; ++k) sum += x[k][i];
      for (int k = 0; k < kRanks; ++k) x[k][i] = sum;
    }
  }

  int rank_, size_;
  std::size_t count_, stride_ = 0;
  std::byte* base_ = nullptr;
  long target_ = 0;
};

template <typename Operation>
double timed(Yardstick& yardstick, float* values, std::size_t count, int rank, int iteration,
             int size, Operation operation, bool& right) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((iteration + rank) & 7);
  yardstick.barrier();
  const auto begin = Clock::now();
  operation();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  float want = 0;
  for (int r = 0; r < size; ++r) want += static_cast<float>((iteration + r) & 7);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += values[i] != want;
  right = right && wrong == 0;
  yardstick.barrier();
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = std::size_t{64} << 20;
  int blocks = 9, operations = 20;
  bool ordinary = false;
  CLI::App app{"all_reduce beside the shared-memory yardstick"};
  app.add_option("--bytes", bytes);
  app.add_option("--blocks", blocks);
  app.add_option("--operations", operations);
  app.add_flag("--ordinary", ordinary, "buffers of the heap instead of allocate()");
  CLI11_PARSE(app, argc, argv);

  paceline::Job job = paceline::init();
  paceline::Communicator& world = job.world();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(job.rank() % static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))),
          &cpus);
  ::sched_setaffinity(0, sizeof cpus, &cpus);

  const std::size_t count = bytes / 4;
  paceline::Allocation allocation = job.allocate(bytes);
  std::vector<float> heap(ordinary ? count : 0);
  float* ours = ordinary ? heap.data() : reinterpret_cast<float*>(allocation.data());
  Yardstick yardstick(world, bytes);
  bool right = true;
  const paceline::Buffer buffer = paceline::buffer_of(std::span(ours, count));
  std::vector<double> ratios, own_times, yard_times;
  int iteration = 0;
  for (int block = 0; block <= blocks; ++block) {  // the first one warms up
    std::vector<double> own, yard;
    for (int i = 0; i < operations; ++i) {
      own.push_back(timed(
          yardstick, ours, count, job.rank(), iteration++, job.world_size(),
          [&] { world.all_reduce(buffer).wait(); }, right));
    }
    for (int i = 0; i < operations; ++i) {
      yard.push_back(timed(
          yardstick, yardstick.buffer(job.rank()), count, job.rank(), iteration++, job.world_size(),
          [&] {
            yardstick.exchange();
            yardstick.barrier();
          },
          right));
    }
    if (block == 0) continue;
    own_times.push_back(median(own));
    yard_times.push_back(median(yard));
    ratios.push_back(median(own) / median(yard));
  }
  if (job.rank() == 0) {
    fmt::print(
        "{} ranks, {} bytes{}: all_reduce {:.1f} us, yardstick {:.1f} us, ratio median {:.2f} (p10 "
        "{:.2f}, p90 {:.2f})\n",
        job.world_size(), bytes, ordinary ? " (ordinary memory)" : "", median(own_times) * 1e6,
        median(yard_times) * 1e6, median(ratios), quantile(ratios, 0.1), quantile(ratios, 0.9));
  }
  if (!right) fmt::print(stderr, "wrong sum\n");
  return right ? 0 : 1;
}
