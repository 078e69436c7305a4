// A worker that trains rows of a sparse table on the job's servers, or one of these servers.
//
//   paced:STEPS     bsp, with a pause of 2 ms in each step; says "ready PID" when the table is there,
//                   and at the end "longest MS", the longest time between two steps, and "values V0
//                   V1 ..." of all rows
//   marks:STEPS     asp, where rows count the pushes to them; says "ready PID", "longest MS", and at
//                   the end "marks N0 N1 ..." of all rows' first elements
//   bounded:STEPS   the same under ssp:staleness=2
//   saves:TIMES     trains, says "ready PID", then again and again saves the rows and puts them back;
//                   at the end "values V0 V1 ..."
//   stream          says "ready PID", and trains for ever
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"
#include "tests/core/server/sparse/sparse_world.h"

namespace {

using paceline::Job;
using paceline::server::SparseTable;
using paceline::server::StoredRows;
using paceline::test::SparseWork;

constexpr std::uint64_t kSeed = 7;  // as in sparse_replicas_test.cpp

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

class Rows {
 public:
  Rows(Job& job, const SparseWork& work, const std::string& synchrony)
      : work_(work),
        rank_(job.rank()),
        table_(job, {.name = "u",
                     .width = work.width,
                     .dtype = paceline::Dtype::f64,
                     .synchrony = synchrony,
                     .rule = work.counts ? fmt::format("sgd:rate={}", work.workers)
                                         : std::string("adagrad:rate=0.1"),
                     .spread = work.counts ? 0 : 0.01}) {
    say(fmt::format("ready {}", ::getpid()));
  }

  // Every other step's rows are asked for ahead.
  void step(std::int64_t number) {
    const auto ids = work_.ids(rank_, number);
    std::vector<double> rows(ids.size() * work_.width);
    table_.pull(ids, paceline::buffer_of(rows)).wait();
    if (number % 2 == 0) table_.prefetch(work_.ids(rank_, number + 1));
    const auto gradient = work_.gradient(rank_, number, rows);
    table_.push(ids, paceline::const_buffer_of(gradient), {.weight = work_.weight(rank_)});
  }
  void train_paced(int steps) {
    auto last = paceline::Clock::now();
    paceline::Clock::duration longest = {};
    for (int number = 0; number < steps; ++number) {
      step(number);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto now = paceline::Clock::now();
      longest = std::max(longest, now - std::exchange(last, now));
    }
    say(fmt::format("longest {}",
                    std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()));
  }
  // Each worker saves its part of the rows, and puts it back when all have saved theirs.
  void save_and_put_back() {
    table_.quiesce().wait();
    const StoredRows rows = table_.stored(rank_, work_.workers);
    table_.quiesce().wait();
    table_.store(rows);
    table_.quiesce().wait();
  }
  std::vector<double> all() {
    table_.quiesce().wait();
    std::vector<double> values(SparseWork::kIds * work_.width);
    table_.pull(SparseWork::all_ids(), paceline::buffer_of(values)).wait();
    return values;
  }

 private:
  const SparseWork work_;
  const int rank_;
  SparseTable table_;
};

void say_values(Rows& rows) {
  say(fmt::format("values {:a}", fmt::join(rows.all(), " ")));
}

int behave_as_told(Job& job, const std::string& behaviour) {
  if (job.role() == paceline::Role::server) return paceline::serve(job), 0;
  const auto colon = behaviour.find(':');
  const std::string name = behaviour.substr(0, colon);
  const int number = colon == std::string::npos ? 0 : std::stoi(behaviour.substr(colon + 1));
  SparseWork work{.seed = kSeed, .workers = job.world_size(), .steps = number};
  work.counts = work.has_equal_weights = name == "marks" || name == "bounded";
  Rows rows(job, work, name == "marks" ? "asp" : name == "bounded" ? "ssp:staleness=2" : "bsp");
  if (name == "stream")
    for (std::int64_t step = 0;; ++step) rows.step(step);
  if (name == "saves") {
    constexpr int kSteps = 8;
    for (std::int64_t step = 0; step < kSteps; ++step) rows.step(step);
    for (int i = 0; i < number; ++i) rows.save_and_put_back();
    say_values(rows);
    return 0;
  }
  rows.train_paced(number);
  if (name == "paced") return say_values(rows), 0;
  std::vector<long> marks;
  const std::vector<double> values = rows.all();
  for (std::size_t id = 0; id < SparseWork::kIds; ++id)
    marks.push_back(std::lround(values[id * work.width]));
  say(fmt::format("marks {}", fmt::join(marks, " ")));
  return 0;
}

int say_errors(const std::function<int()>& run) {
  try {
    return run();
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string behaviour = argc > 1 ? argv[1] : "stream";
  return say_errors([&] {
    Job job = paceline::init();
    // While the Job lives, so that it does not end by the exception and each rank has its own
    // error.
    return say_errors([&] { return behave_as_told(job, behaviour); });
  });
}
