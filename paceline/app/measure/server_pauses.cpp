#include "paceline/app/measure/server_pauses.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "paceline/app/measure/quantile.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/server/server.h"
#include "paceline/core/server/table/chain.h"

namespace paceline::measure {
namespace {

using Seconds = std::chrono::duration<double>;

// The processes of the job's servers on this host.
std::vector<pid_t> servers_here(const std::string& job) {
  namespace variable = membership::variable;
  const std::string of_job = fmt::format("{}={}", variable::kJob, job);
  const std::string of_server = fmt::format("{}=", variable::kServerIndex);
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    bool is_of_job = false, is_server = false;
    for (std::string line; std::getline(file, line, '\0');) {
      is_of_job |= line == of_job;
      is_server |= line.starts_with(of_server);
    }
    if (is_of_job && is_server) found.push_back(std::stoi(name));
  }
  std::ranges::sort(found);
  return found;
}

// Kills a server now and then while it lives.
class Killer {
 public:
  Killer(Job& job, double every)
      : job_(job.id()),
        every_(every),
        replicas_(static_cast<std::size_t>(job::replicas_of(job))),
        watch_(job, [this](Bytes chains) { hear(chains); }),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // Kills no more, and returns the moments at which it has.
  std::vector<Clock::time_point> end() {
    thread_.request_stop();
    thread_.join();
    return kills_;
  }

 private:
  // A newcomer counts a little later than it is in its chain.
  static constexpr std::chrono::milliseconds kUntilReady{200}, kLook{10};

  void hear(Bytes bytes) {
    auto chains = server::parse_chains(bytes);
    if (!chains) return;
    const std::lock_guard lock(mutex_);
    const bool is_whole = std::ranges::all_of(*chains, [this](const server::Chain& one) {
      return one.servers.size() == replicas_ && !one.joiner;
    });
    whole_since_ = is_whole ? std::optional(Clock::now()) : std::nullopt;
  }
  bool may_kill() const {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    return whole_since_ && now - *whole_since_ > kUntilReady &&
           Seconds(now - last_).count() >= every_;
  }
  void run(const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook)) {
      if (!may_kill()) continue;
      const auto servers = servers_here(job_);
      if (servers.empty()) continue;
      const std::lock_guard lock(mutex_);
      last_ = Clock::now();
      whole_since_.reset();
      kills_.push_back(last_);
      std::ignore = ::kill(servers[numbers_.below(servers.size())], SIGKILL);
    }
  }

  const std::string job_;
  const double every_;
  const std::size_t replicas_;
  mutable std::mutex mutex_;  // guards all that follows
  std::optional<Clock::time_point> whole_since_ = Clock::now();
  Clock::time_point last_ = Clock::now();
  std::vector<Clock::time_point> kills_;
  SeededNumbers numbers_{0x6b696c6c};
  job::MapWatch watch_;
  std::jthread thread_;
};

// The longest step of each stretch between two kills; at first that before the first kill.
std::vector<double> longest_steps(const std::vector<Clock::time_point>& ends,
                                  const std::vector<Clock::time_point>& kills) {
  std::vector<double> longest(kills.size() + 1);
  std::size_t stretch = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    while (stretch < kills.size() && ends[i] > kills[stretch]) ++stretch;
    longest[stretch] = std::max(longest[stretch], Seconds(ends[i] - ends[i - 1]).count());
  }
  return longest;
}

}  // namespace

PauseFigures pauses_of_workers(Job& job, const PauseOptions& options) {
  const std::size_t elements = std::max<std::size_t>(options.bytes / sizeof(float), 1);
  std::vector<float> values(elements), update(elements, 0.001F);
  std::vector<Clock::time_point> ends, kills;
  {
    server::Table table(job, {.name = "bench pauses",
                              .elements = elements,
                              .synchrony = "asp:update=worker",
                              .rule = "add"});
    table.assign(buffer_of(values)).wait();
    job.world().barrier().wait();
    std::optional<Killer> killer;
    if (job.rank() == 0) killer.emplace(job, options.kill_every);
    const auto begin = Clock::now();
    for (auto now = begin; Seconds(now - begin).count() < options.seconds; now = ends.back()) {
      std::ignore = table.push(const_buffer_of(update));
      table.pull(buffer_of(values)).wait();
      ends.push_back(Clock::now());
    }
    if (killer) kills = killer->end();
    std::erase_if(kills, [&](const auto& kill) { return kill >= ends.back(); });
    killer.reset();
    table.quiesce(buffer_of(values)).wait();
  }
  PauseFigures figures{.kills = static_cast<int>(kills.size()),
                       .steps_per_second = static_cast<double>(ends.size()) / options.seconds};
  std::vector<double> after = longest_steps(ends, kills);
  figures.undisturbed = after.front();
  figures.longest = std::ranges::max(after);
  after.erase(after.begin());
  if (!after.empty()) figures.median = median(after);
  std::vector<double> of_rank_0 = {static_cast<double>(figures.kills), figures.steps_per_second,
                                   figures.undisturbed, figures.median};
  job.world().broadcast(buffer_of(of_rank_0), 0).wait();
  const double most = job.world().all_reduce(figures.longest, ReduceOp::max);
  return {static_cast<int>(of_rank_0[0]), of_rank_0[1], of_rank_0[2], most, of_rank_0[3]};
}

}  // namespace paceline::measure
