#include "paceline/core/collective/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "paceline/core/collective/work_state.h"

namespace paceline::collective {
namespace {

using transport::FrameHeader;
using transport::FrameType;

constexpr std::chrono::seconds kStall{5};
constexpr std::size_t kMostEarlyFrames = 1 << 16;

bool is_point_to_point(FrameType type) {
  return type == FrameType::announce || type == FrameType::matched || type == FrameType::message;
}

}  // namespace

Group::Group(std::uint32_t id, std::string name, std::shared_ptr<transport::Reactor> reactor,
             std::shared_ptr<membership::Mesh> mesh)
    : id_(id),
      name_(std::move(name)),
      reactor_(std::move(reactor)),
      mesh_(std::move(mesh)),
      waited_(std::make_shared<std::atomic<std::int64_t>>(0)),
      point_to_point_(*mesh_, id, traffic_) {}

std::shared_ptr<Work::State> Group::new_work(std::string description) {
  auto work = std::make_shared<Work::State>(reactor_, waited_);
  work->description = std::move(description);
  return work;
}

// --- calls of this rank --------------------------------------------------------------------------------------------

void Group::submit(const std::shared_ptr<Group>& group, Request request) {
  group->reactor_->post([group, r = std::make_shared<Request>(std::move(request))] { group->begin(std::move(*r)); });
}

void Group::submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin(t, &PointToPoint::send); });
}

void Group::submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin(t, &PointToPoint::recv); });
}

void Group::begin(Request request) {
  if (const auto failure = mesh_->failure()) return request.work->finish(*failure);
  queued_until_ = queued_until_.sooner(request.deadline);
  queue_.push_back(std::move(request));
  note_activity();
  if (current_) arm_timer();  // it may be due before what it waits behind
  else begin_next();
}

void Group::begin(const PointToPoint::Transfer& transfer, void (PointToPoint::*how)(PointToPoint::Transfer)) {
  if (const auto failure = mesh_->failure()) return transfer.work->finish(*failure);
  (point_to_point_.*how)(transfer);
  note_activity();
  check_departed();
  arm_timer();
}

void Group::begin_next() {
  while (!current_ && !queue_.empty() && !mesh_->failure()) {
    current_ = std::make_unique<Execution>(*mesh_, id_, next_sequence_++, std::move(queue_.front()), traffic_,
                                           [this] { go_on(); });
    queue_.pop_front();
    current_since_ = Clock::now();
    stall_told_ = false;
    current_->start();
    const auto early = std::exchange(early_, {});
    replaying_ = true;
    for (const EarlyFrame& frame : early) {
      if (!current_) break;  // it has failed
      auto taken = frame.borrowed.empty() ? received(frame.peer, frame.header, frame.payload, false)
                                          : borrowed(frame.peer, frame.header, frame.borrowed);
      if (!taken) mesh_->fail(taken.error());
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

// --- frames of other ranks -----------------------------------------------------------------------------------------

MutableBytes Group::place(int peer, const FrameHeader& header) {
  if (is_point_to_point(header.type)) return point_to_point_.place(peer, header);
  return current_ && header.sequence == current_->sequence() ? current_->place(peer, header) : MutableBytes();
}

Result<> Group::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  if (is_point_to_point(header.type)) {
    auto taken = point_to_point_.received(peer, header, payload, placed);
    note_activity();
    return taken;
  }
  if (!current_ || header.sequence != current_->sequence()) return keep_early(peer, header, payload, false);
  auto taken = header.type == FrameType::call ? called(peer, header, payload)
                                              : current_->received(peer, header, payload, placed);
  if (taken && !replaying_) go_on();
  return taken;
}

Result<> Group::borrowed(int peer, const FrameHeader& header, Bytes payload) {
  if (!current_ || header.sequence != current_->sequence()) return keep_early(peer, header, payload, true);
  auto taken = current_->borrowed(peer, header, payload);
  if (taken && !replaying_) go_on();
  return taken;
}

Result<> Group::keep_early(int peer, const FrameHeader& header, Bytes payload, bool borrowed) {
  if (header.sequence != next_sequence_ || early_.size() >= kMostEarlyFrames) {
    return Failure{Fault::io,
                   fmt::format("rank {} sent a frame of operation {} while rank {} comes to {}: a bug, please report it", peer,
                               header.sequence, mesh_->identity().rank, next_sequence_),
                   {peer}};
  }
  EarlyFrame& frame = early_.emplace_back(EarlyFrame{peer, header, {}, {}});
  if (borrowed) frame.borrowed = payload;
  else frame.payload.assign(payload.begin(), payload.end());
  return Done{};
}

Result<> Group::called(int peer, const FrameHeader&, Bytes payload) {
  auto call = decode_call(payload);
  if (!call || current_->has_called(peer)) {
    return Failure{Fault::io, fmt::format("rank {} sent a malformed call", peer), {peer}};
  }
  if (const auto mismatch = compare(peer, *call)) return *mismatch;
  return current_->peer_called(peer, std::move(*call));
}

std::optional<Failure> Group::compare(int peer, const Call& theirs) const {
  const Call& ours = current_->request().call;
  if (matches(ours, theirs)) return std::nullopt;
  const int low = std::min(peer, mesh_->identity().rank), high = std::max(peer, mesh_->identity().rank);
  const Call& low_call = low == peer ? theirs : ours;
  const Call& high_call = low == peer ? ours : theirs;
  return Failure{Fault::mismatch,
                 fmt::format("the ranks do not do the same: in {} rank {} called {}, rank {} called {}; every rank must call the "
                             "same operations in the same order with matching arguments",
                             where(), low, to_string(low_call), high, to_string(high_call)),
                 {low, high}};
}

// --- ends ----------------------------------------------------------------------------------------------------------

void Group::failed(const Failure& why) {
  early_.clear();
  if (current_) {
    const auto work = current_->request().work;
    // It may be in the middle of one of its own methods: it ends when the driver is out of there.
    reactor_->post([dead = std::shared_ptr<Execution>(std::move(current_))] {});
    work->finish(why);
  }
  const auto queue = std::move(queue_);
  queue_.clear();
  for (const Request& request : queue) request.work->finish(why);
  point_to_point_.failed(why);
  note_activity();
}

void Group::departed(int) { check_departed(); }

void Group::check_departed() {
  for (int peer = 0; peer < mesh_->identity().size; ++peer) {
    if (!mesh_->has_departed(peer)) continue;
    std::string waiting = point_to_point_.waits_for(peer);
    if (waiting.empty() && current_ && !current_->has_called(peer)) {
      waiting = fmt::format("{} ({})", to_string(current_->request().call), where());
    }
    if (waiting.empty()) continue;
    return mesh_->fail({Fault::peer_lost,
                        fmt::format("rank {} has left the job while rank {} waits for it in {}; all ranks must call the same "
                                    "operations before they end",
                                    peer, mesh_->identity().rank, waiting),
                        {peer}});
  }
}

void Group::open() {
  reactor_->run([this] { mesh_->subscribe(id_, this); });
}

void Group::close() {
  reactor_->run([this] {
    const bool busy = current_ || !queue_.empty() || !point_to_point_.idle();
    if (busy && !mesh_->failure()) {
      mesh_->fail({Fault::cancelled,
                   fmt::format("rank {} ended group '{}' while operations were in flight; wait for every Work first",
                               mesh_->identity().rank, name_),
                   {mesh_->identity().rank}});
    }
    mesh_->subscribe(id_, nullptr);
    if (timer_) reactor_->poller().cancel(*timer_);
    timer_.reset();
    closed_ = true;
  });
}

// --- time ----------------------------------------------------------------------------------------------------------

void Group::note_activity() {
  const bool active = current_ || !queue_.empty() || !point_to_point_.idle();
  if (active && !active_since_) active_since_ = Clock::now();
  if (!active && active_since_) {
    traffic_.in_flight += Clock::now() - *active_since_;
    active_since_.reset();
  }
}

Traffic Group::traffic() {
  Traffic snapshot;
  const auto take = [&] {
    snapshot = traffic_;
    if (active_since_) snapshot.in_flight += Clock::now() - *active_since_;
  };
  if (reactor_->driven_by_this_thread()) take();
  else reactor_->run(take);
  snapshot.waited = std::chrono::nanoseconds(waited_->load());
  return snapshot;
}

// One timer for all: a due one looks what is late, and is set again only while something is in flight.
void Group::arm_timer() {
  Deadline next = point_to_point_.next_deadline();
  if (!queue_.empty()) next = next.sooner(queued_until_);
  if (current_) {
    next = next.sooner(current_->request().deadline);
    if (!stall_told_) next = next.sooner(Deadline::at(current_since_ + kStall));
  }
  if (next.is_never() || closed_) return;
  if (timer_ && timer_due_ <= next.moment()) return;
  if (timer_) reactor_->poller().cancel(*timer_);
  timer_due_ = next.moment();
  timer_ = reactor_->poller().after(next.left(), [this] { on_timer(); });
}

void Group::on_timer() {
  timer_.reset();
  const auto now = Clock::now();
  if (auto late = point_to_point_.overdue(now)) return mesh_->fail(std::move(*late));
  // What waits behind the current operation may be due before it.
  const auto late = std::ranges::find_if(queue_, [now](const Request& r) { return r.deadline.passed(now); });
  queued_until_ = {};
  for (const Request& request : queue_) queued_until_ = queued_until_.sooner(request.deadline);
  const bool due = current_ && (current_->request().deadline.passed(now) || late != queue_.end());
  if (current_ && (due || (!stall_told_ && now >= current_since_ + kStall))) {
    const auto missing = current_->not_called();
    const std::string waits = fmt::format("rank {} waits in {} ({}) for {}", mesh_->identity().rank,
                                          to_string(current_->request().call), where(),
                                          missing.empty() ? "data of ranks that have called it"
                                                          : fmt::format("rank {}, which has not called it", fmt::join(missing, ", ")));
    if (due) {
      const std::string behind =
          late == queue_.end() ? "" : fmt::format(", and {} behind it", to_string(late->call));
      return mesh_->fail({Fault::timed_out,
                          fmt::format("deadline: {}{}; look what {} instead", waits, behind,
                                      missing.size() == 1 ? "that rank does" : "those ranks do"),
                          missing});
    }
    fmt::print(stderr, "paceline: stall: for {} s {}\n", kStall.count(), waits);
    stall_told_ = true;
  }
  arm_timer();
}

std::string Group::where() const {
  return fmt::format("operation {} of group '{}'", current_ ? current_->sequence() : next_sequence_, name_);
}

}  // namespace paceline::collective
