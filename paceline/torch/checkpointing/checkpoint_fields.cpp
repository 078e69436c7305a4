#include "paceline/torch/checkpointing/checkpoint_fields.h"

#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"
#include "paceline/torch/checkpointing/saved_item.h"

namespace paceline {

using checkpointing::Held;
using checkpointing::SavedItem;

void CheckpointFields::note(std::string_view name) {
  if (std::ranges::find(names_, name) != names_.end())
    throw_misuse(c10::str("a checkpoint's field '", name, "' was named twice: give each its own"));
  names_.emplace_back(name);
}

const JsonReader::Json& CheckpointFields::saved_value(std::string_view name) const {
  const JsonReader::Json& values = saved_->values();
  const auto found = values.find(std::string(name));
  if (found == values.end())
    refuse_item(*saved_, c10::str("it has no field '", name, "', and this program has one"));
  return *found;
}

void CheckpointFields::refuse_type(std::string_view name) const {
  refuse_item(*saved_, c10::str("its field '", name, "' is ", saved_value(name).dump(),
                                ", which this program's variable cannot hold"));
}

void CheckpointFields::operator()(std::string_view name, at::Tensor& tensor) {
  note(name);
  if (saved_ == nullptr) {
    if (!tensor.defined())
      throw_misuse(c10::str("a checkpoint's field '", name,
                            "' is an undefined tensor: name it once it has a value"));
    state_.tensors.push_back({std::string(name), tensor.detach(), Held::by_first});
    return;
  }
  const auto* const found = saved_->find(name, Held::by_first);
  if (tensor.defined() || found == nullptr) {
    const auto& fits = saved_->require(name, Held::by_first, tensor);
    if (!only_checks_) saved_->read_into(fits, tensor);
  } else if (!only_checks_) {
    const std::vector<std::int64_t> shape(found->shape.begin(), found->shape.end());
    tensor = at::empty(shape, scalar_type_of(found->dtype));
    saved_->read_into(*found, tensor);
  }
}

void CheckpointFields::require_no_other() const {
  for (const auto& [name, value] : saved_->values().items())
    if (std::ranges::find(names_, name) == names_.end())
      refuse_item(*saved_, c10::str("it has a field '", name, "', and this program has none"));
  saved_->require_no_other(names_);
}

namespace checkpointing {
namespace {

class FieldsPart final : public CheckpointPart {
 public:
  explicit FieldsPart(std::function<void(CheckpointFields&)> visit) : visit_(std::move(visit)) {}

  ItemState state() override {
    CheckpointFields fields;
    visit_(fields);
    return std::move(fields.state());
  }
  void check(const SavedItem& saved) override {
    CheckpointFields fields(saved, /*only_checks=*/true);
    visit_(fields);
    fields.require_no_other();
  }
  void load(const SavedItem& saved) override {
    CheckpointFields fields(saved, /*only_checks=*/false);
    visit_(fields);
  }

 private:
  const std::function<void(CheckpointFields&)> visit_;
};

}  // namespace

PartPtr fields_part(std::function<void(CheckpointFields&)> visit) {
  return std::make_unique<FieldsPart>(std::move(visit));
}

}  // namespace checkpointing
}  // namespace paceline
