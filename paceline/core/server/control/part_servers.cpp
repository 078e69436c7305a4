#include "paceline/core/server/control/part_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace paceline::server {
namespace {

constexpr std::chrono::milliseconds kAfterMoved(10);

}  // namespace

bool PartServers::may_tell(int from, std::size_t part) const {
  return are_replicated() ? from != worker_ : from == first_of(parts_[part]);
}

void PartServers::send(int to, machine::Message message) {
  actions_.emplace_back(machine::Send{to, std::move(message)});
}

void PartServers::send_to_first(std::size_t part, machine::Message message) {
  if (!of(part).empty()) send(of(part).front(), std::move(message));
}

// --- what is sent again --------------------------------------------------------------------------

void PartServers::start(machine::Time now) {
  if (may_lose_messages())
    actions_.emplace_back(machine::Arm{options_.timer, now + options_.resend_after});
}

void PartServers::note_moved(std::size_t part, machine::Time now) {
  parts_[part].was_moved = true;
  if (!may_lose_messages()) actions_.emplace_back(machine::Arm{options_.timer, now + kAfterMoved});
}

std::vector<std::size_t> PartServers::begin_timer() {
  std::vector<std::size_t> again;
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (std::exchange(parts_[part].was_moved, false) || may_lose_messages()) again.push_back(part);
  return again;
}

void PartServers::end_timer(machine::Time now) {
  if (may_lose_messages() && done_) tell_done();
  start(now);
}

std::vector<std::size_t> PartServers::configure(const std::vector<Chain>& chains) {
  std::vector<std::size_t> again;
  for (std::size_t i = 0; i < std::min(chains.size(), chains_.size()); ++i) {
    if (chains[i].generation <= chains_[i].generation) continue;
    const bool is_same = chains_[i].servers == chains[i].servers;
    chains_[i] = chains[i];
    for (std::size_t part = 0; part < parts_.size() && !is_same; ++part)
      if (parts_[part].chain == i) of(part).empty() ? lose(part) : again.push_back(part);
  }
  return again;
}

void PartServers::tell_done(machine::Message done) {
  done_ = std::move(done);
  tell_done();
}

void PartServers::tell_done() {
  if (!are_replicated()) return;
  std::set<int> servers;
  for (const Chain& one : chains_) servers.insert(one.servers.begin(), one.servers.end());
  for (const int server : servers) send(server, *done_);
}

// --- what ends the table for this worker ---------------------------------------------------------

void PartServers::fail(Failure why) {
  if (!failure_) failure_ = std::move(why);
}

void PartServers::lose(std::size_t part) {
  const int first = first_of(parts_[part]);
  fail({Fault::peer_lost,
        fmt::format("all {} servers that kept {} {} of {} have ended; the first of them was member "
                    "{}",
                    replicas_, options_.part, part, options_.table, first),
        {first}});
}

void PartServers::on_lost(int peer) {
  if (are_replicated() || std::ranges::find(members_.servers, peer) == members_.servers.end())
    return;  // of several the chains tell
  fail({Fault::peer_lost,
        fmt::format("member {}, a server of {}, has ended while worker {} uses the table", peer,
                    options_.table, worker_),
        {peer}});
}

// --- for whom the worker waits -------------------------------------------------------------------

bool PartServers::note_asked(std::size_t part, bool is_owed) {
  parts_[part].missing.reset();
  return parts_[part].is_asked = is_owed;
}

void PartServers::note_missing(std::size_t part, std::uint64_t question,
                               std::vector<std::int32_t> members, std::string done) {
  if (parts_[part].is_asked && question == question_)
    parts_[part].missing = {std::move(members), std::move(done)};
}

bool PartServers::have_answered() const {
  return std::ranges::none_of(parts_, [](const Part& one) { return one.is_asked && !one.missing; });
}

bool PartServers::waits_for_nobody(std::size_t part) const {
  return parts_[part].missing && parts_[part].missing->members.empty();
}

void PartServers::tell_awaited(std::size_t part, coordination::Awaited& awaited) const {
  const Part& one = parts_[part];
  if (!one.is_asked) return;
  const int first = of(part).empty() ? first_of(one) : of(part).front();
  const int last = of(part).empty() ? first : of(part).back();
  if (!one.missing) awaited.is_silent(first);
  else if (waits_for_nobody(part) && last != first) awaited.is_silent(last);
  else if (waits_for_nobody(part)) awaited.answers(first);
  else
    for (const int member : one.missing->members) awaited.lacks(member, one.missing->done);
}

}  // namespace paceline::server
