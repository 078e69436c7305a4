// A worker that trains a table on the job's servers, or one of these servers (TF_CONFIG's ps).
//
//   table_worker [RANK=BEHAVIOUR]... BEHAVIOUR      the last is for the ranks that are not named
//
//   train:STEPS     trains noisy quadratics, and says "values V0 V1 ..." of what it has at the end
//   told:STEPS      the same, and says "ready PID" before
//   paced:STEPS     as told, with a pause of 2 ms in each step; at the end it also says "longest MS",
//                   the longest time between two steps
//   twice:STEPS     as paced; then it trains another table of this name for 5 steps, and says
//                   "again V0 V1 ..." of that
//   marks:STEPS     pushes a one to an element of its own in each step, under asp, with such pauses;
//                   says "ready PID", and at the end "marks V0 V1 ..." of all workers' elements
//   late_marks:STEPS  the same under ssp with a staleness of 2
//   delayed:DELAY:RATE  trains one number under an exact delay, and says how far it swings
//   stream          says "ready PID", and trains for ever
//   first           as stream in the first generation, as train:5 in later ones
//   save            as stream until SIGTERM; then it reads the table, says "saved", and ends with
//   143 wider           makes a table that has an element more than that of the others role says
//   "role ROLE RANK WORLD_SIZE SERVERS" wait            joins, says "ready PID", and waits exit
//   joins, and exits without leaving the job
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"
#include "tests/core/server/machine/quadratic_world.h"

namespace {

using paceline::Job;
using paceline::server::Table;
using paceline::test::QuadraticWorld;

constexpr std::uint64_t kSeed = 7;  // as in servers_test.cpp

std::atomic<bool> is_told_to_save = false;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

void ready() {
  say(fmt::format("ready {}", ::getpid()));
}

class Training {
 public:
  explicit Training(Job& job, std::size_t more = 0)
      : rank_(job.rank()),
        values_(QuadraticWorld::first(QuadraticWorld::kElements + more)),
        table_(job, {.name = "w",
                     .elements = values_.size(),
                     .dtype = paceline::Dtype::f64,
                     .part_bytes = 40}) {
    table_.assign(paceline::buffer_of(values_)).wait();
    pull();
  }

  void step() {
    const auto gradient = QuadraticWorld::gradient(kSeed, rank_, table_.clock(), values_);
    table_.push(paceline::const_buffer_of(gradient),
                {.rate = 0.125, .weight = QuadraticWorld::weight(rank_)});
    pull();
  }
  void pull() { table_.pull(paceline::buffer_of(values_)).wait(); }
  const std::vector<double>& values() const { return values_; }

 private:
  const int rank_;
  std::vector<double> values_;
  Table table_;
};

void train(Job& job, int steps, const char* word = "values") {
  Training training(job);
  for (int step = 0; step < steps; ++step) training.step();
  say(fmt::format("{} {:a}", word, fmt::join(training.values(), " ")));
}

// A pause of 2 ms for each step, and the longest time between two of them.
class Pace {
 public:
  void step() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto now = paceline::Clock::now();
    longest_ = std::max(longest_, now - last_);
    last_ = now;
  }
  void tell() const {
    say(fmt::format("longest {}",
                    std::chrono::duration_cast<std::chrono::milliseconds>(longest_).count()));
  }

 private:
  paceline::Clock::time_point last_ = paceline::Clock::now();
  paceline::Clock::duration longest_ = {};
};

void train_paced(Job& job, int steps) {
  Training training(job);
  ready();
  Pace pace;
  for (int step = 0; step < steps; ++step) {
    training.step();
    pace.step();
  }
  pace.tell();
  say(fmt::format("values {:a}", fmt::join(training.values(), " ")));
}

// Each worker has an element in each of eight parts.
void push_marks(Job& job, const std::string& synchrony, int steps) {
  constexpr std::size_t kParts = 8;
  const auto workers = static_cast<std::size_t>(job.world_size());
  std::vector<double> values(kParts * workers), update(values.size());
  for (std::size_t part = 0; part < kParts; ++part)
    update[part * workers + static_cast<std::size_t>(job.rank())] = 1;
  Table table(job, {.name = "marks",
                    .elements = values.size(),
                    .dtype = paceline::Dtype::f64,
                    .synchrony = synchrony,
                    .rule = "add",
                    .part_bytes = workers * sizeof(double)});
  table.assign(paceline::buffer_of(values)).wait();
  ready();
  Pace pace;
  for (int step = 0; step < steps; ++step) {
    table.pull(paceline::buffer_of(values)).wait();
    std::ignore = table.push(paceline::const_buffer_of(update));
    pace.step();
  }
  table.quiesce(paceline::buffer_of(values)).wait();
  pace.tell();
  say(fmt::format("marks {}", fmt::join(values, " ")));
}

// x <- x - rate x(delay ago), and says "envelope E": the largest |x| of the last steps.
void train_delayed(Job& job, int delay, double rate) {
  constexpr int kSteps = 1'700, kLast = 64;
  std::vector<double> x = {1};
  Table table(job, {.name = "x",
                    .elements = 1,
                    .dtype = paceline::Dtype::f64,
                    .synchrony = fmt::format("bounded_delay:steps={},exact=on", delay),
                    .rule = fmt::format("sgd:rate={}", rate)});
  table.assign(paceline::buffer_of(x)).wait();
  table.pull(paceline::buffer_of(x)).wait();
  double envelope = 0;
  for (int step = 0; step < kSteps; ++step) {
    auto pushed = table.push(paceline::const_buffer_of(x));
    table.pull(paceline::buffer_of(x)).wait();
    pushed.wait();
    if (step >= kSteps - kLast) envelope = std::max(envelope, std::abs(x[0]));
  }
  say(fmt::format("envelope {}", envelope));
}

void stream(Job& job) {
  Training training(job);
  training.step();
  ready();
  while (!is_told_to_save) training.step();
  training.pull();
  say("saved");
}

int behave(Job& job, const std::string& behaviour) {
  const std::string name = behaviour.substr(0, behaviour.find(':'));
  if (job.role() == paceline::Role::server) return paceline::serve(job), 0;
  if (name == "told") ready();
  if (name == "train" || name == "told") train(job, std::stoi(behaviour.substr(name.size() + 1)));
  if (name == "paced" || name == "twice")
    train_paced(job, std::stoi(behaviour.substr(name.size() + 1)));
  if (name == "twice") train(job, 5, "again");
  if (name == "marks" || name == "late_marks")
    push_marks(job, name == "marks" ? "asp:update=worker" : "ssp:staleness=2,update=worker",
               std::stoi(behaviour.substr(name.size() + 1)));
  if (name == "first" && job.generation() > 1) train(job, 5);
  else if (name == "first" || name == "stream") stream(job);
  if (name == "save") {
    ::signal(SIGTERM, [](int) { is_told_to_save = true; });
    stream(job);
    return 143;
  }
  if (name == "delayed") {
    const std::string numbers = behaviour.substr(name.size() + 1);
    train_delayed(job, std::stoi(numbers), std::stod(numbers.substr(numbers.find(':') + 1)));
  }
  if (name == "wider") Training(job, 1).step();
  if (name == "role")
    say(fmt::format("role {} {} {} {}", job.role() == paceline::Role::worker ? "worker" : "server",
                    job.rank(), job.world_size(), job.servers()));
  if (name == "wait") {
    ready();
    while (true) ::pause();
  }
  if (name == "exit") std::exit(0);
  return 0;
}

// Returns 1 after an error, which is said.
int say_errors_of(const std::function<int()>& run) {
  try {
    return run();
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank = std::getenv("PACELINE_RANK");
  const std::string mine = fmt::format("{}=", rank == nullptr ? "none" : rank);
  std::string behaviour = argc > 1 ? argv[argc - 1] : "role";
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(mine)) behaviour = argument.substr(mine.size());
  }
  return say_errors_of([&] {
    Job job = paceline::init();
    // While the Job lives, so that it does not end by the exception and each rank has its own
    // error.
    return say_errors_of([&] { return behave(job, behaviour); });
  });
}
