#include "paceline/core/server/served_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/job/job_links.h"

namespace paceline::server {

ServedChains::ServedChains(Job& job, const TableMembers& members, int own)
    : job_(job),
      own_(own),
      chains_(first_chains(members.servers, job::replicas_of(job))),
      watch_(job, [this](Bytes chains) { hear(chains); }) {}

void ServedChains::hear(Bytes bytes) {
  auto chains = parse_chains(bytes);
  const std::lock_guard lock(mutex_);
  if (!chains || chains->size() != chains_.size()) return;
  chains_ = *std::move(chains);
  has_changed_ = true;
  job::links_of(job_).reactor->note_completion();
}

std::vector<Chain> ServedChains::now() const {
  const std::lock_guard lock(mutex_);
  return chains_;
}

bool ServedChains::have_changed() const {
  const std::lock_guard lock(mutex_);
  return has_changed_;
}

std::optional<std::vector<std::byte>> ServedChains::take_change() {
  const std::lock_guard lock(mutex_);
  return std::exchange(has_changed_, false) ? std::optional(encode(chains_)) : std::nullopt;
}

std::string ServedChains::places() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const ChainReport& report : reported_) {
    const std::vector<int>& servers = chains_[report.chain].servers;
    const auto own = std::ranges::find(servers, own_);
    if (own == servers.end()) continue;
    all += fmt::format("{}{} ({} of {}{})", all.empty() ? "" : ", ", report.chain,
                       own - servers.begin() + 1, servers.size(),
                       report.is_ready ? "" : ", not ready");
  }
  return all;
}

// A table that has not heard of the newest chain yet says so by the generation of its report.
void ServedChains::report(const std::vector<std::vector<ChainReport>>& of_tables) {
  std::vector<ChainReport> reports;
  const std::vector<Chain> chains = now();
  for (std::uint32_t i = 0; i < chains.size(); ++i) {
    if (!chains[i].has(own_)) continue;
    ChainReport all{i, chains[i].generation, true, chains[i].joiner.has_value()};
    for (const auto& table : of_tables) {
      const auto own = std::ranges::find(table, i, &ChainReport::chain);
      const bool is_current = own != table.end() && own->generation == all.generation;
      all.is_ready &= is_current && own->is_ready;
      all.has_caught_up &= is_current && own->has_caught_up;
    }
    reports.push_back(all);
  }
  {
    const std::lock_guard lock(mutex_);
    if (reports == reported_) return;
    reported_ = reports;
  }
  job::report_to_launcher(job_, encode(reports));
}

}  // namespace paceline::server
