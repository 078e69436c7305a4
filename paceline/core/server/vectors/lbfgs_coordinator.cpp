#include "paceline/core/server/vectors/lbfgs_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::server {

using machine::Actions;
using machine::Send;

LbfgsCoordinator::LbfgsCoordinator(const VectorShape& shape, const LbfgsOptions& options)
    : shape_(shape),
      course_(shape.samples, shape.history, options),
      deal_(shape.portions(), shape.window()),
      living_(shape.members.workers.begin(), shape.members.workers.end()) {}

Actions LbfgsCoordinator::on_packet(int from, const VectorPacket& packet) {
  const bool is_server = std::ranges::binary_search(shape_.members.servers, from);
  if (is_server != (packet.kind == VectorKind::carried_out)) return {};
  if (!is_server && !living_.contains(from)) return {};
  switch (packet.kind) {
    case VectorKind::carried_out: return answered(from, packet);
    case VectorKind::done: return done(packet);
    case VectorKind::ended:
      ends_[from] = std::max(ends_[from], packet.number);
      return begin_if_due();
    case VectorKind::want:
      if (packet.number <= ended_) return {};  // it hears of that end
      wants_[from] = packet.number;
      return is_running_ ? deal() : begin_if_due();
    default: return {};
  }
}

// Servers still have the parameters where the iteration before the last ended, and no older ones.
// Until a first loss was a number they have those of the last evaluation alone.
bool LbfgsCoordinator::may_begin() const {
  const auto own = wants_.find(shape_.coordinator());
  if (is_running_ || own == wants_.end() || own->second != ended_ + 1) return false;
  const std::uint64_t behind = course_.is_somewhere() ? 1 : 0;
  return std::ranges::all_of(living_, [&](int worker) {
    const auto ends = ends_.find(worker);
    return (ends == ends_.end() ? 0 : ends->second) + behind >= ended_;
  });
}

Actions LbfgsCoordinator::begin_if_due() {
  if (!may_begin()) return {};
  is_running_ = true;
  return go_on(course_.begin());
}

Actions LbfgsCoordinator::go_on(const std::optional<LbfgsCourse::Step>& step) {
  if (!step) return end();
  under_way_ = step;
  values_.clear();
  if (step->evaluates) ++evaluation_;
  if (!course_.is_somewhere()) accepted_ = evaluation_;
  const machine::Message list = encode({.kind = VectorKind::carry_out,
                                        .number = ++lists_,
                                        .evaluation = step->evaluates ? evaluation_ : 0,
                                        .commands = step->commands});
  Actions actions;
  for (const int server : shape_.members.servers) actions.push_back(Send{server, list});
  return actions;
}

Actions LbfgsCoordinator::answered(int from, const VectorPacket& packet) {
  if (!under_way_ || packet.number != lists_) return {};
  values_[from] = packet.values;
  if (values_.size() < shape_.servers()) return {};
  const LbfgsCourse::Step step = *std::exchange(under_way_, std::nullopt);
  if (!step.evaluates) return go_on(course_.answered(joined_values(step.commands)));
  deal_.begin();
  return deal();
}

// The values of each command, joined over the servers in their order: the greatest of greatest
// ones, and the sum of all others. A server that told too few counts as one that told NaN.
std::vector<double> LbfgsCoordinator::joined_values(
    const std::vector<VectorCommand>& commands) const {
  std::vector<double> joined;
  for (const VectorCommand& command : commands) {
    if (!tells_value(command.op)) continue;
    const std::size_t place = joined.size();
    double value = 0;
    for (const auto& [server, values] : values_) {
      const double one = place < values.size() ? values[place] : std::nan("");
      if (command.op != VectorOp::greatest) value += one;
      else if (!(one <= value)) value = one;
    }
    joined.push_back(value);
  }
  return joined;
}

Actions LbfgsCoordinator::done(const VectorPacket& packet) {
  if (packet.evaluation != evaluation_ || deal_.is_over()) return {};
  if (!deal_.take(static_cast<std::int64_t>(packet.number), packet.loss)) return {};
  return deal_.is_over() ? go_on(course_.evaluated(deal_.sum())) : deal();
}

Actions LbfgsCoordinator::deal() {
  Actions actions;
  for (auto want = wants_.begin(); want != wants_.end() && !deal_.is_over();) {
    const auto portion =
        want->second == ended_ + 1 ? deal_.next(want->first) : std::optional<std::int64_t>();
    if (!portion) {
      ++want;
      continue;
    }
    actions.push_back(Send{want->first, encode({.kind = VectorKind::portion,
                                                .number = static_cast<std::uint64_t>(*portion),
                                                .evaluation = evaluation_})});
    want = wants_.erase(want);
  }
  return actions;
}

Actions LbfgsCoordinator::end() {
  ++ended_;
  is_running_ = false;
  if (course_.failure().empty()) accepted_ = evaluation_;
  std::erase_if(wants_, [&](const auto& want) { return want.second <= ended_; });
  const machine::Message over = encode({.kind = VectorKind::over,
                                        .number = ended_,
                                        .evaluation = accepted_,
                                        .loss = course_.loss(),
                                        .text = failure()});
  Actions actions;
  for (const int worker : living_) actions.push_back(Send{worker, over});
  append(actions, begin_if_due());
  return actions;
}

// Names the first portion whose loss is no number, if that is why.
std::string LbfgsCoordinator::failure() const {
  if (course_.failure().empty()) return {};
  std::string text = fmt::format("'{}': {}", shape_.name, course_.failure());
  const auto portion = deal_.first_not_finite();
  if (!portion || course_.is_somewhere()) return text;
  return text + fmt::format(
                    ": that of portion {} (samples {} to {}) is {}; look at these samples, "
                    "or begin elsewhere",
                    *portion, shape_.begin_of(*portion), shape_.end_of(*portion) - 1,
                    deal_.loss_of(*portion));
}

Actions LbfgsCoordinator::on_lost(int peer) {
  if (living_.erase(peer) == 0) return {};
  wants_.erase(peer);
  ends_.erase(peer);
  deal_.lose(peer);
  return is_running_ ? deal() : begin_if_due();
}

coordination::Awaited LbfgsCoordinator::awaited() const {
  coordination::Awaited those;
  if (under_way_) {
    for (const int server : shape_.members.servers)
      if (!values_.contains(server)) those.is_silent(server);
  } else if (is_running_) {
    for (const auto& [portion, workers] : deal_.under_way())
      for (const int worker : workers)
        those.lacks(worker, fmt::format("computed portion {}", portion));
  }
  return those;
}

}  // namespace paceline::server
