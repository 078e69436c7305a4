#include "paceline/core/server/control/controller.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace paceline::server {

using machine::Actions;

Controller::Controller(std::vector<Chain> chains, int replicas, const std::set<int>& members,
                       const std::set<int>& servers, machine::Time say_again_after)
    : chains_(std::move(chains)),
      replicas_(static_cast<std::size_t>(replicas)),
      members_(members),
      servers_(servers),
      say_again_after_(say_again_after) {
  for (const Chain& chain : chains_)
    ready_.emplace_back(chain.servers.begin(), chain.servers.end());
}

bool Controller::may_lose(int server) const {
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    std::set<int> others = ready_[i];
    others.erase(server);
    std::erase_if(others, [&](int other) { return is_leaving(i, other); });
    if (others.empty()) return false;
  }
  return true;
}

bool Controller::is_ready(int server) const {
  if (!servers_.contains(server)) return false;
  bool is_in_one = false;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    const bool is_in = chains_[i].has(server);
    if (chains_[i].joiner == server || (is_in && !ready_[i].contains(server))) return false;
    is_in_one |= is_in;
  }
  return is_in_one || is_whole();
}

bool Controller::is_whole() const {
  for (std::size_t i = 0; i < chains_.size(); ++i)
    if (chains_[i].servers.size() != replicas_ || ready_[i].size() != replicas_ ||
        chains_[i].joiner)
      return false;
  return true;
}

Actions Controller::tell() const {
  Actions actions;
  const machine::Message message{.kind = static_cast<std::uint32_t>(ControlKind::chains),
                                 .payload = encode(chains_)};
  for (const int member : members_) actions.emplace_back(machine::Send{member, message});
  return actions;
}

Actions Controller::start(machine::Time now) {
  return {machine::Arm{0, now + say_again_after_}};
}

Actions Controller::on_timer(std::uint32_t, machine::Time now) {
  Actions actions = tell();
  actions.emplace_back(machine::Arm{0, now + say_again_after_});
  return actions;
}

// One that ends before it has come leaves its place to the next, or to those that are there.
Actions Controller::died(int server, bool is_replaced) {
  members_.erase(server);
  const bool had_come = servers_.erase(server) > 0;
  if (!had_come && coming_ > 0) --coming_;
  if (is_replaced) ++coming_;
  if (!had_come) {
    fill_chains();
    return tell();
  }
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    const Chain& chain = chains_[i];
    if (!chain.has(server) && chain.joiner != server) continue;
    std::vector<int> servers = chain.servers;
    std::erase(servers, server);
    ready_[i].erase(server);
    if (is_leaving(i, server)) leaving_.erase(i);
    if (ready_[i].empty()) {
      if (!lost_) lost_ = Lost{i, {chain.servers.begin(), chain.servers.end()}};
      servers.clear();
    }
    change(i, std::move(servers), chain.joiner == server ? std::nullopt : chain.joiner);
  }
  return tell();
}

Actions Controller::came(int server) {
  members_.insert(server);
  servers_.insert(server);
  if (coming_ > 0) --coming_;
  fill_chains();
  return tell();
}

void Controller::fill_chains() {
  for (std::size_t i = 0; i < chains_.size(); ++i)
    if (chains_[i].servers.size() < replicas_ && !chains_[i].joiner)
      change(i, chains_[i].servers, std::nullopt);
}

Actions Controller::welcome(int member) {
  members_.insert(member);
  return {machine::Send{
      member,
      {.kind = static_cast<std::uint32_t>(ControlKind::chains), .payload = encode(chains_)}}};
}

Actions Controller::move(std::size_t chain, int server) {
  if (leaving_.contains(chain) || chains_[chain].joiner || !chains_[chain].has(server)) return {};
  leaving_[chain] = server;
  change(chain, chains_[chain].servers, std::nullopt);
  return tell();
}

std::optional<int> Controller::spare_for(std::size_t chain, const std::vector<int>& servers) const {
  std::map<int, int> load;
  for (const Chain& one : chains_) {
    for (const int server : one.servers) ++load[server];
    if (one.joiner) ++load[*one.joiner];
  }
  std::optional<int> best;
  for (const int server : servers_) {
    if (is_leaving(chain, server) || std::ranges::find(servers, server) != servers.end()) continue;
    // Each server has as many places as there are replicas; who comes takes the others.
    if (coming_ > 0 && load[server] >= static_cast<int>(replicas_)) continue;
    if (!best || load[server] < load[*best]) best = server;
  }
  return best;
}

// A lost chain stays lost: a new server would begin with zeros.
void Controller::change(std::size_t chain, std::vector<int> servers, std::optional<int> joiner) {
  const std::size_t wanted = replicas_ + (leaving_.contains(chain) ? 1 : 0);
  if (servers.empty()) joiner.reset();
  else if (!joiner && servers.size() < wanted) joiner = spare_for(chain, servers);
  chains_[chain] = {chains_[chain].generation + 1, std::move(servers), joiner};
}

Actions Controller::on_message(int from, const machine::Message& message, machine::Time) {
  if (message.kind != static_cast<std::uint32_t>(ControlKind::report)) return {};
  const auto report = parse_chain_report(message);
  if (!report || report->chain >= chains_.size()) return {};
  const std::size_t number = report->chain;
  const Chain& chain = chains_[number];
  if (report->generation != chain.generation || !chain.has(from)) return {};
  if (report->has_caught_up && chain.joiner && chain.is_tail(from)) {
    std::vector<int> servers = chain.servers;
    servers.push_back(*chain.joiner);
    if (report->is_ready) ready_[number].insert(from);
    change(number, std::move(servers), std::nullopt);
    return tell();
  }
  if (!report->is_ready || !ready_[number].insert(from).second) return {};
  const std::uint64_t before = chain.generation;
  end_move(number, from);
  return chains_[number].generation == before ? Actions{} : tell();
}

void Controller::end_move(std::size_t chain, int ready) {
  const auto leaving = leaving_.find(chain);
  const Chain& now = chains_[chain];
  if (leaving == leaving_.end() || !now.is_tail(ready) || leaving->second == ready ||
      now.servers.size() <= replicas_ || !now.has(leaving->second))
    return;
  std::vector<int> servers = now.servers;
  std::erase(servers, leaving->second);
  ready_[chain].erase(leaving->second);
  leaving_.erase(leaving);
  change(chain, std::move(servers), now.joiner);
}

}  // namespace paceline::server
