// The law of waiting, as one table: whoever waits says, at the stall time, for whom and for what;
// the run ends by the right deadline; nothing is left.
//
// Those waited for: a rank, a node (all processes of a host), the agent on another host, the store
// (the launcher). What happened to it: not started, stopped, dead, cut off. When: at the start, in
// a call, in a save, at the end. After the start servers have a table of their own
// (tests/processes/waiting/server_cells_test.cpp). These cells cannot occur, or are others of the
// table:
//
//   push                         servers wait in it: the other table has its cells; a node that is
//                                stopped, dead or cut off is its ranks, the agent and the store
//                                have no part in it
//   rank cut off                 a rank is cut off with its node
//   node not started, start      HangingSsh (tests/processes/run_start_test.cpp), with servers too
//   node not started, later on   the run has not begun then
//   node or agent, save          a save waits in calls: a rank's cells show it
//   agent not started            is a node that is not started: the way to it is ssh
//   agent cut off                is a node that is cut off
//   agent stopped, start, call   nobody waits for it: ranks there run and are told without it
//   store not started            a lone program waits for it (RunStart.VariablesThatAShell...)
//   store stopped, call, save    nobody waits for it
//   store stopped, end           the user has stopped it (Ctrl-Z): it is the launcher, which alone
//                                waits then, and goes on by fg
//   store cut off                the node of the other ranks is
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <thread>

#include "tests/support/nightly.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

using Milliseconds = std::chrono::milliseconds;

// The law allows this beyond a deadline: the end of a failed run takes 1.8 s
// (app/launch/ending), taking down hosts some more.
constexpr Milliseconds kEnd{4000};
constexpr Milliseconds kReach{4000};  // a host, and to start what runs there

Milliseconds stall_time() {
  return is_nightly() ? 5000ms : 500ms;
}
// The law allows a second; the short form bears a machine that stands still for two.
Milliseconds soon() {
  return is_nightly() ? 1000ms : 3000ms;
}
// The deadline of starts and of operations.
Milliseconds limit() {
  return is_nightly() ? 15s : 4s;
}

std::string text_of(Milliseconds time) {
  return fmt::format("{}ms", time.count());
}

constexpr int kBySigterm = 128 + SIGTERM;

struct Scene {
  Process& launcher;
  std::string hosts, last_host;  // if there are any: their prefix, and the address of the last one
  std::vector<pid_t> pids;       // of those that are ready; the last one is in trouble

  void signal_last(int signal) const { ::kill(pids.back(), signal); }
  void let_go() const {  // those that are held
    for (const pid_t pid : pids) ::kill(pid, SIGUSR1);
  }
  void signal_server(int signal) const {
    const std::string job = variable_of(pids.back(), "PACELINE_JOB");
    pid_t server = 0;
    for (const Deadline soon = Deadline::in(5s); server == 0 && !soon.passed();)
      for (const pid_t pid : processes_of_job(job))
        if (variable_of(pid, "PACELINE_SERVER_INDEX") == "0") server = pid;
    ASSERT_GT(server, 0);
    ::kill(server, signal);
  }
  // Sends a signal to the processes of host 2 that have this word.
  void signal_host_2(int signal, const std::string& word) const {
    const auto victims = on_host(hosts + "-2", word);
    EXPECT_FALSE(victims.empty()) << word;
    for (const pid_t victim : victims) ::kill(victim, signal);
  }
  void pull_cable() const {
    const auto pulled = run({.command = {hosts_script(), "link", last_host, "down"},
                             .environment = {{"PACELINE_NET", hosts}}});
    EXPECT_EQ(pulled.exit_code, 0) << pulled.error;
  }
};

struct Cell {
  std::string name;
  ProcessOptions options;
  std::vector<int> ready;  // the ranks that say so before the trouble
  std::function<void(const Scene&)> trouble;
  std::string told;   // a pattern of the line at the stall time; empty: the run ends at once
  std::string ends;   // a pattern of a line of the end
  int exit_code = 1;  // kBySigterm: the user ends it, when it has been told
};

bool has_line(const std::string& text, const std::string& pattern) {
  const std::regex line(pattern);
  return std::ranges::any_of(lines_of(text),
                             [&](const std::string& one) { return std::regex_search(one, line); });
}

bool tells(Process& launcher, const std::string& pattern, Deadline deadline) {
  while (!has_line(launcher.error(), pattern)) {
    if (deadline.passed()) return false;
    // Reads on until the next line has come.
    launcher.wait_for_error(launcher.error() + "\n", deadline.sooner(Deadline::in(20ms)));
  }
  return true;
}

void try_cell(const Cell& cell) {
  SCOPED_TRACE(cell.name);
  const bool has_hosts = cell.options.command.front() == hosts_script();
  Process launcher(cell.options);
  Scene scene{launcher, {}, {}, {}};
  if (has_hosts) {
    launcher.wait_for_output("\n", Deadline::in(30s));
    std::istringstream words(launcher.output());
    std::string net, addresses;
    words >> net >> scene.hosts >> addresses;
    scene.last_host = addresses.substr(addresses.rfind(',') + 1);
  }
  for (const int rank : cell.ready) {
    ASSERT_TRUE(launcher.wait_for_output(fmt::format("[{}] ready ", rank), Deadline::in(30s)))
        << launcher.output() << launcher.error();
    scene.pids.push_back(told(launcher.output(), rank, "ready").value());
  }
  const std::string job = variable_of(scene.pids.back(), "PACELINE_JOB");
  const auto begin = Clock::now();
  cell.trouble(scene);
  if (!cell.told.empty()) {
    EXPECT_TRUE(tells(launcher, cell.told, Deadline::at(begin + stall_time() + soon())))
        << launcher.error();
  }
  if (cell.exit_code == kBySigterm) launcher.send(SIGTERM);
  const Milliseconds last = cell.told.empty() ? 0ms : limit() + kReach;
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(last + kEnd + 20s))), cell.exit_code)
      << launcher.error();
  EXPECT_LT(Clock::now() - begin, last + kEnd);
  EXPECT_TRUE(has_line(launcher.error() + launcher.output(), cell.ends))
      << launcher.output() << launcher.error();
  EXPECT_EQ(left_overs(job, scene.pids, Deadline::in(2s)), "");
}

class WaitingTable : public SeveralHosts {
 protected:
  static ProcessOptions impatient(ProcessOptions options) {
    options.environment["PACELINE_STALL_TIME"] = text_of(stall_time());
    return options;
  }
  static std::vector<std::string> worker(const std::vector<std::string>& behaviours) {
    std::vector<std::string> command = {binary("waiting_worker")};
    command.insert(command.end(), behaviours.begin(), behaviours.end());
    return command;
  }
  static ProcessOptions here(const std::vector<std::string>& behaviours,
                             const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"-n", "2"};
    options.insert(options.end(), more.begin(), more.end());
    return impatient(paceline_run(options, worker(behaviours)));
  }
  // Ranks 0 and 1 on host 1, beside the launcher; ranks 2 and 3 on host 2.
  static ProcessOptions there(const std::vector<std::string>& behaviours,
                              const std::vector<std::string>& more = {}) {
    return impatient(run_over(2, more, worker(behaviours)));
  }
  static std::vector<std::string> by(const std::string& transport) {
    std::vector<std::string> options = kOperation;
    options.insert(options.end(), {"--transport", transport});
    return options;
  }
  // All at once: most of their time is waiting.
  static void try_all(const std::vector<Cell>& cells) {
    std::vector<std::jthread> threads;
    for (const Cell& cell : cells) threads.emplace_back([&cell] { try_cell(cell); });
  }

  static const std::vector<std::string> kStart, kOperation, kStopped;
};

// A start has the time that a launcher needs to reach hosts, too.
const std::vector<std::string> WaitingTable::kStart = {"--start-timeout",
                                                       text_of(limit() + kReach)};
const std::vector<std::string> WaitingTable::kOperation = {"--operation-timeout", text_of(limit())};
const std::vector<std::string> WaitingTable::kStopped = {"--stop-grace", "300ms"};

const auto kStop = [](const Scene& scene) { scene.signal_last(SIGSTOP); };
const auto kKill = [](const Scene& scene) { scene.signal_last(SIGKILL); };
const auto kKillStore = [](const Scene& scene) { scene.launcher.send(SIGKILL); };
const auto kNothing = [](const Scene&) {};
const auto kStopServer = [](const Scene& scene) {
  scene.signal_server(SIGSTOP);
  scene.let_go();
};
const auto kKillServer = [](const Scene& scene) {
  scene.signal_server(SIGKILL);
  scene.let_go();
};

TEST_F(WaitingTable, OfRanksAndTheStore) {
  for (const char* run : {"0", "1", "2", "3"}) std::filesystem::create_directory(folder_ / run);
  const std::string saves = "save:" + folder_.string() + "/";
  const std::vector<int> both = {0, 1}, last = {1};
  const std::string missing = "the start waits for.*missing: rank 1 \\(pid ",
                    absent = "rank 1 .*did not join within",
                    not_called =
                        "stall: for .* rank 0 waits in all_reduce.* for rank 1, which has "
                        "not called it",
                    silent = "stall: for .* rank 0 waits in .* rank 1",
                    late = "failed timed out: deadline.* rank 1",
                    dead = "rank 1 \\(pid .* failed first: .*signal 9",
                    runs_on = "the end waits for .*rank 0 has ended.*rank 1 \\(pid",
                    stopped = "the end waits for .*rank 1 \\(pid .* is stopped",
                    ended = "had to be stopped|could not be stopped in time",
                    away =
                        "start: for .* waits for server 0(, which has come| to connect)|"
                        "the start waits for.*missing: server 0 \\(pid ",
                    not_there =
                        "server 0 has not (connected|joined) within|server 0 .*did not join within",
                    dead_server = "server 0 \\(pid .* failed first: .*signal 9", nothing;
  const std::vector<std::string> with_server = {"--servers", "1", "--start-timeout",
                                                text_of(limit())};
  try_all({
      {"server stopped, start", here({"held"}, with_server), both, kStopServer, away, not_there},
      {"server dead, start", here({"held"}, with_server), both, kKillServer, nothing, dead_server,
       137},
      {"not started, start", here({"1=before", "stream"}, kStart), last, kNothing, missing, absent},
      {"stopped, start", here({"1=before", "stream"}, kStart), last, kStop, missing, absent},
      {"dead, start", here({"1=before", "stream"}), last, kKill, nothing, dead, 137},
      {"not started, call", here({"1=idle", "stream"}, kOperation), both, kNothing, not_called,
       late},
      {"stopped, call", here({"stream"}, by("shm")), both, kStop, silent, late},
      {"stopped, call by TCP", here({"stream"}, by("tcp")), both, kStop, silent, late},
      {"dead, call", here({"stream"}), both, kKill, nothing, dead, 137},
      {"not started, save", here({"1=idle", saves + "0"}, kOperation), both, kNothing, silent,
       late},
      {"stopped, save", here({saves + "1"}, kOperation), both, kStop, silent, late},
      {"dead, save", here({saves + "2"}), both, kKill, nothing, dead, 137},
      {"not started, end", here({"1=idle", "brief"}, kStopped), last, kNothing, runs_on, ended,
       kBySigterm},
      {"stopped, end", here({"1=idle", "brief"}, kStopped), last, kStop, stopped, ended,
       kBySigterm},
      {"dead, end", here({"1=idle", "brief"}), last, kKill, nothing, dead, 137},
      {"store dead, start", here({"1=before", "stream"}), last, kKillStore, nothing, nothing, 137},
      {"store dead, call", here({"stream"}), both, kKillStore, nothing, nothing, 137},
      {"store dead, save", here({saves + "3"}), both, kKillStore, nothing, nothing, 137},
      {"store dead, end", here({"1=idle", "brief"}), last, kKillStore, nothing, nothing, 137},
  });
}

TEST_F(WaitingTable, OfNodesAndAgents) {
  const auto on_all = [](int signal) {
    return [signal](const Scene& scene) { scene.signal_host_2(signal, ""); };
  };
  const auto on_agent = [](int signal) {
    return [signal](const Scene& scene) { scene.signal_host_2(signal, "--as-agent"); };
  };
  const auto cut = [](const Scene& scene) { scene.pull_cable(); };
  // A host that has lost its own cable cannot even put its bytes on the way.
  const auto cut_and_call_there = [](const Scene& scene) {
    scene.pull_cable();
    for (const std::size_t rank : {2U, 3U}) ::kill(scene.pids.at(rank), SIGUSR1);
  };
  const std::vector<int> all = {0, 1, 2, 3}, last = {2, 3};
  // In a call by this algorithm each rank waits for ranks 2 and 3 itself. In others rank 0 may wait
  // for rank 1, which waits for rank 3, and if rank 0 is the first to give up, it names rank 1.
  const std::vector<std::string> start = {"2=before", "3=before", "stream"},
                                 call = {"stream:direct"}, end = {"2=idle", "3=idle", "brief"};
  const std::string missing = "the start waits for.*missing: .*ranks 2, 3 \\(host",
                    absent = "rank 2 .*did not join within",
                    silent = "stall: for .* rank [01] waits in all_reduce.* ranks? [23]",
                    late = "failed timed out: deadline: rank [01] waits .* ranks? [23]",
                    no_answer = "the host of ranks? [0-3].* has not answered for",
                    silent_there = "stall: for .* rank [23] waits in all_reduce.*" + no_answer,
                    late_there = "failed timed out: deadline: rank [23] waits.*" + no_answer,
                    lost = "rank [23] .*failed first",
                    runs_on = "the end waits for .*rank.* 0.* ended; .*rank 2 .*; rank 3 ",
                    ended = "had to be stopped|could not be stopped in time", nothing;
  try_all({
      {"node stopped, start", there(start, kStart), last, on_all(SIGSTOP), missing, absent},
      {"node dead, start", there(start, kStart), last, on_all(SIGKILL), nothing, lost},
      {"node cut off, start", there(start, kStart), last, cut, missing, absent},
      {"node stopped, call", there(call, kOperation), all, on_all(SIGSTOP), silent, late},
      {"node dead, call", there(call, kOperation), all, on_all(SIGKILL), nothing, lost},
      {"node cut off, call", there(call, kOperation), all, cut, silent, no_answer},
      {"node cut off, call there alone", there({"later"}, kOperation), all, cut_and_call_there,
       silent_there, late_there},
      {"node stopped, end", there(end, kStopped), last, on_all(SIGSTOP), runs_on, ended,
       kBySigterm},
      {"node dead, end", there(end), last, on_all(SIGKILL), nothing, lost},
      {"node cut off, end", there(end, kStopped), last, cut, runs_on, ended, kBySigterm},
      {"agent dead, start", there(start, kStart), last, on_agent(SIGKILL), nothing, lost},
      {"agent dead, call", there(call, kOperation), all, on_agent(SIGKILL), nothing, lost},
      {"agent stopped, end", there(end, kStopped), last, on_agent(SIGSTOP), runs_on, ended,
       kBySigterm},
      {"agent dead, end", there(end), last, on_agent(SIGKILL), nothing, lost},
  });
}

// It waits for rank 1 alone, which is held so long: the launcher does not name it among those that
// are missing.
TEST_F(WaitingTable, OfAServerThatIsCutOffAtTheStart) {
  Process launcher(impatient(on_host_1(
      2, fmt::format("IFS=, read -r a b <<<\"$PACELINE_NET_HOSTS\"; exec {} run --hosts $a:2 "
                     "--servers 1 --server-hosts $b --ssh \"{} ssh\" {} -- {} 0=stream held",
                     binary("paceline"), hosts_script(), fmt::join(kStart, " "),
                     binary("waiting_worker")))));
  const auto net = net_of(launcher);
  ASSERT_TRUE(launcher.wait_for_output("[1] ready ", Deadline::in(30s))) << launcher.error();
  const pid_t held = told(launcher.output(), 1, "ready").value();
  const std::string job = variable_of(held, "PACELINE_JOB");
  ASSERT_TRUE(tells(launcher,
                    "the start waits for.*rank 0 has joined; missing: rank 1 [^;]*; the run fails",
                    Deadline::in(limit() + kReach)))
      << launcher.error();
  const Scene scene{launcher, net.at("PACELINE_NET"), net.at("last"), {held}};
  scene.pull_cable();
  const auto begin = Clock::now();
  scene.signal_last(SIGUSR1);
  EXPECT_TRUE(tells(launcher, "start: for .* rank 1 waits for server 0 to connect",
                    Deadline::at(begin + stall_time() + soon())))
      << launcher.error();
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(limit() + kReach + kEnd))), 1);
  EXPECT_TRUE(has_line(launcher.output() + launcher.error(), "server 0 has not connected within"))
      << launcher.output() << launcher.error();
  EXPECT_EQ(left_overs(job, {held}, Deadline::in(2s)), "");
}

// The launcher passes their lines on when it goes on.
TEST_F(WaitingTable, OfAStoreThatIsStoppedAtTheStart) {
  Process launcher(here({"held"}, {"--start-timeout", text_of(limit())}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  launcher.send(SIGSTOP);
  Scene{launcher, {}, {}, pids}.let_go();
  const Deadline deadline = Deadline::in(limit() + kEnd);
  while (std::ranges::any_of(pids, is_alive) && !deadline.passed())
    launcher.ends_unread(Deadline::in(10ms));
  EXPECT_FALSE(deadline.passed());
  launcher.send(SIGCONT);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(kEnd))), 1);
  EXPECT_TRUE(has_line(launcher.error(), "start: for .* rank 1 waits for")) << launcher.error();
  EXPECT_TRUE(has_line(launcher.output(), "\\[1\\] failed timed out")) << launcher.output();
  EXPECT_EQ(left_overs(job, pids, Deadline::in(2s)), "");
}

}  // namespace
}  // namespace paceline::test
