// A worker for the table of waits (tests/net/waiting_table_test.cpp).
//
//   waiting_worker [RANK=BEHAVIOUR]... BEHAVIOUR      the last is that of all other ranks
//
//   stream      joins, says "ready PID", and sums up for ever
//   stream:A    the same by algorithm A
//   save:DIR    joins, says so, and saves a small checkpoint of two ranks for ever
//   idle        joins, says so, and waits for nothing, with its Job
//   brief       joins, says so, and ends
//   before      says so instead of joining, and waits for nothing
//   held        says so, waits for SIGUSR1, and joins
//   later       joins, says so, waits for SIGUSR1, and sums up for ever
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "tests/core/checkpoint/small_saves.h"
#include "tests/processes/programs/release.h"

namespace {

using paceline::Job;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void ready() {
  say(fmt::format("ready {}", ::getpid()));
}

[[noreturn]] void wait_for_nothing() {
  while (true) ::pause();
}

void sum_up(Job& job, const std::string& algorithm) {
  std::vector<float> values(20'000, 1);
  while (true)
    job.world()
        .all_reduce(paceline::buffer_of(values),
                    {.op = paceline::ReduceOp::max, .algorithm = algorithm})
        .wait();
}

void behave(const std::string& behaviour) {
  const auto colon = behaviour.find(':');
  const std::string name = behaviour.substr(0, colon),
                    value = colon == std::string::npos ? "" : behaviour.substr(colon + 1);
  paceline::test::keep_release();
  if (name == "before" || name == "held") ready();
  if (name == "before") wait_for_nothing();
  if (name == "held") paceline::test::wait_for_release();
  Job job = paceline::init();
  if (name != "held") ready();
  if (name == "idle") wait_for_nothing();
  if (name == "later") paceline::test::wait_for_release();
  if (name == "stream" || name == "later") sum_up(job, value);
  for (std::uint64_t step = 1; name == "save"; ++step)
    paceline::checkpoint::testing::save_as(job, value, step);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const rank = std::getenv("PACELINE_RANK");
  const std::string mine = fmt::format("{}=", rank == nullptr ? "0" : rank);
  std::string behaviour = argc > 1 ? argv[argc - 1] : "stream";
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(mine)) behaviour = argument.substr(mine.size());
  }
  try {
    behave(behaviour);
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
  return 0;
}
