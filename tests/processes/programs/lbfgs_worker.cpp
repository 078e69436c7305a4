// A worker that makes iterations of L-BFGS on the job's servers.
//
//   lbfgs_worker [RANK=BEHAVIOUR]... BEHAVIOUR      the last is for the ranks that are not named
//
//   train:ITERATIONS  says "path L0 L1 ... W0 W1 ..." of all losses and the last parameters
//   stream            says "ready PID" after some iterations, and goes on for ever
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"
#include "tests/core/server/vectors/logistic_problem.h"

namespace {

using paceline::Job;
using paceline::server::LbfgsEnd;
using paceline::server::LbfgsOnServers;
using paceline::server::PortionWork;
using paceline::test::LogisticProblem;
using paceline::test::Vector;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

class Iterations {
 public:
  explicit Iterations(Job& job)
      : lbfgs_(job,
               {.elements = kElements,
                .dtype = paceline::Dtype::f64,
                .samples = problem_.count(),
                .portion = 10},
               paceline::const_buffer_of(first_)) {}

  LbfgsEnd make_one() {
    return lbfgs_.iterate([this](const PortionWork& work) {
      Vector w(kElements);
      std::memcpy(w.data(), work.parameters.data, work.parameters.size_bytes());
      const auto sums = problem_.sums(w, work.begin, work.end);
      std::memcpy(work.gradient.data, sums.gradient.data(), work.gradient.size_bytes());
      return sums.loss;
    });
  }

 private:
  static constexpr std::size_t kElements = 50;
  const LogisticProblem problem_{7, 400, kElements};
  const Vector first_ = Vector(kElements, 0.1);
  LbfgsOnServers lbfgs_;
};

void train(Job& job, int count) {
  Iterations iterations(job);
  Vector path;
  for (int i = 0; i < count; ++i) {
    const LbfgsEnd end = iterations.make_one();
    path.push_back(end.loss);
    if (i + 1 < count) continue;
    Vector last(end.parameters.count);
    std::memcpy(last.data(), end.parameters.data, end.parameters.size_bytes());
    path.insert(path.end(), last.begin(), last.end());
  }
  say(fmt::format("path {:a}", fmt::join(path, " ")));
}

// Iterations end after some, since nothing is left to gain: then new ones begin.
void stream(Job& job) {
  for (bool is_first = true;; is_first = false) {
    Iterations iterations(job);
    for (int i = 0; i < 8; ++i) iterations.make_one();
    if (is_first) say(fmt::format("ready {}", ::getpid()));
  }
}

int behave(Job& job, const std::string& behaviour) {
  if (job.role() == paceline::Role::server) return paceline::serve(job), 0;
  if (behaviour == "stream") stream(job);
  train(job, std::stoi(behaviour.substr(behaviour.find(':') + 1)));
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
  std::string behaviour = argc > 1 ? argv[argc - 1] : "train:5";
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
