// Makes the launcher's decisions: whether the run has failed, whom to tell, when to send which
// signal, when to give up.
//
// It is a state machine without clock, descriptor or process: it is told what happened and when,
// and answers with actions, which run_job.cpp carries out. Its times (docs/guide/launch.md):
//
//   first failure ----- grace (1.0 s) ----- SIGTERM -- 0.4 s -- kill -- 0.4 s -- the launcher ends
//     verdict to all: they throw, tell and end
//   SIGINT, SIGTERM, SIGHUP, SIGQUIT: forwarded; stop_grace (30 s), or a second one: kill
//   a rank ends with code 143, as a program does that saved and stopped after SIGTERM: the others
//     get SIGTERM too; stop_grace: kill
//   a rank ends with code 0 while others wait for it, without having joined them or without having
//     ended its Job: a failure as any other
//   --timeout: SIGTERM, so that the ranks save; stop_grace: kill
//   all ranks have ended well: servers that have not ended with them get server_grace (10 s); kill.
//     The run has failed because of them. Where no rank had joined the job they get grace, and it
//     has not
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/app/launch/ending/root_cause.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

struct Action {
  enum class Kind {
    tell,     // the verdict, to every worker, through the store
    forward,  // the signal, to the process group of every worker
    kill      // everything that is left
  } kind = Kind::kill;
  int signal = 0;
  Failure verdict = {};
  bool operator==(const Action&) const = default;
};
Action tell(Failure verdict);
Action forward(int signal);
Action kill();
using Actions = std::vector<Action>;

// Why a run ended. `detail`: the signal of `interrupted`, errno of `output_lost`.
struct Outcome {
  enum class Kind { done, failed, interrupted, timed_out, output_lost } kind = Kind::done;
  int detail = 0;
  int exit_code = 0;
  std::optional<int> root = {};  // failed: the rank that failed first
  bool operator==(const Outcome&) const = default;
};

inline constexpr int kTimedOut = 124;  // exit code, as timeout(1)'s

class Supervisor {
 public:
  using Moment = Clock::time_point;

  struct Options {
    int world_size = 1;
    int servers = 0;  // beside the ranks; their numbers follow
    Clock::duration grace = std::chrono::seconds(1);
    // Servers have this time after all ranks have ended well: large tables take long to free.
    Clock::duration server_grace = std::chrono::seconds(10);
    Clock::duration stop_grace = std::chrono::seconds(30);
    Deadline timeout_at = {};  // of the whole run
  };
  static constexpr auto kKillAfterTerm = std::chrono::milliseconds(400);
  static constexpr auto kEndAfterKill = std::chrono::milliseconds(400);
  // A rank reports through the store why it fails, and then ends; the launcher may read the two in
  // either order. The verdict waits this long for the report.
  static constexpr auto kReportPatience = std::chrono::milliseconds(20);
  // A rank that failed because of another one often ends first. The verdict waits this long for
  // that other rank's own end.
  static constexpr auto kVerdictPatience = std::chrono::milliseconds(200);

  explicit Supervisor(Options options);

  void on_host(int rank, std::string host) { record(rank).host = std::move(host); }

  void on_started(int rank, int pid);
  [[nodiscard]] Actions on_not_started(int rank, std::string why, Moment stamp);
  [[nodiscard]] Actions on_lost(int rank, std::string why, Moment now);  // its host was lost
  [[nodiscard]] Actions on_exit(int rank, int wait_status, Moment stamp);
  [[nodiscard]] Actions on_report(int rank, Failure failure, Moment now);
  [[nodiscard]] Actions on_joined(int rank, Moment now);
  void on_left(int rank);
  void on_linked(int member);
  // A server has ended, and others have all that it had (successions.h). `not_started`: why it did
  // not begin, if it did not.
  void on_borne_exit(int server, int wait_status, Moment stamp, std::string not_started = {});
  // A server is started in the place of another one, on `host`. Returns its number, after all.
  int add_server(std::string host);
  // The run cannot begin without it, and has waited long enough.
  [[nodiscard]] Actions on_absent(int rank, std::string why, Moment now);
  [[nodiscard]] Actions on_signal(int number, Moment now);
  [[nodiscard]] Actions on_output_lost(int error_number, Moment now);
  [[nodiscard]] Actions on_timer(Moment now);

  Deadline next_timer() const;
  bool all_ended() const { return running_ == 0; }
  bool settled() const;                        // all have ended, and their reports are read
  Deadline end_by() const { return end_by_; }  // no limit, unless the run was stopped

  bool is_well() const { return !why_; }  // nothing has failed or stopped the run
  bool has_ranks() const { return running_ranks_ > 0; }
  Outcome outcome() const;
  const std::vector<RankRecord>& records() const { return records_; }

 private:
  RankRecord& record(int rank) { return records_.at(static_cast<std::size_t>(rank)); }
  Actions verdict_if_known(Moment now);
  void find_deserters(Moment now);
  void fail(Moment when);
  void stop(Outcome why, Moment now, Clock::duration until_kill);
  void kill_at(Moment when);
  void look_at_servers(Moment when);
  bool has_joined_ranks() const;
  void note_servers_that_stay(Moment now);

  Options options_;
  std::vector<RankRecord> records_;
  int running_, running_ranks_;  // the latter without servers
  std::optional<Outcome> why_;   // empty while all is well
  bool told_ = false;
  std::optional<Moment> stop_asked_;  // a rank that ends later than this was stopped
  Deadline reports_by_, verdict_at_, term_at_, kill_at_, end_by_;
};

}  // namespace paceline::launch
