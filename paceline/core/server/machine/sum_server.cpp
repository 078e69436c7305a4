#include "paceline/core/server/machine/sum_server.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using machine::Time;

std::vector<std::byte> sum_of(const SumPiece& piece, std::map<int, std::vector<std::byte>>& parts) {
  std::vector<std::vector<std::byte>*> in_order;
  for (auto& [worker, part] : parts) in_order.push_back(&part);
  std::vector<std::byte>& sum = *balanced_sum(in_order, [&](auto* left, auto* right) {
    reduce(piece.op, piece.dtype, *left, *right, *left);
    return left;
  });
  if (piece.op == ReduceOp::average)
    scale(piece.dtype, sum, 1.0 / static_cast<double>(parts.size()));
  return std::move(sum);
}

}  // namespace

Actions SumServer::on_message(int from, const Message& message, Time) {
  if (from >= workers_ || is_over_) return {};
  const auto drop = [from](std::string why) {
    return Actions{Drop{from, {Fault::io, std::move(why), {from}}}};
  };
  if (message.kind != static_cast<std::uint32_t>(SumKind::push))
    return drop("a message that no worker sends");
  const auto read = parse_sum_piece(message);
  if (!read) return drop(read.error().what);
  if (held_[static_cast<std::size_t>(from)] == kMostHeld)
    return drop(fmt::format("more than {} parts without an answer", kMostHeld));
  return take(from, read.value());
}

Actions SumServer::take(int from, const ReadPiece& read) {
  const SumPiece& piece = read.piece;
  const Key key = {piece.channel, piece.call, piece.begin};
  Gathering& gathering = open_.try_emplace(key, Gathering{piece, {}}).first->second;
  if (gathering.piece != piece)
    return refuse(
        fmt::format("the workers differ in call {} of push_pull: rank {} has {}, rank {} "
                    "has {}; all workers make the same calls in the same order",
                    piece.call, gathering.parts.begin()->first, describe(gathering.piece), from,
                    describe(piece)));
  if (gathering.parts.contains(from))
    return {Drop{from, {Fault::io, "a part of a push_pull that came twice", {from}}}};
  gathering.parts[from].assign(read.elements.begin(), read.elements.end());
  ++held_[static_cast<std::size_t>(from)];
  if (const auto why = missed(gathering)) return refuse(*why);
  if (static_cast<int>(gathering.parts.size()) < workers_) return {};
  return answer(std::move(open_.extract(key).mapped()));
}

Actions SumServer::answer(Gathering gathering) {
  const std::vector<std::byte> sum = sum_of(gathering.piece, gathering.parts);
  Actions actions;
  for (int worker = 0; worker < workers_; ++worker) {
    --held_[static_cast<std::size_t>(worker)];
    actions.push_back(Send{worker, encode(SumKind::sum, gathering.piece, sum)});
  }
  return actions;
}

// A worker that has left pushes nothing any more.
std::optional<std::string> SumServer::missed(const Gathering& gathering) const {
  for (const int worker : left_)
    if (!gathering.parts.contains(worker))
      return fmt::format("rank {} has left the job and rank {} calls push_pull of {}", worker,
                         gathering.parts.begin()->first, describe(gathering.piece));
  return std::nullopt;
}

Actions SumServer::on_lost(int peer, Time) {
  if (peer >= workers_ || is_over_) return {};
  left_.insert(peer);
  for (const auto& [key, gathering] : open_)
    if (const auto why = missed(gathering)) return refuse(*why);
  return {};
}

Actions SumServer::refuse(const std::string& why) {
  is_over_ = true;
  open_.clear();
  const Bytes text = std::as_bytes(std::span(why));
  Actions actions;
  for (int worker = 0; worker < workers_; ++worker)
    actions.push_back(Send{worker,
                           {.kind = static_cast<std::uint32_t>(SumKind::refused),
                            .payload = {text.begin(), text.end()}}});
  return actions;
}

}  // namespace paceline::server
