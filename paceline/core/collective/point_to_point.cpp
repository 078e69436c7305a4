#include "paceline/core/collective/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/collective/work_state.h"
#include "paceline/core/transport/wire.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;
using transport::FrameType;

constexpr std::size_t kLongestCarried = 64 << 10;
constexpr std::size_t kCarriedBudget = 1 << 20;  // for each peer
constexpr std::size_t kCarriedCost = 128;        // what the peer keeps about a message besides its payload
constexpr std::size_t kPiece = 1 << 20;

std::string describe(std::string_view what, const PointToPoint::Transfer& t, ConstBuffer buffer, std::string_view side) {
  return fmt::format("{} {}[{}] {} rank {}, tag {}", what, name_of(buffer.dtype), buffer.count, side, t.peer, t.tag);
}

}  // namespace

void PointToPoint::finish(const Transfer& transfer, std::optional<Failure> failure) {
  ++traffic_.operations;
  transfer.work->finish(std::move(failure));
}

void PointToPoint::send(Transfer transfer) {
  due_ = due_.sooner(transfer.deadline);
  const std::uint64_t id = next_id_++;
  const int peer = transfer.peer;
  const Bytes bytes = transfer.source.bytes();
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes.size();
  Announced announcement{.id = id, .dtype = transfer.source.dtype, .count = transfer.source.count};
  transport::Link* link = mesh_.link(peer);
  if (link == nullptr) {  // to itself
    announcement.carried = true;
    announcement.payload.assign(bytes.begin(), bytes.end());
    const auto tag = transfer.tag;
    finish(transfer, std::nullopt);
    if (auto met = announced(peer, tag, std::move(announcement)); !met) mesh_.fail(met.error());
    return;
  }
  std::size_t& carried = carried_bytes_[peer];
  const std::size_t cost = bytes.size() + kCarriedCost;
  // Who has left will not receive it: then the send waits, and is told so.
  const bool carry = bytes.size() < kLongestCarried && carried + cost <= kCarriedBudget && !mesh_.has_departed(peer);
  transport::WireWriter w;
  w.integer(announcement.dtype).integer(std::uint8_t{carry}).integer(announcement.count);
  if (carry) w.raw(bytes);
  link->send({.type = FrameType::announce, .sequence = id, .index = transfer.tag, .group = group_}, w.bytes());
  if (carry) {
    carried += cost;
    carried_.emplace(Key{peer, id}, cost);
    finish(transfer, std::nullopt);
  } else {
    sends_.emplace(id, Outgoing{.transfer = std::move(transfer)});
  }
}

void PointToPoint::recv(Transfer transfer) {
  due_ = due_.sooner(transfer.deadline);
  const Lane lane{transfer.peer, transfer.tag};
  auto& waiting = unexpected_[lane];
  if (waiting.empty()) {
    posted_[lane].push_back(std::move(transfer));
    ++posted_count_;
    return;
  }
  Announced announcement = std::move(waiting.front());
  waiting.pop_front();
  if (auto met = meet(std::move(transfer), std::move(announcement)); !met) mesh_.fail(met.error());
}

Result<> PointToPoint::announced(int peer, std::uint32_t tag, Announced announcement) {
  auto& posted = posted_[{peer, tag}];
  if (posted.empty()) {
    unexpected_[{peer, tag}].push_back(std::move(announcement));
    return Done{};
  }
  Transfer transfer = std::move(posted.front());
  posted.pop_front();
  --posted_count_;
  return meet(std::move(transfer), std::move(announcement));
}

Result<> PointToPoint::meet(Transfer transfer, Announced announcement) {
  if (announcement.dtype != transfer.target.dtype || announcement.count != transfer.target.count) {
    Failure failure{Fault::mismatch,
                    fmt::format("rank {} sent {}[{}] with tag {} where rank {} receives {}[{}]; send and recv must agree in "
                                "dtype and count",
                                transfer.peer, name_of(announcement.dtype), announcement.count, transfer.tag,
                                mesh_.identity().rank, name_of(transfer.target.dtype), transfer.target.count),
                    {transfer.peer, mesh_.identity().rank}};
    finish(transfer, failure);
    return failure;
  }
  const FrameHeader matched{.type = FrameType::matched, .sequence = announcement.id, .group = group_};
  if (transport::Link* link = mesh_.link(transfer.peer)) link->send(matched, {});
  if (announcement.carried) {
    std::ranges::copy(announcement.payload, transfer.target.data);
    finish(transfer, std::nullopt);
  } else if (transfer.target.size_bytes() == 0) {  // no piece will come
    finish(transfer, std::nullopt);
  } else {
    const Key key{transfer.peer, announcement.id};
    incoming_.emplace(key, Incoming{.transfer = std::move(transfer)});
  }
  return Done{};
}

void PointToPoint::send_pieces(std::uint64_t id, Outgoing& outgoing) {
  const Bytes bytes = outgoing.transfer.source.bytes();
  const std::size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  outgoing.unsent = pieces;
  for (std::size_t i = 0; i < pieces; ++i) {
    mesh_.link(outgoing.transfer.peer)
        ->send({.type = FrameType::message, .sequence = id, .index = static_cast<std::uint32_t>(i), .group = group_},
               bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)), this, id);
  }
}

void PointToPoint::sent(std::uint64_t cookie) {
  const auto found = sends_.find(cookie);
  if (found == sends_.end() || --found->second.unsent > 0) return;
  finish(sends_.extract(found).mapped().transfer, std::nullopt);
}

Result<> PointToPoint::matched(int peer, std::uint64_t id) {
  if (const auto carried = carried_.extract(Key{peer, id})) {
    carried_bytes_[peer] -= carried.mapped();
    return Done{};
  }
  const auto found = sends_.find(id);
  if (found == sends_.end() || found->second.transfer.peer != peer || found->second.matched) {
    return Failure{Fault::io, fmt::format("rank {} matched a send that is not there", peer), {peer}};
  }
  found->second.matched = true;
  if (found->second.transfer.source.size_bytes() > 0) send_pieces(id, found->second);
  else finish(sends_.extract(found).mapped().transfer, std::nullopt);
  return Done{};
}

MutableBytes PointToPoint::place(int peer, const FrameHeader& header) {
  const auto found = header.type == FrameType::message ? incoming_.find({peer, header.sequence}) : incoming_.end();
  if (found == incoming_.end()) return {};
  const MutableBytes target = found->second.transfer.target.bytes();
  const std::size_t begin = std::size_t{header.index} * kPiece;
  if (begin >= target.size() || std::min(kPiece, target.size() - begin) != header.length) return {};
  return target.subspan(begin, header.length);
}

Result<> PointToPoint::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  const auto malformed = [&] {
    return Failure{Fault::io, fmt::format("rank {} sent a malformed {} frame", peer, name_of(header.type)), {peer}};
  };
  if (header.type == FrameType::announce) {
    transport::WireReader r(payload);
    Announced announcement{.id = header.sequence};
    announcement.dtype = r.integer<Dtype>();
    announcement.carried = r.integer<std::uint8_t>() != 0;
    announcement.count = r.integer<std::uint64_t>();
    const std::size_t longest = kLongestCarried / std::max<std::size_t>(1, size_of(announcement.dtype));
    const bool sane = r.ok() && is_known(announcement.dtype) && (!announcement.carried || announcement.count <= longest);
    const std::size_t expected = announcement.carried ? announcement.count * size_of(announcement.dtype) : 0;
    if (!sane || r.rest().size() != expected) return malformed();
    announcement.payload.assign(r.rest().begin(), r.rest().end());
    return announced(peer, header.index, std::move(announcement));
  }
  if (header.type == FrameType::matched) return matched(peer, header.sequence);
  const auto found = incoming_.find({peer, header.sequence});
  if (!placed || found == incoming_.end()) return malformed();
  found->second.arrived += payload.size();
  if (found->second.arrived < found->second.transfer.target.size_bytes()) return Done{};
  finish(incoming_.extract(found).mapped().transfer, std::nullopt);
  return Done{};
}

void PointToPoint::failed(const Failure& why) {
  const auto sends = std::move(sends_);
  const auto posted = std::move(posted_);
  const auto incoming = std::move(incoming_);
  sends_.clear();
  posted_.clear();
  incoming_.clear();
  posted_count_ = 0;
  for (const auto& [id, outgoing] : sends) finish(outgoing.transfer, why);
  for (const auto& [lane, transfers] : posted) {
    for (const Transfer& transfer : transfers) finish(transfer, why);
  }
  for (const auto& [key, in] : incoming) finish(in.transfer, why);
}

std::string PointToPoint::waits_for(int peer) const {
  for (const auto& [id, outgoing] : sends_) {
    if (outgoing.transfer.peer == peer) {
      return describe("send", outgoing.transfer, outgoing.transfer.source, "to");
    }
  }
  for (const auto& [lane, transfers] : posted_) {
    if (lane.first == peer && !transfers.empty()) return describe("recv", transfers.front(), transfers.front().target, "from");
  }
  for (const auto& [key, in] : incoming_) {
    if (key.first == peer) return describe("recv", in.transfer, in.transfer.target, "from");
  }
  return {};
}

std::optional<Failure> PointToPoint::overdue(Clock::time_point now) {
  if (!due_.passed(now)) return std::nullopt;
  due_ = soonest();
  for (int peer = 0; peer < mesh_.identity().size; ++peer) {
    const auto late = [&](const Transfer& t) { return t.peer == peer && t.deadline.passed(now); };
    const bool any = std::ranges::any_of(sends_, [&](const auto& e) { return late(e.second.transfer); }) ||
                     std::ranges::any_of(incoming_, [&](const auto& e) { return late(e.second.transfer); }) ||
                     std::ranges::any_of(posted_, [&](const auto& e) { return std::ranges::any_of(e.second, late); });
    if (any) {
      return Failure{Fault::timed_out,
                     fmt::format("rank {}: {} was not met by rank {} before its deadline", mesh_.identity().rank,
                                 waits_for(peer), peer),
                     {peer}};
    }
  }
  return std::nullopt;
}

Deadline PointToPoint::soonest() const {
  Deadline next;
  for (const auto& [id, outgoing] : sends_) next = next.sooner(outgoing.transfer.deadline);
  for (const auto& [lane, transfers] : posted_) {
    for (const Transfer& transfer : transfers) next = next.sooner(transfer.deadline);
  }
  for (const auto& [key, in] : incoming_) next = next.sooner(in.transfer.deadline);
  return next;
}

}  // namespace paceline::collective
