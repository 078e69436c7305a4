#include "paceline/core/schedule/simulation/simulate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/simulation/processor_share.h"

namespace paceline::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kLaps = 8;          // at most, across the barrier
constexpr int kLapsAveraged = 3;  // the last laps
constexpr double kSteady = 1e-9;  // periods that differ by fewer seconds count as equal

// A message of a group; all of them are alike.
struct Message {
  Occupancy occupancy;
  double encode = 0, decode = 0, wire = 0;
};

struct GroupState {
  Message message;
  int messages = 1, tensors = 1;
  double encode = 0, decode = 0;  // seconds for the whole group
  double bytes = 0;
  int priority = 0;
  int tensors_to_come = 0, messages_to_come = 0;
  int delivered_laps = 0;
};

// Consecutive messages of a group in a queue.
struct Batch {
  int group = 0, count = 1;
  int priority = 0;
  std::uint64_t order = 0;
  bool operator<(const Batch& other) const {  // for a heap whose top is the most urgent
    return priority != other.priority ? priority > other.priority : order > other.order;
  }
};

// An event at a time; of two at the same time, the one foreseen first comes first.
struct Event {
  double time = kNever;
  std::uint64_t order = 0;
  int group = 0;
  bool is_before(const Event& other) const {
    return time != other.time ? time < other.time : order < other.order;
  }
};

// The remaining work of a resource that shares its processor.
struct Progress {
  double left = 0, since = 0;  // seconds left at full speed, counted from the time `since`
  double speed = 1;
};

class Iteration {
 public:
  Iteration(const Model& model, const Costs& costs, const MessagePlan& plan,
            const Conditions& conditions)
      : model_(model),
        plan_(plan),
        conditions_(conditions),
        forward_(model.forward()),
        processors_(costs.processors),
        processors_of_link_(costs.links.processors),
        compute_threads_(costs.compute_threads) {
    check(plan, model.size());
    window_ = plan.window_bytes > 0 ? static_cast<double>(plan.window_bytes) : kNever;
    credit_ = window_;
    for (const MessageGroup& group : plan.groups) add(group, costs);
  }

  double run(double limit) {
    const double tail = after_last_lap();
    advance();
    pump();
    while (lap_ < kLaps) {
      if (!plan_.crosses_barrier && now_ + tail > limit) return kNever;
      if (!step()) break;
      advance();
      pump();
    }
    if (!plan_.crosses_barrier) return lap_ends_.back() + tail;
    const std::size_t last = lap_ends_.size() - 1;
    const std::size_t averaged = std::min<std::size_t>(kLapsAveraged, last);
    return (lap_ends_[last] - lap_ends_[last - averaged]) / static_cast<double>(averaged);
  }

  // The groups of the messages of the last whole lap, in the order in which they went to the link.
  std::vector<int> order() {
    std::vector<int> order;
    sent_ = &order;
    run(kNever);
    std::size_t messages = 0;
    for (const GroupState& group : groups_) messages += static_cast<std::size_t>(group.messages);
    order.resize(order.size() / messages * messages);
    return {order.end() - static_cast<std::ptrdiff_t>(messages), order.end()};
  }

 private:
  enum class Stage { forward, gradient, encoded, next, barrier };
  enum Resource { kCompute, kEncoder, kUp, kDown, kDecoder, kResources };

  void add(const MessageGroup& group, const Costs& costs) {
    const CodecCost& codec = costs.codec(group.codec);
    GroupState state;
    state.bytes = bytes_of(model_, group);
    state.messages = state.messages_to_come = parts_of(model_, group);
    state.tensors = state.tensors_to_come = group.end - group.begin;
    state.priority = group.priority.value_or(0);
    for (int place = group.begin; place < group.end; ++place) {
      group_of_.push_back(static_cast<int>(groups_.size()));
      const Tensor& tensor = model_.sent(place);
      const auto bytes = static_cast<double>(tensor.bytes);
      if (bytes < kLeastCompressed) continue;
      state.encode += bytes * codec.of(tensor.offer).encode;
      state.decode += bytes * codec.of(tensor.offer).decode;
    }
    const double wire = wire_bytes(model_, group, codec) / state.messages;
    state.message = {occupancy(costs.links, group.path, wire, codec), state.encode / state.messages,
                     state.decode / state.messages, wire};
    groups_.push_back(state);
  }

  double after_last_lap() const {
    double decoding = 0;
    if (conditions_.encodes_on_compute)
      for (const GroupState& group : groups_) decoding += group.decode;
    const double speed = share_of(processors_, {compute_threads_, 0}).worker;
    return model_.update() / speed + decoding;
  }

  // The group of a tensor, by its forward index.
  int group_of(int tensor) const {
    return group_of_[static_cast<std::size_t>(model_.size() - 1 - tensor)];
  }
  GroupState& state(int group) { return groups_[static_cast<std::size_t>(group)]; }
  const Tensor& tensor(int index) const { return model_.tensors[static_cast<std::size_t>(index)]; }

  Event in(double seconds, int group) { return {now_ + seconds, next_order_++, group}; }
  bool is_busy(Resource resource) const { return ends_[resource].time < kNever; }
  void start(Resource resource, double seconds, int group) {
    ends_[resource] = in(seconds, group);
    progress_[resource] = {seconds, now_, 1};
  }
  // The speed that busy links leave to the computation.
  double speed() const {
    return is_up_held_ || is_down_held_ ? 1 / (1 + conditions_.interference) : 1;
  }

  void compute(double seconds) {
    start(kCompute, seconds, 0);
    go_on_at(speed() * share_of_computation_, kCompute);
  }

  // Sets which directions are held, and slows the running computation accordingly.
  void hold_links(bool up, bool down) {
    is_up_held_ = up;
    is_down_held_ = down;
    go_on_at(speed() * share_of_computation_, kCompute);
  }

  // Sets the speed of all resources to their share of the processors.
  void share_processors() {
    if (processors_ == kNever) return;
    const auto works = [this](Resource resource) { return is_busy(resource) ? 1 : 0; };
    const double workers = works(kEncoder) + works(kDecoder) + works(kCompute) * compute_threads_;
    const bool is_held = is_busy(kUp) || is_busy(kDown);
    const ProcessorShare share =
        share_of(processors_, {workers, is_held ? processors_of_link_ : 0});
    for (const Resource resource : {kEncoder, kUp, kDown, kDecoder}) {
      const bool is_link = resource == kUp || resource == kDown;
      go_on_at(is_link ? share.link : share.worker, resource);
    }
    if (compute_threads_ == 0) return;
    share_of_computation_ = share.worker;
    go_on_at(speed() * share_of_computation_, kCompute);
  }

  void go_on_at(double speed, Resource resource) {
    Progress& progress = progress_[resource];
    if (!is_busy(resource) || progress.speed == speed) return;
    const double done = (now_ - progress.since) * progress.speed;
    progress = {std::max(0.0, progress.left - done), now_, speed};
    ends_[resource].time = now_ + progress.left / speed;
  }

  void make_ready(int group, int count) {
    ready_.push_back({group, count, state(group).priority, next_order_++});
    std::push_heap(ready_.begin(), ready_.end());
  }

  void release(int group) {
    const GroupState& released = state(group);
    if (released.message.encode > 0 && !conditions_.encodes_on_compute)
      to_encode_.push_back({group, released.messages});
    else make_ready(group, released.messages);
  }

  void receive(int group) {
    const Message& message = state(group).message;
    credit_ = std::min(window_, credit_ + message.wire);
    if (message.decode > 0 && !conditions_.encodes_on_compute) to_decode_.push_back({group, 1});
    else deliver(group);
  }

  void deliver(int group) {
    GroupState& delivered = state(group);
    if (--delivered.messages_to_come > 0) return;
    ++delivered.delivered_laps;
    delivered.messages_to_come = delivered.messages;
  }

  static int take_one(std::deque<Batch>& queue) {
    const int group = queue.front().group;
    if (--queue.front().count == 0) queue.pop_front();
    return group;
  }

  // Hands ready messages to the link as far as the window allows.
  void hand_over() {
    while (!ready_.empty() && credit_ > 0) {
      Batch& top = ready_.front();
      const int count = credit_ == kNever ? top.count : 1;
      if (credit_ < kNever) credit_ -= state(top.group).message.wire;
      to_send_.push_back({top.group, count});
      if (sent_) sent_->insert(sent_->end(), static_cast<std::size_t>(count), top.group);
      top.count -= count;
      if (top.count > 0) continue;
      std::pop_heap(ready_.begin(), ready_.end());
      ready_.pop_back();
    }
  }

  // Starts all work that can start.
  void pump() {
    if (!to_encode_.empty() && !is_busy(kEncoder)) {
      const int group = take_one(to_encode_);
      start(kEncoder, state(group).message.encode, group);
    }
    hand_over();
    if (!to_send_.empty() && !is_up_held_) send_next();
    if (!to_pull_.empty() && !is_down_held_) {
      const int group = take_one(to_pull_);
      hold_links(is_up_held_, true);
      start(kDown, state(group).message.occupancy.down, group);
    }
    if (!to_decode_.empty() && !is_busy(kDecoder)) {
      const int group = take_one(to_decode_);
      start(kDecoder, state(group).message.decode, group);
    }
    share_processors();
  }

  void send_next() {
    const Occupancy& occupancy = state(to_send_.front().group).message.occupancy;
    if (occupancy.is_joint && is_down_held_) return;
    const int group = take_one(to_send_);
    hold_links(true, is_down_held_ || occupancy.is_joint);
    start(kUp, occupancy.up, group);
  }

  // Advances to the next event. Returns false if there is none.
  bool step() {
    const auto soonest = std::ranges::min_element(
        ends_, [](const Event& a, const Event& b) { return a.is_before(b); });
    if (!turning_.empty() && turning_.front().is_before(*soonest)) {
      std::ranges::pop_heap(turning_, is_later);
      now_ = turning_.back().time;
      const int group = turning_.back().group;
      turning_.pop_back();
      if (state(group).message.occupancy.is_joint) receive(group);
      else to_pull_.push_back({group, 1});
      return true;
    }
    const Event event = *soonest;
    if (event.time == kNever) return false;
    now_ = event.time;
    *soonest = Event{};
    end(static_cast<Resource>(soonest - ends_.begin()), event.group);
    return true;
  }

  void end(Resource resource, int group) {
    const Occupancy& occupancy = state(group).message.occupancy;
    if (resource == kEncoder) make_ready(group, 1);
    if (resource == kDecoder) deliver(group);
    if (resource == kUp) {
      hold_links(false, is_down_held_ && !occupancy.is_joint);
      turning_.push_back(in(occupancy.wait, group));
      std::ranges::push_heap(turning_, is_later);
    }
    if (resource == kDown) {
      hold_links(is_up_held_, false);
      receive(group);
    }
  }
  static bool is_later(const Event& a, const Event& b) { return b.is_before(a); }

  // Advances the computation until it is busy or has to wait.
  void advance() {
    while (!is_busy(kCompute) && lap_ < kLaps) {
      if (stage_ == Stage::forward) {
        if (!advance_forward()) return;
      } else if (stage_ == Stage::gradient && position_ < model_.size()) {
        gradient_is_ready();
      } else if (stage_ == Stage::encoded) {
        release(group_of(position_));
        stage_ = Stage::next;
      } else if (stage_ == Stage::barrier) {
        const bool is_over = std::ranges::all_of(
            groups_, [this](const GroupState& g) { return g.delivered_laps > lap_; });
        if (!is_over) return;
        lap_ends_.push_back(now_);
        lap_ = kLaps;
      } else if (position_ == 0) {
        end_backward();
      } else {
        stage_ = Stage::gradient;
        compute_unless_nothing(tensor(--position_).backward);
      }
    }
  }

  void compute_unless_nothing(double seconds) {
    if (seconds > 0) compute(seconds);
  }

  // Returns false if the next tensor is not back yet.
  bool advance_forward() {
    if (!plan_.crosses_barrier) {
      position_ = model_.size();
      stage_ = Stage::gradient;
      compute(forward_);
      return true;
    }
    if (position_ == model_.size()) {
      stage_ = Stage::gradient;
      return true;
    }
    const GroupState& group = state(group_of(position_));
    if (lap_ > 0 && group.delivered_laps < lap_) return false;
    const Tensor& next = tensor(position_++);
    double seconds = next.forward + (lap_ > 0 ? next.update : 0);
    if (lap_ > 0 && conditions_.encodes_on_compute)
      seconds += group.decode * static_cast<double>(next.bytes) / group.bytes;
    compute_unless_nothing(seconds);
    return true;
  }

  void gradient_is_ready() {
    const int group = group_of(position_);
    GroupState& of_it = state(group);
    stage_ = Stage::next;
    if (--of_it.tensors_to_come > 0) return;
    of_it.tensors_to_come = of_it.tensors;
    if (of_it.encode > 0 && conditions_.encodes_on_compute) {
      stage_ = Stage::encoded;
      compute(of_it.encode);
    } else {
      release(group);
    }
  }

  void end_backward() {
    if (!plan_.crosses_barrier) {
      stage_ = Stage::barrier;
      return;
    }
    lap_ends_.push_back(now_);
    ++lap_;
    stage_ = Stage::forward;
    const auto period = [this](std::size_t i) { return lap_ends_[i] - lap_ends_[i - 1]; };
    const std::size_t last = lap_ends_.size() - 1;
    if (last >= 4 && std::abs(period(last) - period(last - 1)) < kSteady) lap_ = kLaps;
  }

  const Model& model_;
  const MessagePlan& plan_;
  const Conditions& conditions_;
  const double forward_;
  const double processors_, processors_of_link_, compute_threads_;
  std::vector<GroupState> groups_;
  std::vector<int> group_of_;  // by place in the send order
  double window_ = kNever, credit_ = kNever;

  double now_ = 0;
  std::uint64_t next_order_ = 0;
  std::array<Event, kResources> ends_;  // end of the work on each resource
  std::array<Progress, kResources> progress_;
  std::vector<Event> turning_;  // groups pushed that cannot be pulled yet; a heap
  bool is_up_held_ = false, is_down_held_ = false;
  double share_of_computation_ = 1;
  std::deque<Batch> to_encode_, to_send_, to_pull_, to_decode_;
  std::vector<Batch> ready_;  // a heap

  int lap_ = 0, position_ = 0;  // position: forward index
  Stage stage_ = Stage::forward;
  std::vector<double> lap_ends_;  // ends of backward passes; with a barrier, of the transfers
  std::vector<int>* sent_ = nullptr;
};

}  // namespace

double iteration_seconds(const Model& model, const Costs& costs, const MessagePlan& plan,
                         const Conditions& conditions) {
  return iteration_seconds_within(kNever, model, costs, plan, conditions);
}

double iteration_seconds_within(double limit, const Model& model, const Costs& costs,
                                const MessagePlan& plan, const Conditions& conditions) {
  return Iteration(model, costs, plan, conditions).run(limit);
}

MessagePlan ordered(MessagePlan plan, const Model& model, const Costs& costs,
                    const Conditions& conditions) {
  plan.order = Iteration(model, costs, plan, conditions).order();
  return plan;
}

}  // namespace paceline::schedule
