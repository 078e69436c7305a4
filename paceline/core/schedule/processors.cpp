#include "paceline/core/schedule/processors.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace paceline::schedule {
namespace {

std::int64_t kernel() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return static_cast<std::int64_t>(std::hash<std::string>()(boot));
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double processors_of_each(Communicator& group) {
  const std::vector<std::int64_t> own = {kernel()};
  std::vector<std::int64_t> kernels(static_cast<std::size_t>(group.size()));
  group.all_gather(const_buffer_of(own), buffer_of(kernels)).wait();
  const auto ranks = static_cast<double>(std::ranges::count(kernels, own.front()));
  const double processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<double> each = {processors / ranks};
  group.all_reduce(buffer_of(each), {.op = ReduceOp::min}).wait();
  return each.front();
}

double worked_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace paceline::schedule
