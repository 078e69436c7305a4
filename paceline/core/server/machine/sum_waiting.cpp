// How a worker waits for sums: it asks the servers whom they wait for when that takes long, tells
// it at the stall time, and fails with it at the deadline.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/membership/handshake/member_name.h"
#include "paceline/core/server/machine/sum_worker.h"

namespace paceline::server {

using machine::Actions;
using machine::Time;

std::string describe(const SumCall& call) {
  return fmt::format("push_pull of {} {} for {}", call.input.count, name_of(call.input.dtype),
                     name_of(call.op));
}

auto SumWorker::oldest() const -> std::map<Key, Open>::const_iterator {
  return std::ranges::min_element(open_, {}, [](const auto& one) { return one.second.until; });
}

// All open calls share one timer. When it fires it does what is due, and it is set again while any
// call is open.
Actions SumWorker::on_timer(std::uint32_t, Time now) {
  const auto first = oldest();
  is_armed_ = first != open_.end();
  if (!is_armed_) return {};
  if (first->second.until <= now) {
    fail(deadline_failure());
    return {};
  }
  Actions actions;
  const bool is_quiet = !is_told_ && now >= quiet_since_ + patience_.stall;
  if (now >= first->second.until - coordination::answers_within(patience_.timeout)) {
    if (question_.why != Asked::to_fail) actions = ask(first->first, Asked::to_fail, now);
  } else if (is_quiet && question_.why == Asked::no) {
    actions = ask(first->first, Asked::to_tell, now);
  } else if (is_quiet && now >= question_.until) {
    tell_stall();
  }
  actions.push_back(machine::Arm{0, next_look()});
  return actions;
}

Time SumWorker::next_look() const {
  const Time until = oldest()->second.until;
  Time next = until;
  if (question_.why != Asked::to_fail)
    next = std::min(next, until - coordination::answers_within(patience_.timeout));
  if (!is_told_ && question_.why == Asked::no)
    next = std::min(next, quiet_since_ + patience_.stall);
  if (!is_told_ && question_.why == Asked::to_tell) next = std::min(next, question_.until);
  return next;
}

Actions SumWorker::ask(const Key& call, Asked why, Time now) {
  question_ = {
      .call = call, .why = why, .until = now + coordination::answers_within(patience_.timeout)};
  if (patience_.asked) patience_.asked();
  Actions actions;
  for (std::size_t server = 0; server < sides_.size(); ++server) {
    const auto queue = sides_[server].find(call.first);
    if (queue == sides_[server].end() || !queue->second.pushed.has_parts_of(call.second)) continue;
    const int member = first_ + static_cast<int>(server);
    question_.asked.insert(member);
    const MissingParts asked = {call.first, call.second, {}};
    actions.push_back(machine::Send{member, encode(SumKind::ask, asked)});
  }
  return actions;
}

void SumWorker::take_missing(int server, const machine::Message& message) {
  auto missing = parse_missing_parts(message);
  if (!missing || question_.call != Key(missing->channel, missing->call)) return;
  question_.lacking[server] = std::move(missing->workers);
  if (question_.why == Asked::to_tell && !is_told_ && has_heard()) tell_stall();
}

bool SumWorker::has_heard() const {
  return std::ranges::all_of(question_.asked,
                             [&](int server) { return question_.lacking.contains(server); });
}

void SumWorker::note_movement(Time now) {
  quiet_since_ = now;
  is_told_ = false;
  question_ = {};
}

void SumWorker::tell_stall() {
  is_told_ = true;
  if (patience_.tell) patience_.tell(coordination::stall_text(patience_.stall, waits()));
}

coordination::Awaited SumWorker::awaited() const {
  coordination::Awaited awaited;
  for (const int server : question_.asked) {
    const auto lacking = question_.lacking.find(server);
    if (lacking == question_.lacking.end()) awaited.is_silent(server);
    else if (lacking->second.empty()) awaited.answers(server);
    else
      for (const int worker : lacking->second) awaited.lacks(worker, "pushed all of it");
  }
  if (patience_.excuse) patience_.excuse(awaited);
  return awaited;
}

std::string SumWorker::waits() const {
  return fmt::format("{} waits in {} for {}", membership::member_name(patience_.rank, first_),
                     describe(oldest()->second.call), awaited().text(first_));
}

Failure SumWorker::deadline_failure() const {
  return coordination::deadline_failure(waits(), awaited(), first_);
}

}  // namespace paceline::server
