// A worker that asks the servers of its job, also those that come in the place of others, and sums
// up beside: for tests in which servers die.
//
//   server_asker     says "ready PID" when all servers have answered, "lost M" of each member that
//                    is lost to its machine, "answered M" of each server that has answered, and
//                    "sums right" at the end, which SIGUSR1 to all ranks brings
//
// A failure is told as "failed FAULT: TEXT" on stdout, and ends it with 1.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/job.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/machine/table_register.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/table/table_numbers.h"
#include "paceline/core/transport/frame/wire.h"

namespace {

using paceline::Job;
using paceline::machine::Actions;
using paceline::machine::Message;
using paceline::server::RegisterKind;

std::atomic<bool> is_over = false;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

constexpr std::uint32_t kNames = 100;  // i32 each: the servers of the launcher's map

// Asks each server once whom it waits for, as workers do that wait for it.
class Asker final : public paceline::machine::Machine {
 public:
  Asker(int ranks, int servers) : ranks_(ranks), servers_(servers) {}

  Actions on_message(int from, const Message& message, paceline::machine::Time) override {
    if (message.kind == kNames) return ask(message);
    say(fmt::format("answered {}", from));
    if (from < ranks_ + servers_) ++answers;
    return {};
  }
  Actions on_timer(std::uint32_t, paceline::machine::Time) override { return {}; }
  Actions on_lost(int peer, paceline::machine::Time) override {
    say(fmt::format("lost {}", peer));
    return {};
  }

  std::atomic<int> answers = 0;

 private:
  Actions ask(const Message& named) {
    Actions actions;
    for (paceline::transport::WireReader reader(named.payload); !reader.rest().empty();) {
      const int server = reader.integer<std::int32_t>();
      if (asked_.insert(server).second)
        actions.push_back(paceline::machine::Send{
            server, {.kind = static_cast<std::uint32_t>(RegisterKind::ask)}});
    }
    return actions;
  }

  const int ranks_, servers_;
  std::set<int> asked_;
};

// The servers in a map of the launcher's.
Message names_in(paceline::Bytes map) {
  paceline::transport::WireWriter names;
  if (auto chains = paceline::server::parse_chains(map))
    for (const paceline::server::Chain& chain : *chains) {
      for (const int server : chain.servers) names.integer(static_cast<std::int32_t>(server));
      if (chain.joiner) names.integer(static_cast<std::int32_t>(*chain.joiner));
    }
  return {.kind = kNames, .payload = names.bytes()};
}

int work(Job& job) {
  Asker asker(job.world_size(), job.servers());
  std::set<int> members;
  paceline::transport::WireWriter servers;
  for (int member = 0; member < job.world_size() + job.servers(); ++member) {
    members.insert(member);
    if (member >= job.world_size()) servers.integer(static_cast<std::int32_t>(member));
  }
  paceline::coordination::MachineRun run(job, paceline::server::kRegisterGroup, members, asker);
  run.tell({.kind = kNames, .payload = servers.bytes()});
  run.wait_within(
      "answers of all servers", [&] { return asker.answers == job.servers(); },
      std::chrono::minutes(1));
  const paceline::job::MapWatch watch(job, [&](paceline::Bytes map) { run.tell(names_in(map)); });
  say(fmt::format("ready {}", ::getpid()));
  // Each sum takes so long that the ranks look at all else that comes, too.
  std::vector<float> step(std::size_t{1} << 18);
  for (bool goes_on = true; goes_on;) {
    std::ranges::fill(step, is_over ? 1.0F : 0.0F);
    job.world().all_reduce(paceline::buffer_of(step)).wait();
    goes_on = step.front() == 0;
  }
  say("sums right");
  return 0;
}

}  // namespace

int main() {
  ::signal(SIGUSR1, [](int) { is_over = true; });
  try {
    Job job = paceline::init();
    // While the Job lives, so that it does not end by the exception.
    try {
      return work(job);
    } catch (const paceline::Error& error) {
      say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
      return 1;
    }
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
}
