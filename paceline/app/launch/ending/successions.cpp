#include "paceline/app/launch/ending/successions.h"

#include <utility>

namespace paceline::launch {

Successions::Successions(const Options& options, std::unique_ptr<ServerKeeper> keeper)
    : options_(options), keeper_(std::move(keeper)) {}

void Successions::on_linked(int member) {
  if (!linked_.insert(member).second || !awaited_.contains(member)) return;
  keeper_->came(member);
}

void Successions::on_report(int server, Bytes report) {
  keeper_->reported(server, report);
}

bool Successions::all_are_linked() const {
  int founders = 0;
  for (const int member : linked_) founders += is_late(member) ? 0 : 1;
  return founders == options_.ranks + options_.servers;
}

bool Successions::bears_loss_of(int server) const {
  return all_are_linked() && keeper_->may_lose(server);
}

std::optional<int> Successions::on_death(int server, bool may_start) {
  awaited_.erase(server);
  const bool starts = may_start && started_ < options_.most;
  keeper_->died(server, starts);
  if (!starts) return std::nullopt;
  const int successor = options_.ranks + options_.servers + started_++;
  awaited_.insert(successor);
  return successor;
}

std::vector<int> Successions::take_ready() {
  std::vector<int> ready;
  for (const int member : awaited_)
    if (keeper_->is_ready(member)) ready.push_back(member);
  for (const int member : ready) awaited_.erase(member);
  return ready;
}

}  // namespace paceline::launch
