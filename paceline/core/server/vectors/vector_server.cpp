#include "paceline/core/server/vectors/vector_server.h"

#include <algorithm>
#include <utility>

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Send;

constexpr std::uint64_t kNoEvaluation = UINT64_MAX;

std::size_t place_of(const VectorShape& shape, int own) {
  return static_cast<std::size_t>(std::ranges::find(shape.members.servers, own) -
                                  shape.members.servers.begin());
}

Failure senseless() {
  return {Fault::io,
          "a message about vectors on servers that no member sends: a bug, please report it",
          {}};
}

}  // namespace

VectorServer::VectorServer(const VectorShape& shape, int own)
    : shape_(shape),
      limits_{shape.vectors(), shape.shard_bytes(place_of(shape, own))},
      shard_(shape.shard(place_of(shape, own)).count, shape.dtype, shape.vectors()),
      evaluation_of_(shape.vectors(), kNoEvaluation) {}

bool VectorServer::serves_members() const {
  const std::lock_guard lock(mutex_);
  return gone_.size() < shape_.members.workers.size();
}

std::size_t VectorServer::most_waiting() const {
  const std::lock_guard lock(mutex_);
  return most_waiting_;
}

std::uint64_t VectorServer::repeats() const {
  const std::lock_guard lock(mutex_);
  return repeats_;
}

Actions VectorServer::on_message(int from, const machine::Message& message, machine::Time) {
  const std::lock_guard lock(mutex_);
  if (gone_.contains(from)) return {};
  const auto packet = parse_vector_packet(message, limits_);
  return packet ? on_packet(from, packet.value()) : refuse(from, packet.error());
}

Actions VectorServer::on_packet(int from, const VectorPacket& packet) {
  const bool leads = from == shape_.coordinator();
  if (!std::ranges::binary_search(shape_.members.workers, from)) return refuse(from, senseless());
  switch (packet.kind) {
    case VectorKind::fetch: return give(from, packet.evaluation);
    case VectorKind::gradient: return take(from, packet);
    case VectorKind::store:
      if (!leads) break;
      shard_.store(NamedVector::here, packet.elements);
      evaluation_of_[NamedVector::here] = 0;
      return {Send{from, encode({.kind = VectorKind::stored})}};
    case VectorKind::carry_out:
      if (!leads || packet.number != lists_ + 1) break;
      return carry_out(packet);
    default: break;
  }
  return refuse(from, senseless());
}

Actions VectorServer::carry_out(const VectorPacket& packet) {
  const int to = shape_.coordinator();
  std::vector<double> values = shard_.carry_out(packet.commands);
  for (const VectorCommand& command : packet.commands) {
    if (command.op == VectorOp::copy)
      evaluation_of_[command.target] = evaluation_of_[command.source];
    else if (!tells_value(command.op)) evaluation_of_[command.target] = kNoEvaluation;
  }
  if (packet.evaluation != 0 && !begin(packet.evaluation)) return refuse(to, senseless());
  ++lists_;
  return {Send{to, encode({.kind = VectorKind::carried_out,
                           .number = packet.number,
                           .values = std::move(values)})}};
}

bool VectorServer::begin(std::uint64_t evaluation) {
  if (evaluation <= evaluation_) return false;
  evaluation_of_[NamedVector::here] = evaluation_ = evaluation;
  shard_.clear(NamedVector::gradient);
  next_ = 0;
  waiting_.clear();
  return true;
}

Actions VectorServer::give(int to, std::uint64_t evaluation) const {
  VectorPacket answer{.kind = VectorKind::values, .evaluation = evaluation};
  for (const std::size_t vector : {NamedVector::here, NamedVector::base})
    if (evaluation_of_[vector] == evaluation) answer.elements = shard_.bytes(vector);
  return {Send{to, encode(answer)}};
}

Actions VectorServer::take(int from, const VectorPacket& packet) {
  const std::uint64_t number = packet.number;
  const Send taken{
      from, encode({.kind = VectorKind::taken, .number = number, .evaluation = packet.evaluation})};
  if (packet.evaluation > evaluation_) return refuse(from, senseless());
  if (packet.evaluation < evaluation_) return {taken};
  if (number < next_ || waiting_.contains(number)) {
    ++repeats_;
    return {taken};
  }
  if (number >= static_cast<std::uint64_t>(shape_.portions()) ||
      number - next_ >= static_cast<std::uint64_t>(shape_.window()))
    return refuse(from, senseless());
  if (number == next_) {
    shard_.add(NamedVector::gradient, packet.elements);
    ++next_;
    sum_those_that_wait();
  } else {
    waiting_.emplace(number, std::vector(packet.elements.begin(), packet.elements.end()));
    most_waiting_ = std::max(most_waiting_, waiting_.size());
  }
  return {taken};
}

void VectorServer::sum_those_that_wait() {
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; ++next_) {
    shard_.add(NamedVector::gradient, first->second);
    first = waiting_.erase(first);
  }
}

// A member whose bytes make no sense is heard no more.
Actions VectorServer::refuse(int from, const Failure& why) {
  if (std::ranges::binary_search(shape_.members.workers, from)) gone_.insert(from);
  return {machine::Drop{from, {why.fault, why.what, {from}}}};
}

Actions VectorServer::on_lost(int peer, machine::Time) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::binary_search(shape_.members.workers, peer)) gone_.insert(peer);
  return {};
}

}  // namespace paceline::server
