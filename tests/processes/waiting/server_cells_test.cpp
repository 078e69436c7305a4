// Waits of tables and sums on servers: {rank, server} x {stopped, dead, cut off} x {push, pull,
// save, end}, and the making of a table and sums besides. What happens to a server at the start
// stands among the waits of others (tests/net/waiting_table_test.cpp), but that it is not started:
// HangingSsh (tests/processes/run_start_test.cpp) shows that.
#include "tests/processes/waiting/cells.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kPlaces = {"push", "pull", "save", "end"};

// A rank that has not ended may go on for as long as it likes: the run's own time is its deadline.
bool outlasts_operations(const Cell& cell) {
  return cell.victim == "rank" && cell.place == "end" && cell.how != "dead";
}

// It counts from the start of the launcher, so it must hold the start too.
std::chrono::milliseconds time_of_run() {
  return is_nightly() ? 25s : 10s;
}

// The options of a run of two workers and a server, which its operation timeout ends.
std::vector<std::string> options_of(const Cell& cell) {
  std::vector<std::string> options = {"--operation-timeout",
                                      fmt::format("{}ms", cell_timeout().count()),
                                      "--grace",
                                      "300ms",
                                      "--stop-grace",
                                      "300ms"};
  if (outlasts_operations(cell))
    options.insert(options.end(), {"--timeout", fmt::format("{}ms", time_of_run().count())});
  return options;
}

std::string wait_in(const Cell& cell) {
  if (cell.place == "end" && cell.victim == "rank") return "the end of the job";
  if (cell.place == "end") return "the end of table 'w'";
  if (cell.place == "make") return "the making of table 'v'";
  if (cell.place == "sum") return "push_pull of 4 f32 for sum";
  return fmt::format("{} of table 'w'", cell.place == "save" ? "quiesce" : cell.place);
}

std::string wait_for(const Cell& cell) {
  if (cell.victim == "server") return "server 0, which does not answer";
  if (cell.place == "end") return "rank 1, which has not ended its Job, as rank 0 did";
  if (cell.place == "save") return "rank 1, which has not quiesced";
  if (cell.place == "make") return "rank 1, which has not made it";
  if (cell.place == "sum") return "rank 1, which has not pushed all of it";
  return "rank 1, which has not pushed at clock 0";
}

// "rank 0 waits in push of table 'w' for rank 1, which ..".
std::string words_of(const Cell& cell, int waiter) {
  const bool by_server = cell.victim == "rank" && cell.place == "end";
  return fmt::format("{} waits in {} for {}",
                     by_server ? "server 0" : fmt::format("rank {}", waiter), wait_in(cell),
                     wait_for(cell));
}

// The members of one run, when both workers are held.
struct Members {
  std::string job;
  std::vector<pid_t> workers;
  pid_t server = 0;

  explicit Members(Process& launcher) {
    workers = ready(launcher, 2, Deadline::in(20s));
    if (workers.size() != 2) return;
    job = variable_of(workers[0], "PACELINE_JOB");
    for (const pid_t pid : processes_of_job(job))
      if (variable_of(pid, "PACELINE_SERVER_INDEX") == "0") server = pid;
  }
  pid_t victim(const Cell& cell) const { return cell.victim == "rank" ? workers[1] : server; }
  std::vector<pid_t> all() const { return {workers[0], workers[1], server}; }
};

void expect_line(const Cell& cell, Process& launcher, Clock::time_point begin) {
  const std::string line =
      fmt::format("paceline: stall: for {:g} s {}\n",
                  std::chrono::duration<double>(cell_stall()).count(), words_of(cell, 0));
  EXPECT_TRUE(launcher.wait_for_error(line, Deadline::at(begin + cell_stall() + prompt())))
      << line << launcher.error() << launcher.output();
}

void expect_end_by_death(const Cell& cell, Process& launcher, Clock::time_point begin) {
  const std::string name = cell.victim == "rank" ? "rank 1" : "server 0";
  EXPECT_TRUE(launcher.wait_for_error(fmt::format("paceline: {} (pid ", name),
                                      Deadline::at(begin + cell_stall() + prompt())));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 137) << launcher.error();
  EXPECT_THAT(launcher.error(), HasSubstr("failed first: it was killed by signal 9 (SIGKILL)"));
  if (cell.place == "end") return;  // nobody needs it any more
  EXPECT_THAT(launcher.output(), HasSubstr("[0] failed peer lost: ")) << launcher.error();
  EXPECT_THAT(launcher.output(), AnyOf(HasSubstr(name + " was lost"), HasSubstr(name + " (pid ")));
}

// The verdict has the words, or where a table ends without a failure, its worker. A server that has
// not ended with its table then fails the run.
void expect_end_by_deadline(const Cell& cell, Process& launcher, Clock::time_point begin) {
  const auto due = begin + cell_timeout() + prompt();
  if (cell.place == "end") {
    EXPECT_TRUE(launcher.wait_for_error("deadline: ", Deadline::at(due))) << launcher.error();
  } else {
    EXPECT_TRUE(launcher.wait_for_output("deadline: ", Deadline::at(due))) << launcher.output();
    // The others have their grace; who cannot reach a member tries for a second to say goodbye.
    const auto end = due + 700ms + (cell.how == "cut off" ? 1000ms : 0ms);
    EXPECT_TRUE(launcher.wait_for_error("paceline: exit code 1", Deadline::at(end)))
        << launcher.error();
    EXPECT_THAT(launcher.error(), HasSubstr(" told: deadline: "));
  }
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 1);
  if (cell.place == "end") {  // the ranks have ended well
    EXPECT_THAT(launcher.error(),
                AllOf(HasSubstr("paceline: server 0 (pid "),
                      HasSubstr("failed first: it had not ended when all ranks had, and ")));
  }
  EXPECT_THAT(launcher.error(), AnyOf(HasSubstr("deadline: " + words_of(cell, 0) + "; look at "),
                                      HasSubstr("deadline: " + words_of(cell, 1) + "; look at ")));
}

// A connection that is cut off breaks by itself after some 20 s: at night that is before --timeout.
void expect_end_by_timeout(const Cell& cell, Process& launcher) {
  const int code = exit_code(launcher.wait(Deadline::in(time_of_run() + 10s)));
  if (is_nightly() && cell.how == "cut off" && code == 1) {
    EXPECT_THAT(launcher.error(), HasSubstr("rank 1 was lost: the connection broke"));
    return;
  }
  EXPECT_EQ(code, 124);
  EXPECT_THAT(launcher.error(), HasSubstr("the run was stopped: --timeout has passed"));
  EXPECT_THAT(launcher.error(), HasSubstr("rank 1 had to be stopped"));
}

// Lets the others go on, which come to wait for the victim; looks at what they say and the end.
void expect_law(const Cell& cell, Process& launcher, const Members& members) {
  const auto begin = Clock::now();
  for (const pid_t worker : members.workers)
    if (worker != members.victim(cell)) ::kill(worker, SIGUSR1);
  if (cell.how == "dead") return expect_end_by_death(cell, launcher, begin);
  expect_line(cell, launcher, begin);
  if (outlasts_operations(cell)) return expect_end_by_timeout(cell, launcher);
  expect_end_by_deadline(cell, launcher, begin);
}

void run_on_one_host(const Cell& cell) {
  std::vector<std::string> options = {"-n", "2", "--servers", "1"};
  const std::vector<std::string> more = options_of(cell);
  options.insert(options.end(), more.begin(), more.end());
  ProcessOptions run = paceline_run(options, {binary("held_worker"), cell.place});
  run.environment["PACELINE_STALL_TIME"] = fmt::format("{}ms", cell_stall().count());
  Process launcher(run);
  const Members members(launcher);
  ASSERT_GT(members.server, 0) << launcher.error();
  ::kill(members.victim(cell), cell.how == "dead" ? SIGKILL : SIGSTOP);
  expect_law(cell, launcher, members);
  EXPECT_THAT(left_overs(members.job, members.all(), Deadline::in(prompt())), IsEmpty());
}

TEST(ServerCells, WhoeverWaitsForOneThatIsStoppedOrDeadNamesItInTimeAndEndsAndNothingStays) {
  auto places = kPlaces;
  places.insert(places.end(), {"make", "sum"});
  run_cells(cells_of({"rank", "server"}, {"stopped", "dead"}, places), run_on_one_host);
}

class ServerCellsOnHosts : public SeveralHosts {
 protected:
  // The victim has the second host for itself.
  static ProcessOptions run_of(const Cell& cell) {
    const std::string placed = cell.victim == "rank" ? "--hosts $a,$b --server-hosts $a"
                                                     : "--hosts $a:2 --server-hosts $b";
    ProcessOptions run = on_host_1(
        2, fmt::format("IFS=, read -r a b <<<\"$PACELINE_NET_HOSTS\"; {} run {} --servers 1 --ssh "
                       "\"{} ssh\" {} -- {} {}",
                       binary("paceline"), placed, hosts_script(), fmt::join(options_of(cell), " "),
                       binary("held_worker"), cell.place));
    run.environment["PACELINE_STALL_TIME"] = fmt::format("{}ms", cell_stall().count());
    return run;
  }
};

TEST_F(ServerCellsOnHosts, WhoeverWaitsForOneThatIsCutOffNamesItInTimeAndEndsAndNothingStays) {
  run_cells(cells_of({"rank", "server"}, {"cut off"}, kPlaces), [](const Cell& cell) {
    Process launcher(run_of(cell));
    const auto net = net_of(launcher);
    const Members members(launcher);
    ASSERT_GT(members.server, 0) << launcher.error();
    ASSERT_EQ(run({.command = {hosts_script(), "link", net.at("last"), "down"},
                   .environment = {{"PACELINE_NET", net.at("PACELINE_NET")}}})
                  .exit_code,
              0);
    expect_law(cell, launcher, members);
    EXPECT_THAT(left_overs(members.job, members.all(), Deadline::in(prompt())), IsEmpty());
  });
}

}  // namespace
}  // namespace paceline::test
