#include "paceline/app/launch/agent/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "paceline/app/launch/agent/agent_wire.h"
#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/process/program.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/app/launch/process/signals.h"
#include "paceline/app/launch/workers/local_workers.h"

namespace paceline::launch {
namespace {

using Kind = AgentMessage::Kind;

constexpr std::chrono::seconds kCleanUp{10};
constexpr std::size_t kOutputWindow = 512 << 10;

std::int64_t age(Clock::time_point moment) {
  return std::chrono::nanoseconds(Clock::now() - moment).count();
}

class Agent {
 public:
  explicit Agent(AgentOptions options);
  ~Agent();
  int drive();

 private:
  void read();
  void obey(const AgentMessage& message);
  void begin_generation(const AgentOrders& orders);
  void carry_out(const AgentOrders& orders);
  void start_server(int member, int server);
  void tell(const AgentMessage& message);
  void on_signal(int number);
  void lose_launcher() { end_ = 1; }
  void check_drained();

  AgentOptions options_;
  transport::Poller poller_;
  SignalWatch signals_;
  const rlimit open_files_;
  const transport::FileDescriptor nothing_;
  transport::FileDescriptor secret_;
  AgentReader reader_;
  Output output_;
  std::unique_ptr<LocalWorkers> workers_;
  AgentOrders orders_;     // of the present generation
  Environment inherited_;  // of its workers
  bool drained_ = false;
  bool was_signalled_ = false;
  std::optional<int> end_;
};

OutputOptions framed() {
  return {.frame =
              [](int rank, bool error, std::string_view bytes, std::string& out) {
                append({.kind = error ? Kind::error : Kind::output,
                        .rank = rank,
                        .text = std::string(bytes)},
                       out);
              },
          .window = kOutputWindow};
}

Agent::Agent(AgentOptions options)
    : options_(std::move(options)),
      signals_(poller_, [this](int number) { on_signal(number); }),
      open_files_(raise_open_files()),
      nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      output_(poller_, options_.output.get(), framed(), [this](int) { lose_launcher(); }) {
  poller_.watch(options_.input.get(), EPOLLIN, [this](std::uint32_t) { read(); });
}

Agent::~Agent() {
  poller_.forget(options_.input.get());
  workers_.reset();
  ::setrlimit(RLIMIT_NOFILE, &open_files_);
}

int Agent::drive() {
  while (!end_) {
    poller_.wait(Deadline::never());
    check_drained();
  }
  if (workers_) workers_->end(*end_);
  return *end_;
}

void Agent::read() {
  std::array<char, 65536> piece;
  const auto count = ::read(options_.input.get(), piece.data(), piece.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return lose_launcher();
  reader_.feed({piece.data(), static_cast<std::size_t>(count)});
  while (true) {
    const auto message = reader_.next();
    if (!message) return lose_launcher();
    if (!message.value()) return;
    obey(*message.value());
  }
}

void Agent::obey(const AgentMessage& message) {
  switch (message.kind) {
    case Kind::orders: {
      try {
        begin_generation(parse_orders(message.text).value());
      } catch (const Error& error) {
        tell({.kind = Kind::refused,
              .number = static_cast<std::int64_t>(error.fault()),
              .text = error.what()});
      }
      return;
    }
    case Kind::signal:
      if (workers_) workers_->forward(static_cast<int>(message.number));
      return;
    case Kind::kill:
      if (workers_) workers_->kill();
      return;
    case Kind::start: return start_server(message.rank, static_cast<int>(message.number));
    case Kind::credit: return output_.credit(static_cast<std::size_t>(message.number));
    case Kind::done: end_ = static_cast<int>(message.number); return;
    default: return lose_launcher();  // no launcher says that
  }
}

// A batch system signals the launchers of all nodes at the same time. The workers get time to save
// and end, and the launcher of node 0 hears of it and ends the run; a second signal ends all here.
// Signals by which a run only saves come through that launcher.
void Agent::on_signal(int number) {
  if (number == SIGUSR1 || number == SIGUSR2) return;
  if (!workers_ || std::exchange(was_signalled_, true)) return lose_launcher();
  workers_->forward(number);
}

// The launcher gives new orders when all workers of the generation before have ended.
void Agent::begin_generation(const AgentOrders& orders) {
  if (workers_ && !drained_) return;
  if (workers_ && !workers_->kill_all(Deadline::in(kCleanUp)))
    throw Error({Fault::io, "a process of the generation before could not be killed", {}});
  workers_.reset();
  drained_ = false;
  carry_out(orders);
}

void Agent::carry_out(const AgentOrders& orders) {
  const auto& command = options_.command.empty() ? orders.command : options_.command;
  if (!orders.directory.empty() && ::chdir(orders.directory.c_str()) != 0) {
    throw Error(io_failure(
        fmt::format("cannot work in {} as on the launcher's host", orders.directory), errno));
  }
  Environment here = own_environment();
  for (const std::string& entry : orders.environment) set_variable(here, entry);
  const std::string path(value_of(here, "PATH"));
  if (command.empty()) throw_misuse("the orders name no program");
  const auto program = find_program(command.front(), path.empty() ? "/usr/bin:/bin" : path).value();
  secret_ = secret_file(options_.secret ? options_.secret->hexadecimal() : orders.secret);
  const WorkerEvents events{
      .started = [this](int rank,
                        int pid) { tell({.kind = Kind::started, .rank = rank, .number = pid}); },
      .not_started =
          [this](int rank, const std::string& why, Clock::time_point when) {
            tell({.kind = Kind::not_started, .rank = rank, .number = age(when), .text = why});
          },
      .ended =
          [this](int rank, int status, Clock::time_point when) {
            tell({.kind = Kind::ended,
                  .rank = rank,
                  .number = age(when),
                  .text = std::to_string(status)});
          }};
  workers_ =
      std::make_unique<LocalWorkers>(poller_, output_, events,
                                     ShimOrders{.program = program,
                                                .command = command,
                                                .secret = secret_.get(),
                                                .signal_mask = signals_.original_mask(),
                                                .pipe_action = signals_.original_pipe_action(),
                                                .open_files = open_files_});
  orders_ = orders;
  orders_.job.usable_cores = usable_cores();
  inherited_ = std::move(here);
  for (const ProcessPlace& place : places_of(orders_))
    workers_->start(place, worker_environment(inherited_, orders_.job, place), nothing_.get());
}

// One that was told to have drained has not any more.
void Agent::start_server(int member, int server) {
  if (!workers_) return;
  drained_ = false;
  const ProcessPlace place = place_of_server(orders_, server);
  try {
    workers_->start(place, worker_environment(inherited_, orders_.job, place), nothing_.get());
  } catch (const Error& error) {
    tell({.kind = Kind::not_started, .rank = member, .number = 0, .text = error.what()});
  }
}

void Agent::tell(const AgentMessage& message) {
  std::string bytes;
  append(message, bytes);
  output_.say(bytes);
}

void Agent::check_drained() {
  if (drained_ || !workers_ || !workers_->empty()) return;
  output_.writers_are_gone();
  if (!output_.all_read()) return;
  drained_ = true;
  tell({.kind = Kind::drained});
}

}  // namespace

int run_agent(AgentOptions options) {
  return Agent(std::move(options)).drive();
}

}  // namespace paceline::launch
