#include "paceline/core/collective/engine/invitation.h"

#include <fmt/format.h>

#include "paceline/core/collective/call/collective_frames.h"

namespace paceline::collective {

Invitation::Invitation(const Members& members, std::uint32_t group, transport::Reactor& reactor)
    : members_(members), group_(group), reactor_(reactor) {
  if (members_.rank() == 0) return;
  reactor_.run([this] {
    subscribed_ = true;
    members_.generation().subscribe(group_, this);
  });
}

void Invitation::pass_on() {
  if (members_.rank() != 0 || passed_on_) return;
  {
    const std::lock_guard lock(mutex_);
    if (!bytes_) return;
  }
  passed_on_ = true;
  reactor_.run([this] {
    for (int member = 1; member < members_.size(); ++member)
      members_.link(member)->send({.type = frame::kInvitation, .group = group_}, *bytes_);
  });
}

void Invitation::withdraw() {
  reactor_.run([this] {
    if (std::exchange(subscribed_, false)) members_.generation().subscribe(group_, nullptr);
  });
  give({});
}

void Invitation::give(std::vector<std::byte> own) {
  const std::lock_guard lock(mutex_);
  if (!bytes_) bytes_ = std::move(own);
  changed_.notify_all();
}

std::vector<std::byte> Invitation::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return bytes_.has_value(); });
  return *bytes_;
}

// Frames after it belong to the group, which is not made yet: the generation keeps them.
Result<> Invitation::received(int peer, const transport::FrameHeader& header, Bytes payload, bool) {
  if (header.type != frame::kInvitation || peer != members_.world_rank(0)) {
    return members_.failure(
        Fault::io,
        fmt::format("rank {} sent a {} frame to a group that waits for its invitation: a bug, "
                    "please report it",
                    peer, members_.generation().frame_kinds().name_of(header.type)),
        {});
  }
  subscribed_ = false;
  members_.generation().subscribe(group_, nullptr);
  give({payload.begin(), payload.end()});
  return Done{};
}

Result<> Invitation::borrowed(int peer, const transport::FrameHeader& header, Bytes payload) {
  return received(peer, header, payload, false);
}

}  // namespace paceline::collective
