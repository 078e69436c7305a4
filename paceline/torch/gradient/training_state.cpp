#include "paceline/torch/gradient/training_state.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "paceline/core/base/base.h"
#include "paceline/core/schedule/schedule.h"

namespace paceline::parallel {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr const char* kVersionKey = "paceline_data_parallel";

at::Tensor tensor_of(Bytes bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::vector<std::byte> bytes_of(const at::Tensor& saved) {
  const at::Tensor tensor = saved.to(at::kCPU, at::kByte).contiguous();
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.numel()));
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.const_data_ptr(), bytes.size());
  return bytes;
}

c10::IValue value_of(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value;
}

}  // namespace

void write(torch::serialize::OutputArchive& archive, const TrainingState& state) {
  archive.write(kVersionKey, c10::IValue(kVersion));
  archive.write("options", c10::IValue(state.options));
  archive.write("ranks", c10::IValue(static_cast<std::int64_t>(state.ranks)));
  archive.write("compression", tensor_of(state.compression), /*is_buffer=*/true);
  archive.write("is_decided", c10::IValue(state.decision.has_value()));
  if (!state.decision) return;
  archive.write("order", c10::IValue(std::vector<std::int64_t>(state.decision->order.begin(),
                                                               state.decision->order.end())));
  const auto& plan = state.decision->plan;
  archive.write("plan", c10::IValue(plan ? schedule::json_of(*plan) : std::string()));
  if (const auto& choice = state.decision->choice) {
    archive.write("offers", c10::IValue(std::vector<std::int64_t>(choice->offers.begin(),
                                                                  choice->offers.end())));
    archive.write("norms", c10::IValue(choice->norms));
    archive.write("steps_since_look", c10::IValue(static_cast<std::int64_t>(choice->steps)));
  }
}

TrainingState read_training_state(torch::serialize::InputArchive& archive) {
  c10::IValue version;
  if (!archive.try_read(kVersionKey, version)) {
    throw_misuse(
        "DataParallel::load(): the archive has no state of a DataParallel: give it one that "
        "DataParallel::save() of the same rank has written");
  }
  if (version.toInt() != kVersion) {
    throw_misuse(c10::str("DataParallel::load(): the archive is of version ", version.toInt(),
                          ", and this Paceline reads version ", kVersion,
                          ": load it with the Paceline that wrote it"));
  }
  TrainingState state{.options = value_of(archive, "options").toStringRef(),
                      .ranks = static_cast<int>(value_of(archive, "ranks").toInt())};
  at::Tensor compression;
  archive.read("compression", compression, /*is_buffer=*/true);
  state.compression = bytes_of(compression);
  if (!value_of(archive, "is_decided").toBool()) return state;
  const auto order = value_of(archive, "order").toIntVector();
  state.decision = ScheduleDecision{{order.begin(), order.end()}};
  if (const std::string plan = value_of(archive, "plan").toStringRef(); !plan.empty())
    state.decision->plan = schedule::plan_of_json(plan);
  c10::IValue offers;
  if (archive.try_read("offers", offers)) {
    const auto chosen = offers.toIntVector();
    state.decision->choice = schedule::OfferChoice::State{
        .offers = {chosen.begin(), chosen.end()},
        .norms = value_of(archive, "norms").toDoubleVector(),
        .steps = static_cast<std::size_t>(value_of(archive, "steps_since_look").toInt())};
  }
  return state;
}

}  // namespace paceline::parallel
