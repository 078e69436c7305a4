#include "paceline/app/launch/ending/supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "paceline/app/launch/ending/ending.h"

namespace paceline::launch {
namespace {

constexpr int kExitOne = 1 << 8;  // exit code 1 as a wait status
constexpr int kStoppedBySigterm = 128 + SIGTERM;

}  // namespace

Action tell(Failure verdict) {
  return {.kind = Action::Kind::tell, .verdict = std::move(verdict)};
}
Action forward(int signal) {
  return {.kind = Action::Kind::forward, .signal = signal};
}
Action kill() {
  return {.kind = Action::Kind::kill};
}

Supervisor::Supervisor(Options options)
    : options_(std::move(options)),
      records_(static_cast<std::size_t>(options_.world_size + options_.servers)),
      running_(options_.world_size + options_.servers),
      running_ranks_(options_.world_size) {
  for (int server = 0; server < options_.servers; ++server)
    record(options_.world_size + server).server = server;
}

void Supervisor::on_started(int rank, int pid) {
  record(rank).pid = pid;
}

Actions Supervisor::on_not_started(int rank, std::string why, Moment stamp) {
  record(rank).not_started = std::move(why);
  return on_exit(rank, kExitOne, stamp);
}

Actions Supervisor::on_lost(int rank, std::string why, Moment now) {
  if (record(rank).ended()) return {};
  record(rank).lost = std::move(why);
  return on_exit(rank, kExitOne, now);
}

Actions Supervisor::on_exit(int rank, int wait_status, Moment stamp) {
  RankRecord& ended = record(rank);
  if (ended.ended()) return {};
  ended.wait_status = wait_status;
  ended.stamp = stamp;
  ended.stopped = stop_asked_ && stamp >= *stop_asked_;
  --running_;
  if (!ended.server) --running_ranks_;
  if (ended.failed() && !ended.stayed && !why_) {
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kStoppedBySigterm) {
      ended.stopped = true;
      stop({.kind = Outcome::Kind::interrupted, .detail = SIGTERM, .exit_code = kStoppedBySigterm},
           stamp, options_.stop_grace);
      return {forward(SIGTERM)};
    }
    fail(stamp);
  }
  find_deserters(stamp);
  if (!why_) look_at_servers(stamp);
  return verdict_if_known(stamp);
}

void Supervisor::on_borne_exit(int server, int wait_status, Moment stamp, std::string not_started) {
  RankRecord& ended = record(server);
  if (ended.ended()) return;
  ended.wait_status = wait_status;
  ended.stamp = stamp;
  ended.not_started = std::move(not_started);
  ended.borne = true;
  --running_;
  if (!why_) look_at_servers(stamp);
}

int Supervisor::add_server(std::string host) {
  const int member = static_cast<int>(records_.size());
  records_.push_back(
      {.late = true, .host = std::move(host), .server = member - options_.world_size});
  ++running_;
  return member;
}

// Servers end when all ranks have left. One that waits for ranks that never joined does not.
void Supervisor::look_at_servers(Moment when) {
  if (running_ranks_ > 0 || options_.servers == 0) return;
  if (all_ended()) kill_at_ = end_by_ = {};
  else if (end_by_.is_never())
    kill_at(when + (has_joined_ranks() ? options_.server_grace : options_.grace));
}

bool Supervisor::has_joined_ranks() const {
  return std::ranges::any_of(records_, [](const auto& one) { return one.joined && !one.server; });
}

// It is no failure where no rank has joined the job: they wait for ranks that never come.
void Supervisor::note_servers_that_stay(Moment now) {
  if (!has_joined_ranks()) return;
  for (RankRecord& one : records_) {
    if (!one.server || one.ended()) continue;
    one.stayed = true;
    one.stamp = now;
  }
}

// Others may tell only after its end that they waited for a rank.
void Supervisor::find_deserters(Moment now) {
  for (int rank = 0; rank < static_cast<int>(records_.size()); ++rank) {
    RankRecord& one = record(rank);
    if (!one.deserted.empty()) continue;
    one.deserted = desertion(rank, records_);
    if (!one.deserted.empty() && !why_) fail(now);
  }
}

Actions Supervisor::on_report(int rank, Failure failure, Moment now) {
  if (rank < 0 || rank >= static_cast<int>(records_.size())) return {};
  RankRecord& one = record(rank);
  if (!one.report) one.report = std::move(failure);  // the first is nearest to the cause
  // Others have heard it too, and end: it was no death that they bear.
  if (one.borne && one.linked) {
    one.borne = false;
    if (!why_) fail(now);
  }
  find_deserters(now);
  return {};
}

Actions Supervisor::on_joined(int rank, Moment now) {
  if (rank < 0 || rank >= static_cast<int>(records_.size())) return {};
  record(rank).joined = true;
  find_deserters(now);
  return verdict_if_known(now);
}

void Supervisor::on_left(int rank) {
  if (rank >= 0 && rank < static_cast<int>(records_.size())) record(rank).left = true;
}

void Supervisor::on_linked(int member) {
  if (member >= 0 && member < static_cast<int>(records_.size())) record(member).linked = true;
}

Actions Supervisor::on_absent(int rank, std::string why, Moment now) {
  if (record(rank).ended()) return {};
  record(rank).absent = std::move(why);
  return on_exit(rank, kExitOne, now);
}

Actions Supervisor::on_signal(int number, Moment now) {
  if (number == SIGUSR1 || number == SIGUSR2 || number == SIGTSTP || number == SIGCONT)
    return {forward(number)};
  const bool again = why_.has_value();
  if (!again) {
    const Clock::duration until_kill = all_ended() ? Clock::duration::zero() : options_.stop_grace;
    stop({.kind = Outcome::Kind::interrupted, .detail = number, .exit_code = 128 + number}, now,
         until_kill);
    return {forward(number)};
  }
  kill_at(now);
  return on_timer(now);
}

Actions Supervisor::on_output_lost(int error_number, Moment now) {
  if (why_) return {};
  const int code = error_number == EPIPE ? 128 + SIGPIPE : 1;
  stop({.kind = Outcome::Kind::output_lost, .detail = error_number, .exit_code = code}, now,
       options_.grace);
  return {tell({Fault::cancelled,
                "the run was stopped: the launcher's output cannot be written any more",
                {}}),
          forward(SIGTERM)};
}

Actions Supervisor::on_timer(Moment now) {
  Actions actions = verdict_if_known(now);
  if (!why_ && !all_ended() && options_.timeout_at.passed(now)) {
    // No verdict: ranks that were told one could not agree on a save any more.
    stop({.kind = Outcome::Kind::timed_out, .exit_code = kTimedOut}, now, options_.stop_grace);
    actions.push_back(forward(SIGTERM));
  }
  if (term_at_.passed(now)) {
    term_at_ = {};
    if (!stop_asked_) stop_asked_ = now;
    actions.push_back(forward(SIGTERM));
  }
  if (kill_at_.passed(now)) {
    if (!why_) note_servers_that_stay(now);
    kill_at_ = term_at_ = {};
    if (!stop_asked_) stop_asked_ = now;
    actions.push_back(kill());
  }
  return actions;
}

Deadline Supervisor::next_timer() const {
  const Deadline timeout = why_ || all_ended() ? Deadline::never() : options_.timeout_at;
  return timeout.sooner(reports_by_)
      .sooner(verdict_at_)
      .sooner(term_at_)
      .sooner(kill_at_)
      .sooner(end_by_);
}

bool Supervisor::settled() const {
  return all_ended() && (!why_ || why_->kind != Outcome::Kind::failed || told_);
}

Outcome Supervisor::outcome() const {
  const bool stays = std::ranges::any_of(records_, &RankRecord::overstayed);
  Outcome result =
      why_.value_or(Outcome{.kind = stays ? Outcome::Kind::failed : Outcome::Kind::done});
  if (result.kind == Outcome::Kind::failed) {
    result.root = find_root_cause(records_);
    const RankRecord& first = records_.at(static_cast<std::size_t>(*result.root));
    const int code = first.overstayed() ? 1 : exit_code_of(*first.wait_status);
    result.exit_code = code == 0 ? 1 : code;  // it deserted
  }
  return result;
}

Actions Supervisor::verdict_if_known(Moment now) {
  if (!why_ || why_->kind != Outcome::Kind::failed || told_) return {};
  if (reports_by_.passed(now)) reports_by_ = {};
  const int root = *find_root_cause(records_);
  const bool may_still_report = !record(root).report && !reports_by_.is_never();
  const bool known = !may_still_report && !awaits_root_cause(records_);
  if (!known && !verdict_at_.passed(now)) return {};
  told_ = true;
  reports_by_ = verdict_at_ = {};
  return {tell(verdict_about(root, records_))};
}

void Supervisor::fail(Moment when) {
  why_ = Outcome{.kind = Outcome::Kind::failed};
  reports_by_ = Deadline::at(when + kReportPatience);
  verdict_at_ = Deadline::at(when + kVerdictPatience);
  term_at_ = Deadline::at(when + options_.grace);
  kill_at(when + options_.grace + kKillAfterTerm);
}

void Supervisor::stop(Outcome why, Moment now, Clock::duration until_kill) {
  why_ = why;
  stop_asked_ = now;
  kill_at(now + until_kill);
}

void Supervisor::kill_at(Moment when) {
  kill_at_ = Deadline::at(when);
  end_by_ = Deadline::at(when + kEndAfterKill);
}

}  // namespace paceline::launch
