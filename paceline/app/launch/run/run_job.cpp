#include "paceline/app/launch/run/run_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "paceline/app/launch/agent/agent.h"
#include "paceline/app/launch/ending/ending.h"
#include "paceline/app/launch/ending/restarts.h"
#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/app/launch/run/launched_generation.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"

namespace paceline::launch {
namespace {

using membership::Secret;

// The end of a run that went well without one: most likely its program does not call init().
std::string nobody_joined(int processes) {
  return fmt::format(
      "paceline: no process joined the run: {} processes ran, each for itself. A program joins by "
      "calling paceline::init() at its start, and not if a wrapper (env -i, sudo) emptied its "
      "environment\n",
      processes);
}

// Names and nodes that have to be waited for count too.
Deadline timeout_of(const RunOptions& options) {
  return options.timeout ? Deadline::at(options.asked + *options.timeout) : Deadline::never();
}

class Run {
 public:
  explicit Run(const RunOptions& options);
  ~Run();
  int drive();

 private:
  RunContext parts();
  bool gather_nodes(Agents& agents);
  void start_generation(Agents agents);
  Outcome run_generation();
  bool pause(Clock::duration time);
  int finish(const Outcome& outcome);
  int stopped_between_generations();
  void write_verdict(const Outcome& outcome);
  void on_signal(int number);
  void stop_and_go_on();
  void on_output_lost(int error);

  const RunOptions& options_;
  const Placement placement_;
  const Deadline timeout_at_;
  transport::Poller poller_;
  SignalWatch signals_;
  const rlimit open_files_;
  const Secret secret_;
  const std::string job_;
  LogFiles files_;
  Output output_;
  const std::function<void(const std::string& lines)> say_;
  const transport::FileDescriptor secret_file_;
  Restarts restarts_;
  std::unique_ptr<LaunchedGeneration> attempt_;
  std::optional<int> stopped_by_;  // a signal between two generations
};

Run::Run(const RunOptions& options)
    : options_(options),
      placement_(place(options)),
      timeout_at_(timeout_of(options)),
      signals_(poller_, [this](int number) { on_signal(number); }),
      open_files_(raise_open_files()),
      secret_(options.nodes.secret ? *options.nodes.secret : Secret::random()),
      job_(random_job_id()),
      files_(options.logs, placement_.world_size),
      output_(poller_,
              {.prefix = options.prefix,
               .colour = ::getenv("NO_COLOR") == nullptr,
               .timestamps = options.timestamps,
               .ranks = placement_.world_size,
               .files = &files_},
              [this](int error) { on_output_lost(error); }),
      say_([this](const std::string& text) {
        output_.say(text);
        files_.write_launchers(text);
        output_.say(files_.take_troubles());
      }),
      secret_file_(secret_file(secret_.hexadecimal())),
      restarts_(options.max_restarts, options.first_generation) {}

// Leaves nothing behind, even after an exception.
Run::~Run() {
  attempt_.reset();
  ::setrlimit(RLIMIT_NOFILE, &open_files_);
}

RunContext Run::parts() {
  return {.options = options_,
          .placement = placement_,
          .poller = poller_,
          .signals = signals_,
          .output = output_,
          .secret = secret_,
          .secret_file = secret_file_.get(),
          .job = job_,
          .open_files = open_files_,
          .timeout_at = timeout_at_,
          .say = say_};
}

// Ctrl-Z reaches the launcher alone, since workers have process groups of their own.
void Run::stop_and_go_on() {
  if (attempt_) attempt_->on_signal(SIGTSTP);
  ::raise(SIGSTOP);
  if (attempt_) attempt_->on_signal(SIGCONT);
}

void Run::on_signal(int number) {
  if (number == SIGTSTP) return stop_and_go_on();
  if (attempt_) attempt_->on_signal(number);
  else if (number != SIGUSR1 && number != SIGUSR2) stopped_by_ = number;
}

// A reader that goes away wants no more; a disk that is full concerns only who reads there.
void Run::on_output_lost(int error) {
  if (error != EPIPE && files_.have_everything()) {
    say_(fmt::format("paceline: the output cannot be written: {}; all of it is in {}\n",
                     ::strerror(error), files_.folder()));
    return;
  }
  if (attempt_) attempt_->on_output_lost(error);
  else stopped_by_ = SIGPIPE;
}

void Run::write_verdict(const Outcome& outcome) {
  const std::vector<RankRecord>& records = attempt_->records();
  files_.write_verdict(verdict_json(outcome, records,
                                    {.job = job_,
                                     .generation = restarts_.generation(),
                                     .host = host_name(),
                                     .ranks = placement_.world_size}));
}

// The launchers of the other nodes, as far as they are not there (--nnodes). False: a signal, or
// the end of --timeout, came first.
bool Run::gather_nodes(Agents& agents) {
  std::set<int> missing;
  for (int node = 1; node < options_.nodes.nodes; ++node)
    if (!agents.contains(static_cast<std::size_t>(node))) missing.insert(node);
  if (missing.empty()) return true;
  const auto is_given_up = [this] { return stopped_by_.has_value() || timeout_at_.passed(); };
  for (auto& [node, channel] :
       await_nodes(options_.nodes, missing, poller_, is_given_up, timeout_at_))
    agents.emplace(static_cast<std::size_t>(node), std::move(channel));
  return !is_given_up();
}

int Run::drive() {
  Agents agents;
  const std::string shared = shared_replicas(options_, placement_);
  if (!shared.empty()) output_.say(shared);
  while (true) {
    files_.begin(restarts_.generation());
    output_.say(files_.take_troubles());
    if (!gather_nodes(agents)) return stopped_between_generations();
    start_generation(std::move(agents));
    const Outcome outcome = run_generation();
    write_verdict(outcome);
    const auto wait = restarts_.after(outcome, attempt_->records());
    if (!wait) return finish(outcome);
    std::optional<Agents> left = attempt_->release();
    say_(describe_generation(outcome, attempt_->records(), host_name()));
    attempt_.reset();
    if (!left) {
      say_("paceline: no restart: a process of the last generation cannot be killed\n");
      return outcome.exit_code;
    }
    say_(fmt::format("paceline: {}\n", restarts_.told()));
    if (!pause(*wait)) return stopped_between_generations();
    agents = *std::move(left);
  }
}

void Run::start_generation(Agents agents) {
  attempt_ = std::make_unique<LaunchedGeneration>(
      parts(), restarts_.generation(), [this](std::uint64_t step) { restarts_.on_saved(step); });
  attempt_->start(std::move(agents));
}

Outcome Run::run_generation() {
  while (!attempt_->is_over()) {
    poller_.wait(attempt_->next_timer());
    attempt_->on_timer();
  }
  return attempt_->outcome();
}

// False: a signal, or the end of --timeout, came first.
bool Run::pause(Clock::duration time) {
  const Deadline deadline = Deadline::in(time);
  while (!deadline.passed() && !stopped_by_ && !timeout_at_.passed())
    poller_.wait(deadline.sooner(timeout_at_));
  return !stopped_by_ && !timeout_at_.passed();
}

int Run::stopped_between_generations() {
  const Outcome outcome = stopped_by_
                              ? Outcome{.kind = Outcome::Kind::interrupted,
                                        .detail = *stopped_by_,
                                        .exit_code = 128 + *stopped_by_}
                              : Outcome{.kind = Outcome::Kind::timed_out, .exit_code = kTimedOut};
  say_(describe_ending(outcome, {}, host_name()));
  return outcome.exit_code;
}

int Run::finish(const Outcome& outcome) {
  attempt_->end(outcome.exit_code);
  std::string last = describe_ending(outcome, attempt_->records(), host_name());
  if (outcome.kind == Outcome::Kind::done && placement_.world_size + options_.servers > 1 &&
      !attempt_->anyone_joined())
    last += nobody_joined(placement_.world_size);
  if (const auto lost = output_.waiting(); lost > 0) {
    last += fmt::format("paceline: {} bytes of output were dropped: nobody read them\n", lost);
  }
  if (!restarts_.told().empty()) last += fmt::format("paceline: {}\n", restarts_.told());
  say_(last);
  const Deadline patience = Deadline::in(std::chrono::milliseconds(100));
  while (output_.waiting() > 0 && !patience.passed()) poller_.wait(patience);
  return outcome.exit_code;
}

int run_as_follower_node(const RunOptions& options) try {
  AgentOptions agent{.command = options.command, .secret = options.nodes.secret};
  agent.input = join_node_0(options.nodes, timeout_of(options));
  agent.output = transport::FileDescriptor(::dup(agent.input.get()));
  return run_agent(std::move(agent));
} catch (const Error& error) {
  if (error.fault() != Fault::timed_out || !timeout_of(options).passed()) throw;
  fmt::print(
      stderr, "paceline: {}\n{}", error.what(),
      describe_ending({.kind = Outcome::Kind::timed_out, .exit_code = kTimedOut}, {}, host_name()));
  return kTimedOut;
}

}  // namespace

int run(const RunOptions& options) {
  if (options.nodes.nodes > 1 && options.nodes.node_rank > 0) return run_as_follower_node(options);
  return Run(options).drive();
}

void dry_run(const RunOptions& options) {
  fmt::print("{}", describe(options, place(options)));
}

int run_server() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::signal(number, SIG_IGN);
  try {
    Job job = init();
    PACELINE_CHECK(job.role() == Role::server,
                   "--as-server is for `paceline run --servers` alone, which starts servers by it");
    serve(job);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "paceline: {}\n", error.what());
    return error.fault() == Fault::misuse ? 2 : 1;
  }
}

}  // namespace paceline::launch
