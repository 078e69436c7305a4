#include "paceline/core/collective/carrier/link_carrier.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/collective/call/collective_frames.h"

namespace paceline::collective {

using transport::FrameHeader;

std::size_t LinkCarrier::longest_input(int ranks, bool on_a_host) {
  if (ranks == 2) return kLongestInput;
  const std::size_t sent = on_a_host ? kLongestSentOnAHost : kLongestSentOverLinks;
  return sent / static_cast<std::size_t>(std::max(ranks - 1, 1));
}

LinkCarrier::LinkCarrier(const Members& members, std::uint32_t group, Traffic& traffic)
    : members_(members),
      group_(group),
      traffic_(traffic),
      longest_(longest_input(members.size(), members.topology().hosts.size() == 1)),
      posts_(static_cast<std::size_t>(members.size())),
      tree_sum_(members.size(), longest_) {}

// The input is sent from where it lies: nobody writes there before the operation is done, and it is
// not done before all is sent.
Result<> LinkCarrier::begin(std::uint64_t sequence, Request& request) {
  request_ = &request;
  if (posted_ == sequence) return Done{};
  posted_ = sequence;
  const FrameHeader header{.type = frame::kPosted,
                           .sequence = sequence,
                           .descriptor = request.fingerprint,
                           .group = group_};
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    if (link == nullptr) continue;
    ++unsent_;
    if (request.input.count > 0) ++traffic_.messages_sent;
    traffic_.bytes_sent += request.input.size_bytes();
    link->send(header, request.input.bytes(), this);
  }
  return Done{};
}

bool LinkCarrier::has_posted(int rank, std::uint64_t sequence) const {
  return posts_[static_cast<std::size_t>(rank)][sequence % 2].sequence == sequence;
}

Result<CallProgress> LinkCarrier::advance() {
  bool all = unsent_ == 0;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (rank == members_.rank()) continue;
    if (!has_posted(rank, posted_)) {
      all = false;
      continue;
    }
    const Post& theirs = post_of(rank, posted_);
    if (theirs.fingerprint != request_->fingerprint || theirs.bytes != request_->input.size_bytes())
      return CallProgress::by_messages;
  }
  if (!all) return CallProgress::waiting;
  sum();
  return CallProgress::done;
}

void LinkCarrier::sum() {
  const Request& request = *request_;
  if (request.output.count == 0) return;
  inputs_.clear();
  for (int rank = 0; rank < members_.size(); ++rank) {
    const std::byte* const bytes =
        rank == members_.rank() ? request.input.data : post_of(rank, posted_).input.data();
    inputs_.push_back({bytes, request.input.count, request.input.dtype});
  }
  const double factor = request.call.op == ReduceOp::average ? 1.0 / members_.size() : 1.0;
  tree_sum_(request.call.op, inputs_, request.output, factor);
  traffic_.bytes_reduced +=
      request.output.size_bytes() * static_cast<std::size_t>(members_.size() - 1);
}

// Gives places only to posts of the operation that this rank is in: no place is given up before
// that ends, even if the group fails.
MutableBytes LinkCarrier::place(int peer, const FrameHeader& header) {
  Post& post = post_of(peer, header.sequence);
  const bool wanted =
      header.sequence == posted_ && post.sequence != header.sequence && takes(header.length);
  if (!wanted) return {};
  post.input.resize(std::max<std::size_t>(post.input.size(), header.length));
  return MutableBytes(post.input).first(header.length);
}

Result<> LinkCarrier::received(int peer, const FrameHeader& header, Bytes payload,
                               Delivery delivery) {
  Post& post = post_of(peer, header.sequence);
  if (post.sequence == header.sequence || !takes(payload.size())) {
    return members_.failure(
        Fault::io,
        fmt::format("{} posted operation {} twice, or with {} bytes: a bug, please report it",
                    members_.name(peer), header.sequence, payload.size()),
        {peer});
  }
  post.sequence = header.sequence;
  post.fingerprint = header.descriptor;
  post.bytes = payload.size();
  if (delivery == Delivery::placed) return Done{};
  post.input.resize(std::max(post.input.size(), payload.size()));
  std::ranges::copy(payload, post.input.begin());
  return Done{};
}

}  // namespace paceline::collective
