#include <chrono>
#include <optional>
#include <utility>

#include "paceline/torch/gradient/gradient_carrier.h"

namespace paceline::parallel {
namespace {

// All ranks start the same operations in the same order: that of the groups.
class CarrierInOrder final : public GradientCarrier {
 public:
  CarrierInOrder(Communicator& group, const std::vector<schedule::Bucket>& groups)
      : group_(group), waiting_(groups.size()) {
    for (const schedule::Bucket& bucket : groups) gradients_.push_back(bucket.gradients.size());
  }

  void carry(std::size_t group, GradientLoad load) override {
    waiting_[group] = std::move(load);
    while (works_.size() < waiting_.size() && waiting_[works_.size()])
      start(*std::exchange(waiting_[works_.size()], std::nullopt));
  }

  std::size_t started() const override { return works_.size(); }

  bool wait(std::size_t group) override {
    works_[group].wait();
    return true;
  }

  std::vector<StepNote> notes(std::size_t group) override {
    works_[group].wait();
    std::vector<StepNote> notes;
    for (int rank = 0; rank < group_.size(); ++rank)
      notes.push_back(decode_step_note(works_[group].note(rank), gradients_[group]));
    return notes;
  }

  void end() override { works_.clear(); }

  double seconds_under_way() override {
    return std::chrono::duration<double>(group_.traffic().in_flight).count();
  }

  std::vector<std::byte> state() override { return state_; }
  void restore(std::vector<std::byte> state) override { state_ = std::move(state); }

 private:
  void start(const GradientLoad& load) {
    const std::vector<std::byte> note = encode(load.note);
    works_.push_back(group_.all_reduce(
        load.gradients,
        {.op = ReduceOp::average, .weight = load.note.weight.weight, .note = note}));
    works_.back().keep(load.memory);
  }

  Communicator& group_;
  std::vector<std::size_t> gradients_;                // by group: how many
  std::vector<std::optional<GradientLoad>> waiting_;  // by group
  std::vector<Work> works_;                           // by group, as far as started
  std::vector<std::byte> state_;                      // of a carrier before this one
};

}  // namespace

std::unique_ptr<GradientCarrier> carrier_in_order(Communicator& group,
                                                  const std::vector<schedule::Bucket>& groups) {
  return std::make_unique<CarrierInOrder>(group, groups);
}

}  // namespace paceline::parallel
