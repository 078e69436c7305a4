// Starts programs from tests, talks to them through pipes, and finds what they leave behind.
//
// Every wait has a deadline and nothing sleeps: a test waits for what it expects to see.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::test {

// The path of an executable of this build: ours ("paceline") or a helper of the tests.
std::string binary(const std::string& name);

struct ProcessOptions {
  std::vector<std::string> command;  // a name without '/' is looked up in $PATH
  std::map<std::string, std::string> environment =
      {};                                   // added to ours; PACELINE_RUN_* and ranks are removed
  std::string directory = {};               // empty: ours
  int input = -1, output = -1, error = -1;  // the child's 0, 1, 2; -1: a pipe to the test
  bool ignore_hangup = false;               // as under nohup
  bool new_terminal =
      false;  // stdin, stdout and stderr are a terminal of its own, whose other end is the test's
};

// Ended by the destructor, with SIGKILL, if it still runs.
class Process {
 public:
  explicit Process(const ProcessOptions& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& output() const { return output_.text; }
  const std::string& error() const { return error_.text; }

  void write(const std::string& text);  // to its stdin
  void close_input() { input_.reset(); }
  void close_output() { output_.from.reset(); }  // as `| head` does
  void send(int signal);

  // Until the text stands in what it wrote to stdout (or stderr). false: it did not come in time.
  bool wait_for_output(const std::string& text, Deadline deadline);
  bool wait_for_error(const std::string& text, Deadline deadline);
  // Until it has ended and all it wrote is read: its wait status. nullopt: not in time.
  std::optional<int> wait(Deadline deadline);
  // As wait, but nobody reads what it writes.
  bool ends_unread(Deadline deadline);

 private:
  struct Stream {
    transport::FileDescriptor from;
    std::string text;
  };
  bool pump(Deadline deadline);
  bool wait_for(const Stream& stream, const std::string& text, Deadline deadline);
  bool reap();

  pid_t pid_ = -1;
  std::optional<int> status_;
  transport::FileDescriptor input_;
  Stream output_, error_;
};

// A finished program. `exit_code` as a shell tells it; -1: it had to be killed at the deadline.
struct Finished {
  int exit_code = -1;
  std::string output, error;
  Clock::duration took = {};
};
Finished run(const ProcessOptions& options,
             Deadline deadline = Deadline::in(std::chrono::seconds(20)));

std::vector<std::string> lines_of(const std::string& text);

// Processes whose environment has PACELINE_JOB=<job>, from /proc; zombies do not count.
std::vector<pid_t> processes_of_job(const std::string& job);
// A running process's variable; empty when it has none.
std::string variable_of(pid_t pid, const std::string& name);
bool is_alive(pid_t pid);  // false for a zombie
// What a job must not leave behind: processes, abstract sockets and files in /dev/shm with
// "paceline" in their names. Empty when all is clean; waits for that until the deadline.
std::string left_overs(const std::string& job, const std::vector<pid_t>& pids, Deadline deadline);

}  // namespace paceline::test
