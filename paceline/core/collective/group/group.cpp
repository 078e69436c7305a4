#include "paceline/core/collective/group/group.h"

#include <fmt/format.h>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/group/choose_route.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;
using transport::FrameType;

constexpr std::size_t kMostEarlyFrames = 1 << 16;

bool is_point_to_point(FrameType type) {
  return type == frame::kAnnounce || type == frame::kWanted || type == frame::kMatched ||
         type == frame::kMessage;
}

}  // namespace

Group::Group(std::uint32_t id, std::string name, std::shared_ptr<transport::Reactor> reactor,
             Members members, std::shared_ptr<Engine> engine, std::chrono::milliseconds stall_time)
    : id_(id),
      name_(std::move(name)),
      reactor_(std::move(reactor)),
      members_(std::move(members)),
      engine_(std::move(engine)),
      stall_time_(stall_time),
      waited_(std::make_shared<std::atomic<std::int64_t>>(0)),
      point_to_point_(members_, id, traffic_),
      share_memory_(RouteFacts::of(members_, nullptr).shares_memory),
      board_(members_, id),
      board_carrier_(members_, id, traffic_, board_),
      kernels_(members_, traffic_, board_,
               [this](const Request& request, StagedCall::Moment moment) {
                 staged_.await(request.staged, moment, *request.work, request.deadline);
               }),
      links_(members_, id, traffic_),
      staged_(
          *reactor_,
          [this] {
            carry_late_sends();
            device_went_on();
          },
          [this](const Failure& why) {
            generation().fail(members_.failure(
                why.fault, fmt::format("{} waits {}", members_.name(members_.rank()), why.what),
                {members_.rank()}));
          }),
      context_{.members = members_,
               .group = id,
               .group_name = name_,
               .reactor = *reactor_,
               .posting = share_memory_ ? static_cast<PostingCarrier&>(board_carrier_) : links_,
               .kernels = share_memory_ ? &kernels_ : nullptr,
               .engine = engine_.get(),
               .traffic = traffic_,
               .stage = [this](Request& request) { return stage_now(request); },
               .await_streams =
                   [this](const Request& request) {
                     staged_.await(request.staged, StagedCall::Moment::called, *request.work,
                                   request.deadline);
                   },
               .on_done = [this] { go_on(); }},
      stalls_(members_, stall_time) {}

std::shared_ptr<Work::State> Group::new_work(std::string description) {
  try {
    check_alive();
  } catch (const Error& error) {
    throw Error(in_operation(description, error.failure()));
  }
  auto work = std::make_shared<Work::State>(reactor_, waited_);
  work->description = std::move(description);
  return work;
}

// --- calls of this rank --------------------------------------------------------------------------

void Group::check_alive() const {
  constexpr std::chrono::seconds kLongestEnd{5};  // it waits for no other rank
  reactor_->check_process();
  if (!generation().is_failing()) return;
  const auto has_ended = [this] { return generation().failure().has_value(); };
  if (!reactor_->driven_by_this_thread())
    reactor_->drive_until(has_ended, Deadline::in(kLongestEnd));
  if (const auto failure = generation().failure()) throw Error(*failure);
}

void Group::submit(const std::shared_ptr<Group>& group, Request request) {
  group->reactor_->post(
      [group, r = std::make_shared<Request>(std::move(request))] { group->begin(std::move(*r)); });
}

void Group::submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin_send(t); });
}

void Group::submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin(t, &PointToPoint::recv); });
}

bool Group::try_at_once(Request& request) {
  // About what it takes to hand over to another thread and back.
  constexpr int kLooks = 64;
  PostingCarrier& posting = context_.posting;
  bool done = false, woke = false;
  reactor_->try_drive([&] {
    const bool idle = !current_ && queue_.empty() && early_.empty() && !generation().failure();
    const bool ready = idle && posting.stand() == PostingCarrier::Stand::ready;
    if (!ready || reactor_->trace().enabled()) return;
    posted_ = next_sequence_;
    (void)posting.begin(posted_, request);
    for (int look = 0; look < kLooks && !done; ++look) {
      if (!share_memory_) reactor_->look();
      auto progress = posting.advance();
      if (!progress || *progress == CallProgress::by_messages) break;  // it ends where it waits
      done = *progress == CallProgress::done;
      if (*progress == CallProgress::moved) look = 0;
      else if (!done) reactor_->relax();
    }
    woke = board_.take_woke();
    if (!done) return;
    ++next_sequence_;
    ++traffic_.operations;
    reactor_->status().operation_passed();
  });
  if (woke) reactor_->post([] {});  // a turn, which sends the frame
  return done;
}

void Group::begin(Request request) {
  if (request.staged) bring_back_later(request);
  if (const auto failure = generation().failure()) return request.work->finish(*failure);
  if (request.staged && request.staged->is_staged())
    staged_.await(request.staged, StagedCall::Moment::input, *request.work, request.deadline);
  queued_until_ = queued_until_.sooner(request.deadline);
  queue_.push_back(std::move(request));
  be_looked_at();
  note_activity();
  if (current_ || !may_begin(queue_.front()))
    arm_timer();  // it may be due before what it waits for
  else begin_next();
}

// A call that has ended on the host has still to come back to the device.
void Group::bring_back_later(const Request& request) {
  request.work->detour([this, call = request.staged, deadline = request.deadline,
                        weak = std::weak_ptr(request.work)](const std::optional<Failure>& why) {
    const auto work = weak.lock();
    if (why || !work) {
      call->settle();
      return false;
    }
    if (!call->is_staged()) return false;
    staged_.bring_back(call, work, deadline);
    return true;
  });
}

bool Group::may_begin(const Request& request) const {
  return !request.staged || !request.staged->is_staged() || request.staged->has_begun_to_come();
}

// A call that was to go between devices cannot.
Result<> Group::stage_now(Request& request) {
  try {
    request.staged->stage(/*apart=*/true);
  } catch (const Error& error) {
    return error.failure();
  }
  request.input = request.staged->input();
  request.output = request.staged->output();
  staged_.await(request.staged, StagedCall::Moment::input, *request.work, request.deadline);
  return Done{};
}

void Group::device_went_on() {
  if (current_) {
    if (auto went_on = current_->device_went_on(); !went_on)
      return generation().fail(went_on.error());
    end_current_if_done();
  }
  begin_next();
}

void Group::begin(PointToPoint::Transfer transfer,
                  void (PointToPoint::*how)(PointToPoint::Transfer)) {
  if (const auto failure = generation().failure()) return transfer.work->finish(*failure);
  if (transfer.tells_stalls) transfer.stalls = Deadline::in(stall_time_);
  (point_to_point_.*how)(std::move(transfer));
  note_activity();
  check_departed();
  arm_timer();
}

void Group::begin_send(PointToPoint::Transfer transfer) {
  if (!late_sends_.has_any_to(transfer.peer))
    return begin(std::move(transfer), &PointToPoint::send);
  late_sends_.add(std::move(transfer), nullptr);
  arm_timer();
}

void Group::begin_next() {
  while (!current_ && !queue_.empty() && may_begin(queue_.front()) && !generation().failure()) {
    current_ =
        std::make_unique<ActiveOperation>(context_, next_sequence_++, std::move(queue_.front()));
    queue_.pop_front();
    stalls_.begin(movement());
    begun_at_ = Clock::now();
    if (const auto begun = current_->start(); !begun) generation().fail(begun.error());
    const auto early = std::exchange(early_, {});
    replaying_ = true;
    for (const EarlyFrame& frame : early) {
      if (!current_) break;  // it has failed
      auto taken = frame.borrowed.empty()
                       ? take(frame.peer, frame.header, frame.payload, Delivery::payload)
                       : take(frame.peer, frame.header, frame.borrowed, Delivery::borrowed);
      if (!taken) generation().fail(taken.error());
    }
    replaying_ = false;
    check_departed();
    arm_timer();
    end_current_if_done();
  }
  note_activity();
}

void Group::end_current_if_done() {
  if (!current_ || !current_->done()) return;
  if (current_->request().route != Route::engine && !board_.meet()) return;
  current_->publish();
  ++traffic_.operations;
  const auto work = current_->request().work;
  current_.reset();
  work->finish(std::nullopt);
}

void Group::go_on() {
  end_current_if_done();
  if (!current_) begin_next();
}

void Group::be_looked_at() {
  idle_looks_ = 0;
  if (std::exchange(is_looked_at_, true)) return;
  reactor_->add(*this);
  set_asleep(reactor_->is_asleep());
}

// Looks for progress that no frame announces.
bool Group::poll() {
  // A call that waits for a device begins without a frame or a call of this rank.
  if (!current_ && queue_.empty() && ++idle_looks_ >= kIdleLooks) {
    reactor_->remove(*this);
    is_looked_at_ = false;
  }
  if (!current_) return false;
  if (current_->done()) {  // all posted bytes have left
    const std::uint64_t sequence = current_->sequence();
    go_on();
    return !current_ || current_->sequence() != sequence;
  }
  constexpr int kLooks = 16;
  auto progress = current_->look_at_post();
  for (int look = 1; look < kLooks && progress && *progress == CallProgress::soon; ++look) {
    reactor_->relax();
    progress = current_->look_at_post();
  }
  if (!progress) generation().fail(progress.error());
  else if (*progress == CallProgress::moved) go_on();
  return !progress || *progress == CallProgress::moved;
}

// --- frames of other ranks -----------------------------------------------------------------------

Result<int> Group::member(int world_rank) const {
  const int member = members_.member(world_rank);
  if (member >= 0) return member;
  return Failure{Fault::io,
                 fmt::format("rank {} sent a frame of group '{}', of which it is no member",
                             world_rank, name_),
                 {world_rank}};
}

MutableBytes Group::place(int peer, const FrameHeader& header) {
  const int from = members_.member(peer);
  if (from < 0) return {};
  if (is_point_to_point(header.type)) return point_to_point_.place(from, header);
  if (header.type == frame::kPosted) return links_.place(from, header);
  return current_ && header.sequence == current_->sequence() ? current_->place(from, header)
                                                             : MutableBytes();
}

Result<> Group::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  return take(peer, header, payload, placed ? Delivery::placed : Delivery::payload);
}

Result<> Group::borrowed(int peer, const FrameHeader& header, Bytes payload) {
  return take(peer, header, payload, Delivery::borrowed);
}

Result<> Group::take(int peer, const FrameHeader& header, Bytes payload, Delivery delivery) {
  auto from = member(peer);
  if (!from) return from.error();
  if (is_point_to_point(header.type)) {
    auto taken = point_to_point_.received(*from, header, payload, delivery == Delivery::placed);
    note_activity();
    return taken;
  }
  if (header.type == frame::kPosted) return posted(*from, header, payload, delivery);
  if (!current_ || header.sequence != current_->sequence()) {
    return header.sequence < next_sequence_ ? past(peer, header)
                                            : keep_early(peer, header, payload, delivery);
  }
  ++frames_received_;
  auto taken = current_->received(*from, header, payload, delivery);
  if (taken && !replaying_) go_on();
  return taken;
}

// Whether a frame of this operation may arrive before this rank has begun it.
bool Group::may_come(std::uint64_t sequence) const {
  const std::uint64_t last = posted_ == next_sequence_ ? posted_ + 1 : next_sequence_;
  return next_sequence_ <= sequence && sequence <= last;
}

Failure Group::out_of_turn(int world_rank, std::uint64_t sequence) const {
  return {Fault::io,
          fmt::format("rank {} sent a frame of operation {} while rank {} comes to {} of group "
                      "'{}': a bug, please report it",
                      world_rank, sequence, generation().identity().rank, next_sequence_, name_),
          {world_rank}};
}

Result<> Group::posted(int peer, const FrameHeader& header, Bytes payload, Delivery delivery) {
  const bool is_current = current_ && header.sequence == current_->sequence();
  if (share_memory_ || !(is_current || may_come(header.sequence)))
    return out_of_turn(members_.world_rank(peer), header.sequence);
  auto taken = links_.received(peer, header, payload, delivery);
  if (taken && is_current) poll();
  return taken;
}

Result<> Group::keep_early(int peer, const FrameHeader& header, Bytes payload, Delivery delivery) {
  if (!may_come(header.sequence) || early_.size() >= kMostEarlyFrames)
    return out_of_turn(peer, header.sequence);
  EarlyFrame& frame = early_.emplace_back(EarlyFrame{peer, header, {}, {}});
  if (delivery == Delivery::borrowed) frame.borrowed = payload;
  else frame.payload.assign(payload.begin(), payload.end());
  return Done{};
}

// A frame of an operation that has ended here: calls and assents may cross on the way.
Result<> Group::past(int peer, const FrameHeader& header) {
  if (header.type != frame::kCall && header.type != frame::kAssent)
    return out_of_turn(peer, header.sequence);
  if (header.type == frame::kCall)
    confirm_all(members_, members_.member(peer), id_, header.sequence);
  return Done{};
}

// The call that a peer has made here and this rank has not.
std::string Group::pending_call_of(int peer) const {
  const int from = members_.member(peer);
  if (from < 0) return {};
  for (const EarlyFrame& early : early_) {
    if (early.peer != peer || early.header.type != frame::kCall) continue;
    if (const auto call = decode_call(early.payload)) {
      return fmt::format("{} (operation {} of group '{}')", to_string(*call), early.header.sequence,
                         name_);
    }
  }
  const std::string sent = point_to_point_.unreceived_from(from);
  return sent.empty() ? sent : fmt::format("{} (in group '{}')", sent, name_);
}

}  // namespace paceline::collective
