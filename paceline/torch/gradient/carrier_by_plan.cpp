#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "paceline/core/base/reduce.h"
#include "paceline/torch/gradient/gradient_carrier.h"

namespace paceline::parallel {
namespace {

using schedule::Group;
using schedule::Model;
using schedule::Plan;

// Where the groups will lie is said with each load.
std::vector<Buffer> no_memory_yet(const Model& model, const Plan& plan, Dtype dtype) {
  std::vector<Buffer> buffers;
  for (const Group& group : plan.groups) {
    const auto bytes = static_cast<std::size_t>(schedule::bytes_of(model, group));
    buffers.push_back({nullptr, bytes / size_of(dtype), dtype});
  }
  return buffers;
}

// Groups in the order of their first messages.
std::vector<std::size_t> order_of_groups(const Plan& plan) {
  std::vector<std::size_t> order;
  for (const int group : plan.order) {
    const auto g = static_cast<std::size_t>(group);
    if (std::ranges::find(order, g) == order.end()) order.push_back(g);
  }
  if (!order.empty()) return order;
  order.resize(plan.groups.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

class CarrierByPlan final : public GradientCarrier {
 public:
  CarrierByPlan(Communicator& group, const Model& model, const Plan& plan, Dtype dtype,
                double mean_weight, std::vector<std::uint32_t> parameters)
      : groups_(plan.groups),
        order_(order_of_groups(plan)),
        loads_(groups_.size()),
        usual_weight_(mean_weight),
        parameters_(std::move(parameters)),
        notes_group_(group.split(0)),
        path_(group, model, plan, no_memory_yet(model, plan, dtype)) {
    begin();
  }

  void carry(std::size_t group, GradientLoad load) override {
    GradientLoad& mine = loads_[group] = std::move(load);
    const double weight = mine.note.weight.weight;
    if (is_coded(group)) scale_by(group, weight / usual_weight_);
    path_.load(static_cast<int>(group), mine.gradients, weight);
    for (int place = groups_[group].begin; place < groups_[group].end; ++place) path_.ready(place);
    is_carried_[group] = true;
    while (started_ < order_.size() && is_carried_[order_[started_]]) ++started_;
    if (started_ == order_.size()) tell();
  }

  std::size_t started() const override { return started_; }

  bool wait(std::size_t group) override {
    path_.wait(groups_[group].begin);
    if (path_.take_overflow(static_cast<int>(group))) return false;
    if (is_coded(group)) scale_by(group, correction());
    return true;
  }

  std::vector<StepNote> notes(std::size_t group) override {
    told_.wait();
    const std::size_t length = own_note_.size();
    std::vector<StepNote> notes;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const Bytes all = std::span(all_notes_).subspan(rank * length, length);
      notes.push_back(decode_step_note(all.subspan(note_begins_[group]), gradients_of(group)));
    }
    return notes;
  }

  void end() override {
    if (const double sum = total_weight(); sum > 0)
      usual_weight_ = sum / static_cast<double>(ranks());
    begin();
  }

  double seconds_under_way() override { return path_.seconds_under_way(); }
  schedule::GradientPath::CodecWork codec_work() override { return path_.codec_work(); }

  std::vector<std::byte> state() override {
    return compresses() ? path_.state(parameters_) : handed_on_;
  }
  void restore(std::vector<std::byte> state) override {
    if (!compresses()) handed_on_ = std::move(state);
    else if (!state.empty()) path_.restore(state, parameters_);
  }

 private:
  void begin() {
    is_carried_.assign(groups_.size(), false);
    started_ = 0;
  }

  std::size_t ranks() const { return static_cast<std::size_t>(notes_group_->size()); }
  bool is_coded(std::size_t group) const { return groups_[group].codec != schedule::kUncompressed; }
  bool compresses() const {
    return std::ranges::any_of(
        groups_, [](const Group& group) { return group.codec != schedule::kUncompressed; });
  }
  std::size_t gradients_of(std::size_t group) const {
    return static_cast<std::size_t>(groups_[group].end - groups_[group].begin);
  }

  // All groups' notes, one after the other.
  void tell() {
    own_note_.clear();
    note_begins_.clear();
    for (const GradientLoad& load : loads_) {
      note_begins_.push_back(own_note_.size());
      const auto note = encode(load.note);
      own_note_.insert(own_note_.end(), note.begin(), note.end());
    }
    all_notes_.resize(own_note_.size() * ranks());
    told_ = notes_group_->all_gather({own_note_.data(), own_note_.size(), Dtype::u8},
                                     {all_notes_.data(), all_notes_.size(), Dtype::u8});
  }

  double total_weight() {
    double sum = 0;
    for (const StepNote& note : notes(0)) sum += note.weight.weight;
    return sum;
  }

  // A codec's mean counts all ranks alike, so each brings its gradient times its weight, in units
  // of the ranks' mean weight: in others, what a codec keeps for the next step would count for more
  // or less there. It is known when all have told theirs: in the next step. What the weights
  // changed meanwhile is put right afterwards.
  double correction() {
    const double sum = total_weight();
    return sum > 0 ? static_cast<double>(ranks()) * usual_weight_ / sum : 1;
  }
  void scale_by(std::size_t group, double factor) {
    const Buffer& buffer = loads_[group].gradients;
    if (factor != 1) scale(buffer.dtype, {buffer.data, buffer.size_bytes()}, factor);
  }

  const std::vector<Group> groups_;
  const std::vector<std::size_t> order_;
  std::vector<GradientLoad> loads_;  // by group
  std::vector<bool> is_carried_;     // by group
  std::size_t started_ = 0;
  double usual_weight_;
  const std::vector<std::uint32_t> parameters_;  // by place of the send order
  std::vector<std::byte> handed_on_;             // state of a carrier before this one

  std::vector<std::byte> own_note_, all_notes_;
  std::vector<std::size_t> note_begins_;  // by group
  std::unique_ptr<Communicator> notes_group_;
  Work told_;
  schedule::GradientPath path_;
};

}  // namespace

std::unique_ptr<GradientCarrier> carrier_by_plan(Communicator& group, const Model& model,
                                                 const Plan& plan, Dtype dtype, double mean_weight,
                                                 std::vector<std::uint32_t> parameters) {
  return std::make_unique<CarrierByPlan>(group, model, plan, dtype, mean_weight,
                                         std::move(parameters));
}

}  // namespace paceline::parallel
