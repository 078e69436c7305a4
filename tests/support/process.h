// Starts programs from tests, talks to them through pipes, and finds what they leave behind.
//
// Every wait has a deadline and nothing sleeps: a test waits for an event that it expects.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::test {

// The path of an executable of this build: the command ("paceline") or a helper of the tests.
std::string binary(const std::string& name);
// The path of a file of the source tree, such as "CMakeLists.txt".
std::string source(const std::string& path);

struct ProcessOptions {
  std::vector<std::string> command;  // a name without '/' is looked up in $PATH
  // Added to this one's; PACELINE_RUN_* and ranks are removed.
  std::map<std::string, std::string> environment = {};
  std::string directory = {};               // empty: this process's
  int input = -1, output = -1, error = -1;  // the child's 0, 1, 2; -1: a pipe to the test
  bool ignore_hangup = false;               // as under nohup
  // Stdin, stdout and stderr are a terminal of its own, whose other end is the test's.
  bool new_terminal = false;
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

  // Waits until its stdout (or stderr) contains the text. false: it did not in time.
  bool wait_for_output(const std::string& text, Deadline deadline);
  bool wait_for_error(const std::string& text, Deadline deadline);
  // Waits until it has ended and its output is read, and returns its wait status. nullopt: it did
  // not end in time.
  std::optional<int> wait(Deadline deadline);
  // Waits without reading its output.
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

// A finished program. `exit_code` is that of a shell; -1: it had to be killed at the deadline.
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
// A variable of a running process; empty if it is not set.
std::string variable_of(pid_t pid, const std::string& name);
bool is_alive(pid_t pid);  // false for a zombie
// The things that a job has left behind: its processes, abstract sockets and files in /dev/shm with
// "paceline" in their names. Waits until the deadline for the list to be empty, as it must be.
std::string left_overs(const std::string& job, const std::vector<pid_t>& pids, Deadline deadline);

}  // namespace paceline::test
