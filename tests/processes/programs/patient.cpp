// One rank of a job whose rank 0 comes late to each of some operations. The other ranks print the
// processor time that they burn meanwhile, from 10 ms after their call on: "burnt OPERATION
// PERCENT", of a core.
//
//   patient MILLISECONDS       the delay of rank 0
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"

namespace {

using namespace paceline;
using namespace std::chrono_literals;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool is_over_within(const Work& work, std::chrono::milliseconds time) {
  try {
    work.wait(Deadline::in(time));
  } catch (const Error& error) {
    if (error.fault() == Fault::timed_out) return false;
    throw;
  }
  return true;
}

void wait_for_rank_0(Job& job, std::string_view name, std::chrono::milliseconds late,
                     const std::function<Work()>& call) {
  job.world().barrier().wait();
  if (job.rank() == 0) {
    std::this_thread::sleep_for(late);
    call().wait();
    return;
  }
  const Work work = call();
  if (is_over_within(work, 10ms)) throw std::runtime_error("rank 0 was not late");
  const double before = processor_seconds();
  const auto begin = Clock::now();
  work.wait();
  const std::chrono::duration<double> waited = Clock::now() - begin;
  say(fmt::format("burnt {} {:.3f}", name, 100 * (processor_seconds() - before) / waited.count()));
}

void wait_in_each_operation(Job& job, std::chrono::milliseconds late) {
  std::vector<float> few(100), many(1 << 16);
  Communicator& world = job.world();
  const auto sum = [&](std::vector<float>& values) {
    return [&] { return world.all_reduce(buffer_of(values)); };
  };
  wait_for_rank_0(job, "short_all_reduce", late, sum(few));
  wait_for_rank_0(job, "long_all_reduce", late, sum(many));
  wait_for_rank_0(job, "broadcast", late, [&] { return world.broadcast(buffer_of(many)); });
  wait_for_rank_0(job, "recv", late, [&] {
    if (job.rank() != 0) return world.recv(buffer_of(few), 0);
    std::vector<Work> sent;
    for (int rank = 1; rank < world.size(); ++rank)
      sent.push_back(world.send(const_buffer_of(few), rank));
    return Work::all_of(sent);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Job job = init();
    wait_in_each_operation(job, std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 500));
  } catch (const std::exception& error) {
    say(fmt::format("failed {}", error.what()));
    return 1;
  }
  return 0;
}
