#include "paceline/core/server/vectors/portion_worker.h"

#include <algorithm>
#include <cstring>

namespace paceline::server {

using machine::Actions;
using machine::Send;

PortionWorker::PortionWorker(const VectorShape& shape) : shape_(shape), values_(shape.bytes()) {}

std::size_t PortionWorker::place_of(int server) const {
  return static_cast<std::size_t>(std::ranges::find(shape_.members.servers, server) -
                                  shape_.members.servers.begin());
}

Bytes PortionWorker::shard_of(int server, Bytes whole) const {
  const ElementSpan shard = shape_.shard(place_of(server));
  return whole.subspan(shard.begin * size_of(shape_.dtype), shard.count * size_of(shape_.dtype));
}

std::set<int> PortionWorker::servers_with_elements() const {
  std::set<int> servers;
  for (const int server : shape_.members.servers)
    if (shape_.shard(place_of(server)).count > 0) servers.insert(server);
  return servers;
}

Actions PortionWorker::store(Bytes values) {
  unstored_.emplace(shape_.members.servers.begin(), shape_.members.servers.end());
  Actions actions;
  for (const int server : *unstored_)
    actions.push_back(
        Send{server, encode({.kind = VectorKind::store, .elements = shard_of(server, values)})});
  return actions;
}

Actions PortionWorker::enter() {
  ++iteration_;
  is_in_ = true;
  const auto end = ends_.find(iteration_);
  return end == ends_.end() ? want() : need(end->second.evaluation);
}

Actions PortionWorker::want() const {
  return {Send{shape_.coordinator(), encode({.kind = VectorKind::want, .number = iteration_})}};
}

bool PortionWorker::has_portion() const {
  return dealt_ && !ends_.contains(iteration_) && evaluation_of_values_ == dealt_->evaluation;
}

bool PortionWorker::is_over() const {
  const auto end = ends_.find(iteration_);
  return end != ends_.end() && evaluation_of_values_ == end->second.evaluation;
}

PortionWorker::Portion PortionWorker::take_portion() {
  computing_ = dealt_;
  dealt_.reset();
  return *computing_;
}

// Nobody needs the result of a portion when the iteration has ended.
Actions PortionWorker::computed(double loss, Bytes gradient) {
  const Portion portion = *std::exchange(computing_, std::nullopt);
  if (ends_.contains(iteration_)) return {};
  Push& push = pushes_[{portion.evaluation, portion.number}];
  push = {loss, servers_with_elements()};
  Actions actions;
  for (const int server : push.missing)
    actions.push_back(Send{server, encode({.kind = VectorKind::gradient,
                                           .number = portion.number,
                                           .evaluation = portion.evaluation,
                                           .elements = shard_of(server, gradient)})});
  append(actions, want());
  return actions;
}

PortionWorker::End PortionWorker::leave() {
  is_in_ = false;
  dealt_.reset();
  return ends_.extract(iteration_).mapped();
}

Actions PortionWorker::on_packet(int from, const VectorPacket& packet) {
  ++heard_;
  switch (packet.kind) {
    case VectorKind::portion: return dealt({packet.number, packet.evaluation});
    case VectorKind::over: return over(packet);
    case VectorKind::values: return take_values(from, packet);
    case VectorKind::taken: return taken(from, packet);
    case VectorKind::stored:
      if (unstored_) unstored_->erase(from);
      return {};
    default: return {};
  }
}

// A portion that was overtaken by the end of its iteration is nobody's.
Actions PortionWorker::dealt(const Portion& portion) {
  if (!is_in_ || ends_.contains(iteration_) ||
      portion.number >= static_cast<std::uint64_t>(shape_.portions()))
    return {};
  dealt_ = portion;
  return need(portion.evaluation);
}

Actions PortionWorker::over(const VectorPacket& packet) {
  if (packet.number < iteration_ || (packet.number == iteration_ && !is_in_)) return {};
  ends_[packet.number] = {packet.evaluation, packet.loss, packet.text};
  if (!is_in_ || packet.number != iteration_) return {};
  dealt_.reset();
  return need(packet.evaluation);
}

Actions PortionWorker::need(std::uint64_t evaluation) {
  if (evaluation_of_values_ == evaluation) return tell_end();
  if (fetch_ && fetch_->evaluation == evaluation) return {};
  evaluation_of_values_.reset();
  fetch_ = {evaluation, servers_with_elements()};
  Actions actions;
  for (const int server : fetch_->missing)
    actions.push_back(Send{server, encode({.kind = VectorKind::fetch, .evaluation = evaluation})});
  return actions;
}

// Servers have the parameters of an evaluation no more when others have ended it meanwhile.
Actions PortionWorker::take_values(int server, const VectorPacket& packet) {
  if (!fetch_ || fetch_->evaluation != packet.evaluation || fetch_->missing.erase(server) == 0)
    return {};
  fetch_->is_late = fetch_->is_late || packet.elements.empty();
  if (!packet.elements.empty()) {
    const ElementSpan shard = shape_.shard(place_of(server));
    std::memcpy(values_.data() + shard.begin * size_of(shape_.dtype), packet.elements.data(),
                packet.elements.size());
  }
  if (!fetch_->missing.empty()) return {};
  const Fetch fetched = *std::exchange(fetch_, std::nullopt);
  if (!fetched.is_late) {
    evaluation_of_values_ = fetched.evaluation;
    return tell_end();
  }
  if (!dealt_ || dealt_->evaluation != fetched.evaluation) return {};
  dealt_.reset();
  return want();
}

// Once: leave() is to follow.
Actions PortionWorker::tell_end() {
  if (!is_in_ || !is_over()) return {};
  return {Send{shape_.coordinator(), encode({.kind = VectorKind::ended, .number = iteration_})}};
}

Actions PortionWorker::taken(int server, const VectorPacket& packet) {
  const auto push = pushes_.find({packet.evaluation, packet.number});
  if (push == pushes_.end()) return {};
  push->second.missing.erase(server);
  if (!push->second.missing.empty()) return {};
  const double loss = push->second.loss;
  pushes_.erase(push);
  return {Send{shape_.coordinator(), encode({.kind = VectorKind::done,
                                             .number = packet.number,
                                             .evaluation = packet.evaluation,
                                             .loss = loss})}};
}

}  // namespace paceline::server
