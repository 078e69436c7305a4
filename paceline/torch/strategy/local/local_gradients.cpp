#include "paceline/torch/strategy/local/local_gradients.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {
namespace {

// Options that say how gradients travel in buckets mean nothing where they do not.
void require_no_message_options(const std::string& name, std::string_view sends,
                                const DataParallelOptions& options) {
  const DataParallelOptions standard;
  const auto refuse = [&](const char* option, const std::string& value) {
    throw_misuse(c10::str("synchrony \"", name, "\" ", sends, ", and ", option, " \"", value,
                          "\" has nothing to do: leave it out, or take "
                          "synchrony \"synchronous\""));
  };
  if (options.compression != standard.compression) refuse("compression", options.compression);
  if (options.schedule != standard.schedule) refuse("schedule", options.schedule);
}

}  // namespace

LocalGradients::LocalGradients(std::string name, std::string_view sends,
                               const StrategyContext& context)
    : name_((require_no_message_options(name, sends, context.options), std::move(name))),
      group_(context.group),
      parameters_(context.parts.trained()),
      watch_(parameters_),
      made_(parameters_.size()) {}

std::vector<at::Tensor> LocalGradients::leaves() const {
  std::vector<at::Tensor> leaves;
  for (const replica::Parameter& parameter : parameters_) leaves.push_back(parameter.tensor);
  return leaves;
}

void LocalGradients::begin() {
  if (std::exchange(has_begun_, true)) return;
  communicating([this] { begin_step(); });
}

bool LocalGradients::arriving(std::size_t) {
  if (failure_) std::rethrow_exception(failure_);
  if (const int backward = current_backward(); backward != std::exchange(backward_, backward)) {
    if (const std::string changed = complaint_of_change(); !changed.empty()) throw_misuse(changed);
    begin();
  }
  return has_batch();
}

void LocalGradients::arrived(std::size_t i, bool) {
  ++current_.gradients;
  made_[i] = true;
  watch_.gradient_made(i);
}

std::string LocalGradients::complaint_of_change() const {
  const std::string changed = watch_.changed_parameter();
  if (changed.empty()) return {};
  return c10::str("parameter '", changed,
                  "' changed after its gradient was made and before the step ended, so ", name_,
                  " does not know of that step: call parallel.step(optimizer) instead of "
                  "optimizer.step()");
}

std::string LocalGradients::complaint_of_silence() const {
  if (!has_batch() || current_.gradients > 0) return {};
  return "this rank made no gradient in this step, though its weight says that it has a batch: "
         "call "
         "backward() before step(); a rank without a batch says weight(0)";
}

void LocalGradients::end(const replica::ExchangeReport& exchange) {
  has_begun_ = false;
  backward_ = -1;
  watch_.forget();
  made_.assign(parameters_.size(), false);
  current_.step = report_.step + 1;
  current_.exchange = exchange;
  report_ = std::exchange(current_, {});
}

void LocalGradients::drop_step() {
  current_.servers = report_.servers;
  current_.total_weight = weight_.weight;
  const bool has_begun = has_begun_;
  end(report_.exchange);
  has_begun_ = has_begun;
}

void LocalGradients::require_between_steps(const char* call) const {
  if (failure_) std::rethrow_exception(failure_);
  if (has_gradients()) {
    throw_misuse(c10::str("DataParallel::", call,
                          "() was called between backward() and step(optimizer): end the step "
                          "first"));
  }
}

std::vector<std::byte> LocalGradients::packed(const std::vector<at::Tensor>& tensors) {
  std::vector<std::byte> bytes(packed_bytes(tensors));
  pack(tensors, bytes);
  return bytes;
}

void LocalGradients::unpack_own(const replica::SavedSynchrony& saved,
                                const std::vector<at::Tensor>& tensors) const {
  const int rank = group_.rank() % saved.ranks;
  const std::vector<std::byte> own = saved.own(rank);
  if (own.size() != packed_bytes(tensors)) {
    throw_misuse(c10::str("the saved state of rank ", rank, " has ", own.size(), " bytes, and ",
                          name_, " of this model keeps ", packed_bytes(tensors),
                          ": resume with the synchrony and the model that it was saved with"));
  }
  unpack(own, tensors);
}

}  // namespace paceline::strategy
