#include "paceline/core/collective/carrier/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;

constexpr std::size_t kLongestCarried = 64 << 10;
constexpr std::size_t kCarriedBudget = 1 << 20;  // for each peer
// The bytes that the peer keeps about a message besides its payload.
constexpr std::size_t kCarriedCost = 128;
constexpr std::size_t kPiece = 1 << 20;
// A link holds at most this number of a send's pieces at a time, because the frames of other
// operations stand behind them.
constexpr std::size_t kPiecesAhead = 4;

// The oldest entry of two lanes' fronts; `end` stands for none.
template <typename Iterator>
Iterator older(Iterator a, Iterator b, Iterator end) {
  if (a == end || b == end) return a == end ? b : a;
  return a->second.front().order < b->second.front().order ? a : b;
}

// Takes the front; lanes that are empty are dropped, so that tags used once leave nothing behind.
template <typename Lanes>
auto take_front(Lanes& lanes, typename Lanes::iterator lane) {
  auto front = std::move(lane->second.front());
  lane->second.pop_front();
  if (lane->second.empty()) lanes.erase(lane);
  return front;
}

}  // namespace

void PointToPoint::finish(const Transfer& transfer, std::optional<Failure> failure) {
  ++traffic_.operations;
  transfer.work->finish(std::move(failure));
}

void PointToPoint::send(Transfer transfer) {
  due_ = due_.sooner(transfer.deadline).sooner(transfer.stalls);
  const std::uint64_t id = next_id_++;
  const int peer = transfer.peer;
  const Bytes bytes = transfer.source.bytes();
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes.size();
  Announced announcement{.id = id, .dtype = transfer.source.dtype, .count = transfer.source.count};
  transport::Link* link = members_.link(peer);
  if (link == nullptr) {  // to itself
    announcement.carried = true;
    announcement.payload.assign(bytes.begin(), bytes.end());
    const auto tag = transfer.tag;
    finish(transfer, std::nullopt);
    if (auto met = announced(peer, tag, std::move(announcement)); !met)
      members_.generation().fail(met.error());
    return;
  }
  std::size_t& carried = carried_bytes_[peer];
  const std::size_t cost = bytes.size() + kCarriedCost;
  // A rank that has left will not receive it: then the send waits, and fails.
  const bool carry = bytes.size() < kLongestCarried && carried + cost <= kCarriedBudget &&
                     !members_.has_departed(peer);
  transport::WireWriter w;
  w.integer(announcement.dtype).integer(std::uint8_t{carry}).integer(announcement.count);
  if (carry) w.raw(bytes);
  note_send(peer, transfer.tag, id);
  link->send({.type = frame::kAnnounce, .sequence = id, .index = transfer.tag, .group = group_},
             w.bytes());
  if (carry) {
    carried += cost;
    carried_.emplace(Key{peer, id}, Carried{transfer.tag, cost});
    next_is_wanted(peer, transfer.tag);
    finish(transfer, std::nullopt);
  } else {
    const bool is_wanted = next_is_wanted(peer, transfer.tag);
    sends_.emplace(id, Outgoing{.transfer = std::move(transfer)});
    if (is_wanted) begin(id);
  }
}

// --- who meets whom ------------------------------------------------------------------------------

PointToPoint::Lanes<PointToPoint::Announced>::iterator PointToPoint::oldest_for(
    const Transfer& recv) {
  if (recv.peer != kAnyRank) return unexpected_.find({recv.tag, recv.peer});
  auto oldest = unexpected_.end();
  for (auto lane = unexpected_.lower_bound({recv.tag, 0});
       lane != unexpected_.end() && lane->first.first == recv.tag; ++lane) {
    oldest = older(oldest, lane, unexpected_.end());
  }
  return oldest;
}

PointToPoint::Lanes<PointToPoint::Transfer>::iterator PointToPoint::oldest_recv_of(
    int peer, std::uint32_t tag) {
  return older(posted_.find({tag, peer}), posted_.find({tag, kAnyRank}), posted_.end());
}

void PointToPoint::recv(Transfer transfer) {
  due_ = due_.sooner(transfer.deadline).sooner(transfer.stalls);
  const auto waiting = oldest_for(transfer);
  if (waiting == unexpected_.end()) {
    transfer.order = next_order_++;
    want(transfer);
    posted_[{transfer.tag, transfer.peer}].push_back(std::move(transfer));
    ++posted_count_;
    return;
  }
  transfer.peer = waiting->first.second;
  if (auto met = meet(std::move(transfer), take_front(unexpected_, waiting)); !met)
    members_.generation().fail(met.error());
}

Result<> PointToPoint::announced(int peer, std::uint32_t tag, Announced announcement) {
  const auto posted = oldest_recv_of(peer, tag);
  if (posted == posted_.end()) {
    announcement.order = next_order_++;
    unexpected_[{tag, peer}].push_back(std::move(announcement));
    return Done{};
  }
  Transfer transfer = take_front(posted_, posted);
  transfer.peer = peer;
  --posted_count_;
  return meet(std::move(transfer), std::move(announcement));
}

Result<> PointToPoint::meet(Transfer transfer, Announced announcement) {
  transfer.work->source = transfer.peer;
  if (announcement.dtype != transfer.target.dtype || announcement.count != transfer.target.count) {
    Failure failure = members_.failure(
        Fault::mismatch,
        fmt::format("{} sent {}[{}] with tag {} where {} receives {}[{}]; send and recv must agree "
                    "in dtype and count",
                    members_.name(transfer.peer), name_of(announcement.dtype), announcement.count,
                    transfer.tag, members_.name(members_.rank()), name_of(transfer.target.dtype),
                    transfer.target.count),
        {transfer.peer, members_.rank()});
    finish(transfer, failure);
    return failure;
  }
  const FrameHeader matched{.type = frame::kMatched, .sequence = announcement.id, .group = group_};
  if (transport::Link* link = members_.link(transfer.peer); link != nullptr && !transfer.is_wanted)
    link->send(matched, {});
  if (announcement.carried) {
    std::ranges::copy(announcement.payload, transfer.target.data);
    finish(transfer, std::nullopt);
  } else if (transfer.target.size_bytes() == 0) {  // no piece will come
    finish(transfer, std::nullopt);
  } else {
    const Key key{transfer.peer, announcement.id};
    transfer.is_met = true;
    incoming_.emplace(key, Incoming{.transfer = std::move(transfer)});
  }
  return Done{};
}

// Tells the sender which of its sends this recv will take: the oldest of its lane that this rank
// has not heard of, after those for which recvs wait already. A recv from any rank that waits may
// take one of them, so then nothing is told.
void PointToPoint::want(Transfer& recv) {
  if (recv.peer == kAnyRank || recv.target.size_bytes() < kLongestCarried ||
      posted_.contains({recv.tag, kAnyRank}))
    return;
  transport::Link* const link = members_.link(recv.peer);
  if (link == nullptr) return;
  const auto before = posted_.find({recv.tag, recv.peer});
  link->send({.type = frame::kWanted,
              .sequence = heard_[recv.peer],
              .index = recv.tag,
              .descriptor = before == posted_.end() ? 0 : before->second.size(),
              .group = group_},
             {});
  recv.is_wanted = true;
}

void PointToPoint::note_send(int peer, std::uint32_t tag, std::uint64_t id) {
  unheard_[{tag, peer}].push_back(id);
  unheard_of_peer_[peer].emplace_back(id, tag);
}

// Announcements arrive in their order: the peer has heard of all up to this one.
void PointToPoint::note_heard(int peer, std::uint64_t id) {
  auto& sends = unheard_of_peer_[peer];
  while (!sends.empty() && sends.front().first <= id) {
    take_front(unheard_, unheard_.find({sends.front().second, peer}));
    sends.pop_front();
  }
}

void PointToPoint::wanted(int peer, const FrameHeader& header) {
  const std::uint64_t place = header.descriptor;
  note_heard(peer, header.sequence);
  const auto lane = unheard_.find({header.index, peer});
  const std::size_t known = lane == unheard_.end() ? 0 : lane->second.size();
  if (place >= known) {
    Wanted& wanted = wanted_[{header.index, peer}];
    wanted.which.push_back(wanted.sent + place - known);
    return;
  }
  // A carried one does not fit that recv, as the peer tells when it hears of it.
  const auto send = sends_.find(lane->second[place]);
  if (send != sends_.end() && !send->second.transfer.is_met) begin(send->first);
}

// Counts a send; whether the peer waits for it already.
bool PointToPoint::next_is_wanted(int peer, std::uint32_t tag) {
  const auto lane = wanted_.find({tag, peer});
  if (lane == wanted_.end()) return false;
  Wanted& wanted = lane->second;
  const bool is_wanted = wanted.which.front() == wanted.sent++;
  if (is_wanted) wanted.which.pop_front();
  if (wanted.which.empty()) wanted_.erase(lane);
  return is_wanted;
}

void PointToPoint::begin(std::uint64_t id) {
  const auto send = sends_.find(id);
  send->second.transfer.is_met = true;
  if (send->second.transfer.source.size_bytes() > 0) send_pieces(id, send->second);
  else finish(sends_.extract(send).mapped().transfer, std::nullopt);
}

std::size_t PointToPoint::pieces_of(const Outgoing& outgoing) {
  return (outgoing.transfer.source.size_bytes() + kPiece - 1) / kPiece;
}

void PointToPoint::send_pieces(std::uint64_t id, Outgoing& outgoing) {
  const Bytes bytes = outgoing.transfer.source.bytes();
  while (outgoing.given < pieces_of(outgoing) && outgoing.unsent < kPiecesAhead) {
    const std::size_t begin = outgoing.given * kPiece;
    ++outgoing.unsent;
    members_.link(outgoing.transfer.peer)
        ->send({.type = frame::kMessage,
                .sequence = id,
                .index = static_cast<std::uint32_t>(outgoing.given++),
                .group = group_},
               bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)), this, id);
  }
}

void PointToPoint::sent(std::uint64_t cookie) {
  const auto found = sends_.find(cookie);
  if (found == sends_.end()) return;
  Outgoing& outgoing = found->second;
  moved_[outgoing.transfer.peer] = Clock::now();
  --outgoing.unsent;
  if (outgoing.given < pieces_of(outgoing)) return send_pieces(cookie, outgoing);
  if (outgoing.unsent == 0) finish(sends_.extract(found).mapped().transfer, std::nullopt);
}

Result<> PointToPoint::matched(int peer, std::uint64_t id) {
  note_heard(peer, id);
  if (const auto carried = carried_.extract(Key{peer, id})) {
    carried_bytes_[peer] -= carried.mapped().cost;
    return Done{};
  }
  const auto found = sends_.find(id);
  if (found == sends_.end() || found->second.transfer.peer != peer ||
      found->second.transfer.is_met) {
    return members_.failure(
        Fault::io, fmt::format("{} matched a send that is not there", members_.name(peer)), {peer});
  }
  begin(id);
  return Done{};
}

MutableBytes PointToPoint::place(int peer, const FrameHeader& header) {
  const auto found =
      header.type == frame::kMessage ? incoming_.find({peer, header.sequence}) : incoming_.end();
  if (found == incoming_.end()) return {};
  const MutableBytes target = found->second.transfer.target.bytes();
  const std::size_t begin = std::size_t{header.index} * kPiece;
  if (begin >= target.size() || std::min(kPiece, target.size() - begin) != header.length) return {};
  return target.subspan(begin, header.length);
}

Result<> PointToPoint::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  const auto malformed = [&] {
    return members_.failure(Fault::io,
                            fmt::format("{} sent a malformed {} frame", members_.name(peer),
                                        members_.generation().frame_kinds().name_of(header.type)),
                            {peer});
  };
  if (header.type == frame::kAnnounce) {
    transport::WireReader r(payload);
    Announced announcement{.id = header.sequence};
    announcement.dtype = r.integer<Dtype>();
    announcement.carried = r.integer<std::uint8_t>() != 0;
    announcement.count = r.integer<std::uint64_t>();
    const std::size_t longest =
        kLongestCarried / std::max<std::size_t>(1, size_of(announcement.dtype));
    const bool sane = r.ok() && is_known(announcement.dtype) &&
                      (!announcement.carried || announcement.count <= longest);
    const std::size_t expected =
        announcement.carried ? announcement.count * size_of(announcement.dtype) : 0;
    if (!sane || r.rest().size() != expected) return malformed();
    announcement.payload.assign(r.rest().begin(), r.rest().end());
    heard_[peer] = header.sequence;
    return announced(peer, header.index, std::move(announcement));
  }
  if (header.type == frame::kMatched) return matched(peer, header.sequence);
  if (header.type == frame::kWanted) {
    wanted(peer, header);
    return Done{};
  }
  const auto found = incoming_.find({peer, header.sequence});
  if (!placed || found == incoming_.end()) return malformed();
  moved_[peer] = Clock::now();
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
  unexpected_.clear();
  posted_count_ = 0;
  for (const auto& [id, outgoing] : sends) finish(outgoing.transfer, why);
  for (const auto& [lane, transfers] : posted) {
    for (const Transfer& transfer : transfers) finish(transfer, why);
  }
  for (const auto& [key, in] : incoming) finish(in.transfer, why);
}

// --- who waits -----------------------------------------------------------------------------------

template <typename Self, typename Function>
void PointToPoint::each_waiting(Self& self, const Function& function) {
  for (auto& [id, outgoing] : self.sends_)
    function("send", outgoing.transfer, outgoing.transfer.source, "to");
  for (auto& [lane, transfers] : self.posted_) {
    for (auto& transfer : transfers) function("recv", transfer, transfer.target, "from");
  }
  for (auto& [key, in] : self.incoming_) function("recv", in.transfer, in.transfer.target, "from");
}

std::string PointToPoint::describe(std::string_view what, const Transfer& t, ConstBuffer buffer,
                                   std::string_view side) const {
  return fmt::format("{} {}[{}] {} {}, tag {}", what, name_of(buffer.dtype), buffer.count, side,
                     t.peer == kAnyRank ? "any rank" : members_.name(t.peer), t.tag);
}

std::string PointToPoint::waits_for(int peer) const {
  std::string words;
  each_waiting(*this, [&](std::string_view what, const Transfer& t, ConstBuffer buffer,
                          std::string_view side) {
    if (words.empty() && t.peer == peer) words = describe(what, t, buffer, side);
  });
  return words;
}

std::vector<std::string> PointToPoint::stalled(Clock::time_point now, Clock::duration patience) {
  std::vector<std::string> all;
  each_waiting(*this,
               [&](std::string_view what, Transfer& t, ConstBuffer buffer, std::string_view side) {
                 if (!t.stalls.passed(now)) return;
                 const auto moved = t.is_met ? moved_.find(t.peer) : moved_.end();
                 const bool moves = moved != moved_.end() && now < moved->second + patience;
                 t.stalls = moves ? Deadline::at(moved->second + patience) : Deadline::never();
                 if (!moves) all.push_back(describe(what, t, buffer, side));
               });
  due_ = soonest();
  return all;
}

std::string PointToPoint::unreceived_from(int peer) const {
  for (const auto& [lane, announcements] : unexpected_) {
    if (lane.second != peer) continue;
    const Announced& first = announcements.front();
    return fmt::format("send {}[{}] to {}, tag {}", name_of(first.dtype), first.count,
                       members_.name(members_.rank()), lane.first);
  }
  return {};
}

std::optional<Failure> PointToPoint::overdue(Clock::time_point now) {
  if (!due_.passed(now)) return std::nullopt;
  std::optional<int> late;
  std::string what_is_late;
  each_waiting(*this, [&](std::string_view what, const Transfer& t, ConstBuffer buffer,
                          std::string_view side) {
    if (late || !t.deadline.passed(now)) return;
    late = t.peer;
    what_is_late = describe(what, t, buffer, side);
  });
  if (!late) return std::nullopt;
  std::string text = fmt::format(
      "{}: {} was not met by {} before its deadline (paceline run --operation-timeout "
      "TIME sets it)",
      members_.name(members_.rank()), what_is_late,
      *late == kAnyRank ? "any rank" : members_.name(*late));
  if (*late == kAnyRank) return members_.failure(Fault::timed_out, std::move(text), {});
  const std::string instead = unreceived_from(*late);
  if (!instead.empty()) text += fmt::format("; it has called {} instead", instead);
  return members_.failure(Fault::timed_out, std::move(text), {*late});
}

Deadline PointToPoint::soonest() const {
  Deadline next;
  each_waiting(*this, [&](std::string_view, const Transfer& t, ConstBuffer, std::string_view) {
    next = next.sooner(t.deadline).sooner(t.stalls);
  });
  return next;
}

}  // namespace paceline::collective
