#include "paceline/core/server/machine/sum_worker.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;

// Short arrays are shared out too, as far as the parts are worth a message.
constexpr std::size_t kLeastPart = 64 << 10;

std::size_t elements_of_part(std::size_t bytes, std::size_t servers, std::size_t longest,
                             std::size_t element) {
  const std::size_t share = (bytes + servers - 1) / servers;
  return std::max<std::size_t>(1, std::clamp(share, kLeastPart, longest) / element);
}

}  // namespace

SumWorker::SumWorker(int first_server, int servers, SumPatience patience,
                     std::function<Failure(Failure)> why, const SumSharing& sharing,
                     std::size_t part_bytes)
    : first_(first_server),
      patience_(std::move(patience)),
      why_(std::move(why)),
      owner_(sharing.owner),
      part_bytes_(part_bytes),
      stage_(sharing.stage, part_bytes),
      sides_(static_cast<std::size_t>(servers)) {}

void SumWorker::put(SumCall call) {
  const std::lock_guard lock(mutex_);
  put_.push_back(std::move(call));
}

Actions SumWorker::on_message(int from, const Message& message, Time now) {
  if (message.kind == kBegin) return from < first_ ? begin(now) : Actions{};
  if (message.kind == kCancel && from < first_) {
    cancel(message.index);
    return {};
  }
  if (from < first_ || failure_) return {};
  if (message.kind == static_cast<std::uint32_t>(SumKind::missing)) {
    take_missing(from, message);
    return {};
  }
  if (message.kind != static_cast<std::uint32_t>(SumKind::refused)) return take(from, message, now);
  fail({Fault::mismatch,
        {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()},
        {}});
  return {};
}

void SumWorker::cancel(std::uint32_t channel) {
  while (true) {
    const auto at = open_.lower_bound({channel, 0});
    if (at == open_.end() || at->first.first != channel) return;
    end(at, Failure{Fault::cancelled, describe(at->second.call) + ": its caller has ended", {}});
  }
}

Actions SumWorker::begin(Time now) {
  std::deque<SumCall> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(put_);
  }
  if (open_.empty()) note_movement(now);
  for (SumCall& call : calls) {
    const Key key = {call.channel, call.number};
    const auto at = open_.emplace(key, Open{std::move(call), 0, now + patience_.timeout}).first;
    if (failure_) end(at, failure_);
    else cut(at->second.call);
  }
  Actions actions = push();
  if (!open_.empty() && !is_armed_) actions.push_back(machine::Arm{0, next_look()});
  is_armed_ = is_armed_ || !open_.empty();
  return actions;
}

// The server of a part follows from the call, since workers may begin calls of different channels
// in different orders.
void SumWorker::cut(const SumCall& call) {
  std::size_t turn = call.channel + call.number;
  const std::size_t length = elements_of_part(call.input.bytes().size(), sides_.size(), part_bytes_,
                                              size_of(call.input.dtype));
  const auto queue = [&](std::size_t server) -> Queue& {
    const PushedParts none(first_ + static_cast<int>(server), owner_, stage_);
    return sides_[server].try_emplace(call.channel, Queue{none}).first->second;
  };
  for (std::size_t begin = 0; begin < call.input.count; begin += length) {
    queue(turn++ % sides_.size())
        .waiting.push_back({.channel = call.channel,
                            .call = call.number,
                            .begin = begin,
                            .count = std::min(length, call.input.count - begin),
                            .all = call.input.count,
                            .dtype = call.input.dtype,
                            .op = call.op});
    ++open_.at({call.channel, call.number}).missing;
  }
}

Actions SumWorker::push() {
  Actions actions;
  for (std::size_t server = 0; server < sides_.size(); ++server) {
    for (auto& [channel, queue] : sides_[server])
      push(first_ + static_cast<int>(server), queue, actions);
    std::erase_if(sides_[server], [](const auto& one) {
      return one.second.pushed.size() == 0 && one.second.waiting.empty();
    });
  }
  return actions;
}

void SumWorker::push(int server, Queue& queue, Actions& actions) {
  for (; queue.pushed.size() < kWindow && !queue.waiting.empty(); queue.waiting.pop_front()) {
    const SumPiece& piece = queue.waiting.front();
    const auto open = open_.find({piece.channel, piece.call});
    if (open == open_.end()) continue;  // it has failed
    const SumCall& call = open->second.call;
    const std::size_t begin = piece.begin * size_of(piece.dtype);
    actions.push_back(
        Send{server, queue.pushed.push(piece, call.input.bytes().subspan(begin, piece.bytes()),
                                       call.output.bytes().subspan(begin, piece.bytes()))});
  }
}

Actions SumWorker::take(int server, const Message& message, Time now) {
  const auto drop = [server] {
    return Actions{machine::Drop{server, {Fault::io, "a sum that makes no sense", {server}}}};
  };
  const auto sum = parse_sum_piece(message);
  if (!sum) return drop();
  const auto& [piece, rest] = sum.value();
  ServerSums& side = sides_.at(static_cast<std::size_t>(server - first_));
  const auto queue = side.find(piece.channel);
  const auto open = open_.find({piece.channel, piece.call});
  const bool is_awaited = open != open_.end();
  if (queue == side.end() || !queue->second.pushed.take(message, sum.value(), is_awaited))
    return drop();
  note_movement(now);
  if (is_awaited && --open->second.missing == 0) end(open, std::nullopt);
  return push();
}

Actions SumWorker::on_lost(int peer, Time) {
  if (peer >= first_)
    fail({Fault::peer_lost,
          fmt::format("server {} has ended; look at its lines in the run's output", peer - first_),
          {peer}});
  return {};
}

// The order of the calls is lost, so none that comes later can be carried out.
void SumWorker::fail(Failure failure) {
  if (failure_) return;
  failure_ = why_ ? why_(std::move(failure)) : std::move(failure);
  for (ServerSums& side : sides_)
    for (auto& [channel, queue] : side) queue.waiting.clear();
  while (!open_.empty()) end(open_.begin(), failure_);
}

void SumWorker::end(std::map<Key, Open>::iterator at, std::optional<Failure> failure) {
  const Key key = at->first;
  const auto done = std::move(open_.extract(at).mapped().call.done);
  if (failure) revoke(key, *failure);
  done(std::move(failure));
}

// It may end the generation, and with it all other calls.
void SumWorker::revoke(const Key& call, const Failure& why) {
  std::vector<transport::SharedRegion> outputs;
  for (const ServerSums& side : sides_) {
    const auto queue = side.find(call.first);
    if (queue == side.end()) continue;
    const auto more = queue->second.pushed.shared_outputs(call.second);
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  if (!outputs.empty()) owner_->revoke(outputs, why);
}

}  // namespace paceline::server
