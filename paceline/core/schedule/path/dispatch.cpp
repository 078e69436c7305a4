#include "paceline/core/schedule/path/dispatch.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {
namespace {

// Parts shorter than kLongPart may be cut anywhere.
constexpr std::size_t kBlock = 1024, kLongPart = 16 * kBlock;

}  // namespace

Dispatch::Dispatch(const Model& model, MessagePlan plan, std::vector<std::size_t> element_bytes)
    : plan_(std::move(plan)), element_bytes_(std::move(element_bytes)) {
  check(plan_, model.size());
  element_bytes_.resize(plan_.groups.size(), sizeof(float));
  for (const MessageGroup& group : plan_.groups) add_group(model, group);
  std::vector<std::size_t> sent(groups_.size());
  for (const int group : order()) {
    const auto g = static_cast<std::size_t>(group);
    const std::size_t part = sent[g]++;
    messages_.push_back({group, begin_of_part(model, g, part), begin_of_part(model, g, part + 1)});
  }
  begin_step();
}

// Long parts begin where the cut costs codecs nothing: at a row of the tensor, so that its pieces
// are matrices, or else at a whole block, so that pieces are even and keep their buckets.
std::size_t Dispatch::begin_of_part(const Model& model, std::size_t group, std::size_t part) const {
  const std::size_t elements = groups_[group].elements;
  const auto parts = static_cast<std::size_t>(groups_[group].parts);
  const std::size_t begin = elements * part / parts, length = elements / parts;
  if (part == parts || length < kLongPart) return begin;
  const MessageGroup& planned = plan_.groups[group];
  if (planned.codec != kUncompressed) {
    int place = planned.end - 1;
    while (offset(place) > begin) --place;
    const std::size_t columns = columns_of(model.sent(place), element_bytes_[group]);
    if (columns > 0 && columns <= length)
      return offset(place) + (begin - offset(place)) / columns * columns;
  }
  return begin / kBlock * kBlock;
}

void Dispatch::add_group(const Model& model, const MessageGroup& group) {
  State state{.tensors = group.end - group.begin, .parts = parts_of(model, group)};
  for (int place = group.begin; place < group.end; ++place) {
    group_of_.push_back(static_cast<int>(groups_.size()));
    offset_.push_back(state.elements);
    elements_.push_back(model.sent(place).bytes / element_bytes_[groups_.size()]);
    state.elements += elements_.back();
  }
  groups_.push_back(state);
}

std::vector<int> Dispatch::order() const {
  std::vector<int> one_after_the_other;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto parts = static_cast<std::size_t>(groups_[g].parts);
    one_after_the_other.insert(one_after_the_other.end(), parts, static_cast<int>(g));
  }
  if (plan_.order.empty()) {
    const bool has_priorities = std::ranges::any_of(
        plan_.groups, [](const MessageGroup& g) { return g.priority.has_value(); });
    PACELINE_CHECK(!has_priorities, "plan {} has priorities and no order: carry out ordered(plan)",
                   plan_.name);
    return one_after_the_other;
  }
  PACELINE_CHECK(std::ranges::is_permutation(plan_.order, one_after_the_other),
                 "the order of plan {} does not hold each of its {} messages once", plan_.name,
                 one_after_the_other.size());
  return plan_.order;
}

void Dispatch::begin_step() {
  for (State& group : groups_) {
    group.missing = group.tensors;
    group.to_come = group.parts;
  }
  next_ = returned_ = 0;
}

void Dispatch::ready(int place) {
  State& group = groups_[static_cast<std::size_t>(group_of(place))];
  PACELINE_CHECK(group.missing > 0, "place {} of the send order is ready twice in a step", place);
  --group.missing;
}

std::optional<int> Dispatch::following() const {
  if (next_ == messages_.size() || groups_[group_of_message(next_)].missing > 0)
    return std::nullopt;
  return static_cast<int>(next_);
}

std::optional<int> Dispatch::next() {
  const auto message = following();
  if (message) ++next_;
  return message;
}

bool Dispatch::back(int message) {
  State& group = groups_[group_of_message(static_cast<std::size_t>(message))];
  const bool is_whole = --group.to_come == 0;
  if (++returned_ == messages_.size()) begin_step();
  return is_whole;
}

void SendingWindow::begin(int message, std::size_t bytes) {
  messages_.push_back({message, bytes});
}

void SendingWindow::shorten(int message, std::size_t bytes) {
  messages_[position(message)].bytes = bytes;
}

bool SendingWindow::may_transfer(int message) const {
  return admits(position(message), 0);
}

void SendingWindow::end(int message) {
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(position(message)));
}

std::size_t SendingWindow::position(int message) const {
  const auto found = std::ranges::find(messages_, message, &Message::number);
  PACELINE_CHECK(found != messages_.end(), "message {} has not begun", message);
  return static_cast<std::size_t>(found - messages_.begin());
}

bool SendingWindow::admits(std::size_t earlier, std::size_t prepared) const {
  if (earlier < sent_ + prepared) return true;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < earlier; ++i) bytes += messages_[i].bytes;
  return bytes < kShortBytes;
}

}  // namespace paceline::schedule
