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

bool share_memory(const Members& members) {
  const topology::Topology topology = members.topology();
  return topology.hosts.size() == 1 && topology.within_a_host == topology::LinkClass::memory;
}

}  // namespace

Group::Group(std::uint32_t id, std::string name, std::shared_ptr<transport::Reactor> reactor,
             Members members, std::shared_ptr<Engine> engine)
    : id_(id),
      name_(std::move(name)),
      reactor_(std::move(reactor)),
      members_(std::move(members)),
      engine_(std::move(engine)),
      waited_(std::make_shared<std::atomic<std::int64_t>>(0)),
      point_to_point_(members_, id, traffic_),
      share_memory_(share_memory(members_)),
      board_calls_(members_, id, traffic_),
      link_calls_(members_, id, traffic_),
      posted_calls_(share_memory_ ? static_cast<PostedCalls&>(board_calls_) : link_calls_) {}

std::shared_ptr<Work::State> Group::new_work(std::string description) {
  auto work = std::make_shared<Work::State>(reactor_, waited_);
  work->description = std::move(description);
  return work;
}

// --- calls of this rank --------------------------------------------------------------------------

void Group::submit(const std::shared_ptr<Group>& group, Request request) {
  group->reactor_->post(
      [group, r = std::make_shared<Request>(std::move(request))] { group->begin(std::move(*r)); });
}

void Group::submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin(t, &PointToPoint::send); });
}

void Group::submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer) {
  group->reactor_->post([group, t = std::move(transfer)] { group->begin(t, &PointToPoint::recv); });
}

bool Group::posts(const Call& call) const {
  return BoardCalls::suits(call, members_.size()) &&
         (share_memory_ || LinkCalls::takes(call.count * size_of(call.dtype), members_.size()));
}

bool Group::try_at_once(const Request& request) {
  // About what it takes to hand over to another thread and back.
  constexpr int kLooks = 64;
  using Progress = PostedCalls::Progress;
  bool done = false, woke = false;
  reactor_->try_drive([&] {
    const bool idle = !current_ && queue_.empty() && early_.empty() && !mesh().failure();
    if (!idle || !posted_calls_.ready() || reactor_->trace().enabled()) return;
    posted_ = next_sequence_;
    posted_calls_.post(posted_, request);
    for (int look = 0; look < kLooks && !done; ++look) {
      if (!share_memory_) reactor_->look();
      const auto progress = posted_calls_.advance(posted_, request);
      if (!progress || progress.value() == Progress::by_messages) break;  // it ends where it waits
      if (progress.value() == Progress::waiting) reactor_->relax();
      else look = 0;
      done = progress.value() == Progress::done;
    }
    woke = board_calls_.take_woke();
    if (!done) return;
    ++next_sequence_;
    ++traffic_.operations;
    reactor_->status().operation_passed();
  });
  if (woke) reactor_->post([] {});  // a turn, which sends the frame
  return done;
}

void Group::begin(Request request) {
  if (const auto failure = mesh().failure()) return request.work->finish(*failure);
  queued_until_ = queued_until_.sooner(request.deadline);
  queue_.push_back(std::move(request));
  note_activity();
  if (current_) arm_timer();  // it may be due before what it waits behind
  else begin_next();
}

void Group::begin(PointToPoint::Transfer transfer,
                  void (PointToPoint::*how)(PointToPoint::Transfer)) {
  if (const auto failure = mesh().failure()) return transfer.work->finish(*failure);
  transfer.stalls = Deadline::in(kStall);
  (point_to_point_.*how)(std::move(transfer));
  note_activity();
  check_departed();
  arm_timer();
}

void Group::begin_next() {
  while (!current_ && !queue_.empty() && !mesh().failure()) {
    current_ =
        std::make_unique<Execution>(members_, posted_calls_, id_, next_sequence_++,
                                    std::move(queue_.front()), traffic_, [this] { go_on(); });
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
      if (!taken) mesh().fail(taken.error());
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
  if (current_->request().by_engine && !carried_by_engine()) return;
  carriage_.reset();
  current_->publish();
  ++traffic_.operations;
  board_calls_.meet();
  const auto work = current_->request().work;
  current_.reset();
  work->finish(std::nullopt);
}

// Every rank has made the call: the engine gets it, and its data are there when the engine says so.
bool Group::carried_by_engine() {
  if (carriage_) return carriage_->done();
  carriage_ = std::make_unique<Carriage>(*engine_, *reactor_, current_->request(), current_->roll(),
                                         [this](const Result<>& ended) {
                                           if (ended) go_on();
                                           else mesh().fail(ended.error());
                                         });
  const auto begun = carriage_->begin(members_.rank(), members_.size());
  if (!begun) mesh().fail(begun.error());
  return false;
}

void Group::go_on() {
  end_current_if_done();
  if (!current_) begin_next();
}

// Looks for what no frame tells of.
bool Group::poll() {
  if (!current_) return false;
  // A rank that works on the same operation is soon through with its piece.
  constexpr int kLooks = 16;
  auto moved = current_->look_at_post();
  for (int look = 1; look < kLooks && moved && !moved.value() && current_->works_posted(); ++look) {
    reactor_->relax();
    moved = current_->look_at_post();
  }
  if (!moved) mesh().fail(moved.error());
  else if (moved.value()) go_on();
  return !moved || moved.value();
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
  if (header.type == FrameType::posted) return link_calls_.place(from, header);
  return current_ && header.sequence == current_->sequence() ? current_->place(from, header)
                                                             : MutableBytes();
}

Result<> Group::received(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  const auto from = member(peer);
  if (!from) return from.error();
  if (is_point_to_point(header.type)) {
    auto taken = point_to_point_.received(from.value(), header, payload, placed);
    note_activity();
    return taken;
  }
  if (header.type == FrameType::posted) return posted(from.value(), header, payload, placed);
  if (!current_ || header.sequence != current_->sequence())
    return keep_early(peer, header, payload, false);
  auto taken = header.type == FrameType::call
                   ? called(from.value(), payload)
                   : current_->received(from.value(), header, payload, placed);
  if (taken && !replaying_) go_on();
  return taken;
}

Result<> Group::borrowed(int peer, const FrameHeader& header, Bytes payload) {
  const auto from = member(peer);
  if (!from) return from.error();
  if (!current_ || header.sequence != current_->sequence())
    return keep_early(peer, header, payload, true);
  auto taken = current_->borrowed(from.value(), header, payload);
  if (taken && !replaying_) go_on();
  return taken;
}

// Of an operation that this rank has not begun.
bool Group::may_come(std::uint64_t sequence) const {
  const std::uint64_t last = posted_ == next_sequence_ ? posted_ + 1 : next_sequence_;
  return next_sequence_ <= sequence && sequence <= last;
}

Failure Group::out_of_turn(int world_rank, std::uint64_t sequence) const {
  return {Fault::io,
          fmt::format("rank {} sent a frame of operation {} while rank {} comes to {} of group "
                      "'{}': a bug, please report it",
                      world_rank, sequence, mesh().identity().rank, next_sequence_, name_),
          {world_rank}};
}

Result<> Group::posted(int peer, const FrameHeader& header, Bytes payload, bool placed) {
  const bool is_current = current_ && header.sequence == current_->sequence();
  if (share_memory_ || !(is_current || may_come(header.sequence)))
    return out_of_turn(members_.world_rank(peer), header.sequence);
  auto taken = link_calls_.received(peer, header, payload, placed);
  if (taken && is_current) poll();
  return taken;
}

Result<> Group::keep_early(int peer, const FrameHeader& header, Bytes payload, bool borrowed) {
  if (!may_come(header.sequence) || early_.size() >= kMostEarlyFrames)
    return out_of_turn(peer, header.sequence);
  EarlyFrame& frame = early_.emplace_back(EarlyFrame{peer, header, {}, {}});
  if (borrowed) frame.borrowed = payload;
  else frame.payload.assign(payload.begin(), payload.end());
  return Done{};
}

Result<> Group::called(int peer, Bytes payload) {
  auto call = decode_call(payload);
  if (!call || current_->roll().call_of(peer)) {
    return members_.failure(Fault::io, fmt::format("{} sent a malformed call", members_.name(peer)),
                            {peer});
  }
  if (const auto mismatch = compare(peer, *call)) return *mismatch;
  return current_->peer_called(peer, std::move(*call));
}

// Against our own call; and where each pair of ranks has something to agree in, against every call
// that has come: nobody may begin before all pairs do.
std::optional<Failure> Group::compare(int peer, const Call& theirs) const {
  const bool pairwise = theirs.operation == Operation::all_to_all;
  for (int other = pairwise ? 0 : members_.rank();
       other < (pairwise ? members_.size() : members_.rank() + 1); ++other) {
    const auto& call = current_->roll().call_of(other);
    if (!call || matches(*call, other, theirs, peer)) continue;
    const int low = std::min(peer, other), high = std::max(peer, other);
    return members_.failure(
        Fault::mismatch,
        fmt::format("the ranks do not do the same: in {} {} called {}, {} called {}; every rank "
                    "must call the same operations in the "
                    "same order with matching arguments",
                    where(), members_.name(low), to_string(low == peer ? theirs : *call),
                    members_.name(high), to_string(high == peer ? theirs : *call)),
        {low, high});
  }
  return std::nullopt;
}

// What a peer has called here that this rank has not.
std::string Group::heard_of(int peer) const {
  const int from = members_.member(peer);
  if (from < 0) return {};
  for (const EarlyFrame& frame : early_) {
    if (frame.peer != peer || frame.header.type != FrameType::call) continue;
    if (const auto call = decode_call(frame.payload)) {
      return fmt::format("{} (operation {} of group '{}')", to_string(*call), frame.header.sequence,
                         name_);
    }
  }
  const std::string sent = point_to_point_.unreceived_from(from);
  return sent.empty() ? sent : fmt::format("{} (in group '{}')", sent, name_);
}

// --- ends ----------------------------------------------------------------------------------------

void Group::failed(const Failure& why) {
  early_.clear();
  carriage_.reset();
  if (engine_) engine_->abandon();
  posted_calls_.give_up();
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

void Group::departed(int) {
  check_departed();
}

void Group::check_departed() {
  int here = 0;
  for (int peer = 0; peer < members_.size(); ++peer) {
    if (!members_.has_departed(peer)) {
      ++here;
      continue;
    }
    std::string waiting = point_to_point_.waits_for(peer);
    if (waiting.empty() && current_ && std::ranges::count(current_->missing(), peer) > 0) {
      waiting = fmt::format("{} ({})", to_string(current_->request().call), where());
    }
    if (waiting.empty()) continue;
    return mesh().fail(members_.failure(
        Fault::peer_lost,
        fmt::format("{} has left the job while {} waits for it in {}; all ranks must call the same "
                    "operations before they end",
                    members_.name(peer), members_.name(members_.rank()), waiting),
        {peer}));
  }
  const std::string waiting = here > 1 ? "" : point_to_point_.waits_for(kAnyRank);
  if (waiting.empty() || members_.size() == 1) return;
  mesh().fail(members_.failure(Fault::peer_lost,
                               fmt::format("all other ranks have left the job while {} waits in {}",
                                           members_.name(members_.rank()), waiting),
                               {}));
}

void Group::abort(const std::shared_ptr<Group>& group, std::string reason) {
  group->reactor_->post([group, reason = std::move(reason)] {
    const Members& members = group->members_;
    group->mesh().fail(
        members.failure(Fault::cancelled,
                        fmt::format("{} aborted group '{}': {}", members.name(members.rank()),
                                    group->name_, reason),
                        {members.rank()}));
  });
}

void Group::open() {
  reactor_->run([this] {
    mesh().subscribe(id_, this);
    if (share_memory_) board_calls_.open();
    reactor_->add(*this);
  });
}

void Group::close() {
  reactor_->run([this] {
    const bool busy = current_ || !queue_.empty() || !point_to_point_.idle();
    if (busy && !mesh().failure()) {
      mesh().fail({Fault::cancelled,
                   fmt::format("rank {} ended group '{}' while operations were in flight; wait for "
                               "every Work first",
                               mesh().identity().rank, name_),
                   {mesh().identity().rank}});
    }
    mesh().subscribe(id_, nullptr);
    board_calls_.close();
    reactor_->remove(*this);
    mesh().release_group(id_);
    if (timer_) reactor_->poller().cancel(*timer_);
    timer_.reset();
    closed_ = true;
  });
}

// --- time ----------------------------------------------------------------------------------------

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

// One timer for all: a due one looks what is late, and is set again only while something is in
// flight.
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

// "rank 0 waits in all_reduce f32[10] sum (operation 3 of group 'world') for rank 2, which has not
// called it; .."
std::string Group::whom_it_waits_for() const {
  const auto missing = current_->missing();
  std::string whom;
  if (!missing.empty()) {
    whom = fmt::format("{}, which {} not called it", members_.names(missing),
                       missing.size() == 1 ? "has" : "have");
    for (const int rank : missing) {
      const std::string instead = mesh().heard_of(members_.world_rank(rank));
      if (!instead.empty())
        whom += fmt::format("; {} has called {} instead", members_.name(rank), instead);
    }
  } else if (carriage_) {
    whom = "the data, which the library of its engine carries; every rank has called it";
  } else {
    const auto awaited = current_->awaited();
    whom = awaited.empty() ? "its messages to be taken"
                           : fmt::format("data of {}, which {} called it", members_.names(awaited),
                                         awaited.size() == 1 ? "has" : "have");
  }
  return fmt::format("{} waits in {} ({}) for {}", members_.name(members_.rank()),
                     to_string(current_->request().call), where(), whom);
}

void Group::on_timer() {
  timer_.reset();
  const auto now = Clock::now();
  if (auto late = point_to_point_.overdue(now)) return mesh().fail(std::move(*late));
  for (const std::string& transfer : point_to_point_.stalled(now)) {
    fmt::print(stderr, "paceline: stall: for {} s {} waits in {}\n", kStall.count(),
               members_.name(members_.rank()), transfer);
  }
  // What waits behind the current operation may be due before it.
  const auto late =
      std::ranges::find_if(queue_, [now](const Request& r) { return r.deadline.passed(now); });
  queued_until_ = {};
  for (const Request& request : queue_) queued_until_ = queued_until_.sooner(request.deadline);
  const bool due = current_ && (current_->request().deadline.passed(now) || late != queue_.end());
  if (current_ && (due || (!stall_told_ && now >= current_since_ + kStall))) {
    const std::string waits = whom_it_waits_for();
    if (due) {
      auto blamed = current_->missing();
      if (blamed.empty()) blamed = current_->awaited();
      const std::string behind =
          late == queue_.end() ? "" : fmt::format(", and {} behind it", to_string(late->call));
      const std::string remedy = blamed.empty()
                                     ? "look what the other ranks do"
                                     : fmt::format("look what {} {}", members_.names(blamed),
                                                   blamed.size() == 1 ? "does" : "do");
      return mesh().fail(members_.failure(
          Fault::timed_out, fmt::format("deadline: {}{}; {}", waits, behind, remedy), blamed));
    }
    fmt::print(stderr, "paceline: stall: for {} s {}\n", kStall.count(), waits);
    stall_told_ = true;
  }
  arm_timer();
}

std::string Group::where() const {
  return fmt::format("operation {} of group '{}'", current_ ? current_->sequence() : next_sequence_,
                     name_);
}

}  // namespace paceline::collective
