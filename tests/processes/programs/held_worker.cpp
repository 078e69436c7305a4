// A worker that is held before one wait: its test stops, kills or cuts off another member, and then
// lets this one go on by SIGUSR1. Those that are let go last never come to the wait.
//
//   held_worker PLACE [KIB]   says "ready PID", is held, and then, of table 'w' on the job's
//                             servers, which has 4 elements, or so many KiB:
//
//   push     pushes an update, and waits until it is applied
//   pull     pushes an update, and pulls the values after it
//   save     quiesces, as whoever saves the values does
//   end      ends the table and the job
//   make     makes another table, 'v'
//   assign   gives first values to a table that was made before, 'v'
//   sum      sums an array up by the servers (push_pull)
//
// It says "passed" after the wait. A failure is told as "failed FAULT: TEXT" on stdout, and ends it
// with 1.
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/schedule/path/push_pull.h"
#include "paceline/core/server/server.h"
#include "tests/processes/programs/release.h"

namespace {

using paceline::Job;
using paceline::server::Table;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

void be_held() {
  say(fmt::format("ready {}", ::getpid()));
  paceline::test::wait_for_release();
}

class Held {
 public:
  Held(Job& job, std::size_t elements)
      : job_(job), values_(elements), table_(job, {.name = "w", .elements = elements}) {
    table_.assign(buffer()).wait();
    table_.pull(buffer()).wait();
  }

  int at(const std::string& place) {
    const std::map<std::string, std::function<void()>> places = {
        {"push", [this] { table_.push(buffer()).wait(); }},
        {"pull", [this] { table_.push(buffer()), table_.pull(buffer()).wait(); }},
        {"save", [this] { table_.quiesce(buffer()).wait(); }},
        {"end", [] {}},
        {"make", [this] { make_other(); }},
        {"assign", [this] { other_->assign(buffer()).wait(); }},
        {"sum", [this] {
           paceline::schedule::PushPull sums(job_);
           sums.all_reduce(buffer(), paceline::ReduceOp::sum).wait();
         }}};
    const auto found = places.find(place);
    if (found == places.end()) return 2;
    if (place == "assign") make_other();
    be_held();
    found->second();
    say("passed");
    return 0;
  }

 private:
  paceline::Buffer buffer() { return paceline::buffer_of(values_); }
  void make_other() {
    other_ = std::make_unique<Table>(
        job_, paceline::server::TableSpec{.name = "v", .elements = values_.size()});
  }

  Job& job_;
  std::vector<float> values_;
  Table table_;
  std::unique_ptr<Table> other_;
};

}  // namespace

int main(int argc, char** argv) {
  paceline::test::keep_release();  // the threads of the job inherit it
  try {
    Job job = paceline::init();
    // While the Job lives, so that it does not end by the exception.
    try {
      const std::size_t elements = argc > 2 ? std::stoul(argv[2]) * 1024 / sizeof(float) : 4;
      return Held(job, elements).at(argc > 1 ? argv[1] : "end");
    } catch (const paceline::Error& error) {
      say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
      return 1;
    }
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
}
