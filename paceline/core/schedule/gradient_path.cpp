#include "paceline/core/schedule/gradient_path.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {
namespace {

constexpr std::size_t kLanes = 2;

void check_carried(const Plan& plan) {
  for (const Group& group : plan.groups) {
    PACELINE_CHECK(group.path == Path::all_to_all,
                   "plan {} sends to servers, and there are none: plan for all_to_all", plan.name);
    PACELINE_CHECK(group.codec == kUncompressed,
                   "plan {} sends with the codec {}, which is not carried yet: plan without codecs",
                   plan.name, group.codec);
  }
}

}  // namespace

GradientPath::GradientPath(Communicator& group, const Model& model, const Plan& plan,
                           std::vector<Buffer> groups)
    : dispatch_(model, plan), buffers_(std::move(groups)) {
  check_carried(plan);
  PACELINE_CHECK(buffers_.size() == plan.groups.size(), "{} buffers for a plan of {} groups",
                 buffers_.size(), plan.groups.size());
  for (std::size_t g = 0; g < buffers_.size(); ++g) {
    const std::size_t elements = dispatch_.elements(static_cast<int>(g));
    PACELINE_CHECK(buffers_[g].dtype == Dtype::f32 && buffers_[g].count == elements,
                   "the buffer of group {} holds {} x {}; it must hold {} x f32", g,
                   buffers_[g].count, name_of(buffers_[g].dtype), elements);
  }
  pending_.resize(buffers_.size());
  for (std::size_t i = 0; i < kLanes; ++i) lanes_.push_back(group.split(0));
  sender_ = std::thread([this] { send_messages(); });
}

GradientPath::~GradientPath() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  {
    const std::lock_guard lock(call_mutex_);
    lanes_.clear();  // what is in flight fails, and nobody waits for it any more
  }
  sender_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return under_way_ == 0; });
}

// --- the caller's side ---------------------------------------------------------------------------

void GradientPath::ready(int place) {
  {
    const std::lock_guard lock(mutex_);
    dispatch_.ready(place);
    pending_[static_cast<std::size_t>(dispatch_.group_of(place))] = true;
  }
  changed_.notify_all();
}

template <typename Done>
void GradientPath::wait_until(const Done& done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || done(); });
  if (failure_) std::rethrow_exception(failure_);
}

void GradientPath::wait(int place) {
  const auto group = static_cast<std::size_t>(dispatch_.group_of(place));
  wait_until([this, group] { return !pending_[group]; });
}

void GradientPath::finish() {
  wait_until([this] { return std::ranges::find(pending_, true) == pending_.end(); });
}

std::vector<GradientPath::Journey> GradientPath::take_journeys() {
  const std::lock_guard lock(mutex_);
  return std::exchange(journeys_, {});
}

// --- the sender ----------------------------------------------------------------------------------

void GradientPath::send_messages() {
  try {
    while (const auto message = next_message()) hand_over(*message);
  } catch (...) {
    fail(std::current_exception());
  }
}

std::optional<int> GradientPath::next_message() {
  std::unique_lock lock(mutex_);
  std::optional<int> message;
  changed_.wait(lock,
                [&] { return stopping_ || failure_ || (message = dispatch_.next()).has_value(); });
  return message;
}

void GradientPath::hand_over(int message) {
  const Dispatch::Message& part = dispatch_.messages()[static_cast<std::size_t>(message)];
  const Buffer& all = buffers_[static_cast<std::size_t>(part.group)];
  Buffer slice = all;
  slice.data += part.begin * sizeof(float);
  slice.count = part.end - part.begin;
  Work work;
  const Journey journey{message, Clock::now(), {}};
  {
    const std::lock_guard lock(call_mutex_);
    if (!lanes_.empty())
      work = lanes_[sequence_++ % kLanes]->all_reduce(slice, {.op = ReduceOp::average});
  }
  {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  work.on_done([this, journey](const Result<>& result) { came_back(journey, result); });
}

void GradientPath::came_back(Journey journey, const Result<>& result) {
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (!result) {
    if (!failure_) failure_ = std::make_exception_ptr(Error(result.error()));
  } else {
    journey.end = Clock::now();
    journeys_.push_back(journey);
    const int group = dispatch_.messages()[static_cast<std::size_t>(journey.message)].group;
    if (dispatch_.back(journey.message)) pending_[static_cast<std::size_t>(group)] = false;
  }
  changed_.notify_all();
}

void GradientPath::fail(std::exception_ptr why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

}  // namespace paceline::schedule
