// Optimizers as an item: their options by groups of parameters, their tensors by parameter
// ("model.fc.weight/exp_avg"). One optimizer of many parameters and one for each parameter are
// saved alike.
#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/checkpoint_fields.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace paceline::checkpointing {
namespace {

using Json = JsonReader::Json;
using optimizers::KnownOptimizer;
using optimizers::OptimizerOption;
using optimizers::OptimizerSlot;
using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;

Json json_of_options(const KnownOptimizer& kind, OptimizerOptions& options) {
  Json json = Json::object();
  for (const OptimizerOption& one : kind.options(options))
    json[one.name] = std::visit([](const auto* value) { return json_of_field(*value); }, one.value);
  return json;
}

// False: the JSON does not fit, and the options are unspecified.
bool set_options(const KnownOptimizer& kind, OptimizerOptions& options, const Json& json) {
  const std::vector<OptimizerOption> all = kind.options(options);
  return json.is_object() && json.size() == all.size() &&
         std::ranges::all_of(all, [&](const OptimizerOption& one) {
           const auto read = [&](auto* value) { return read_field(json.at(one.name), *value); };
           return json.contains(one.name) && std::visit(read, one.value);
         });
}

std::string slot_name(const std::string& parameter, std::string_view slot) {
  return parameter + "/" + std::string(slot);
}

// One parameter, the optimizer that steps it, and its group there.
struct OwnedParameter {
  std::string name;
  at::Tensor tensor;
  Optimizer* optimizer = nullptr;
  torch::optim::OptimizerParamGroup* group = nullptr;

  void* key() const { return tensor.unsafeGetTensorImpl(); }
  // nullptr: it was never stepped.
  torch::optim::OptimizerParamState* state() const {
    const auto found = optimizer->state().find(key());
    return found == optimizer->state().end() ? nullptr : found->second.get();
  }
};

class OptimizerPart final : public CheckpointPart {
 public:
  OptimizerPart(OptimizerSource optimizers, const ParameterNames& names, HowHeld how_held,
                Communicator& ranks)
      : optimizers_(std::move(optimizers)),
        names_(names),
        how_held_(std::move(how_held)),
        ranks_(ranks) {}

  void require_savable(const std::string& /*item*/) override { (void)kind(); }
  void require_complete() override { (void)parameters(); }
  ItemState state() override;
  void check(const SavedItem& saved) override;
  void load(const SavedItem& saved) override;

 private:
  const KnownOptimizer& kind() const;
  std::vector<OwnedParameter> parameters() const;
  void check_slots(const SavedItem& saved, const std::vector<OwnedParameter>& parameters) const;
  void load_state(const SavedItem& saved, const OwnedParameter& parameter) const;

  // A tensor of the optimizer that is as large as the parameter.
  std::vector<ItemTensor> slot_of(const OwnedParameter& parameter, std::string_view slot,
                                  const at::Tensor& tensor) const {
    return how_held_(slot_name(parameter.name, slot), parameter.tensor, tensor);
  }

  const OptimizerSource optimizers_;
  const ParameterNames& names_;
  const HowHeld how_held_;
  Communicator& ranks_;
};

const KnownOptimizer& OptimizerPart::kind() const {
  const KnownOptimizer* first = nullptr;
  for (const Optimizer* optimizer : optimizers_()) {
    const KnownOptimizer* const kind = optimizers::with_known_state(*optimizer);
    if (kind == nullptr) {
      throw_misuse(c10::str("checkpoints hold optimizers of the types ",
                            optimizers::names_with_known_state(),
                            ", and this is another one: save its state by "
                            "checkpoints.add(name, [&](CheckpointFields& f) { ... })"));
    }
    if (first != nullptr && kind != first)
      throw_misuse(c10::str("one item of a checkpoint holds optimizers of one type, and these are ",
                            first->name, " and ", kind->name));
    first = kind;
  }
  if (first == nullptr) throw_misuse("a checkpoint's item of optimizers has none");
  return *first;
}

std::vector<OwnedParameter> OptimizerPart::parameters() const {
  std::vector<OwnedParameter> all;
  for (Optimizer* optimizer : optimizers_()) {
    auto& groups = optimizer->param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < groups[g].params().size(); ++i) {
        const at::Tensor& tensor = groups[g].params()[i];
        const std::string& name = names_.of(tensor);
        if (name.empty()) {
          throw_misuse(c10::str("parameter ", i, " of an optimizer's group ", g, ", ",
                                describe(tensor),
                                ", is in no model of the checkpoints: add its model too, by "
                                "checkpoints.add(\"model\", *model)"));
        }
        all.push_back({name, tensor, optimizer, &groups[g]});
      }
    }
  }
  return all;
}

// Adds parameters of one group to those of the same options.
void add_to_groups(Json& groups, const Json& options, const Json& parameters) {
  const auto same = std::ranges::find_if(
      groups, [&](const Json& group) { return group.at("options") == options; });
  if (same == groups.end()) {
    groups.push_back({{"options", options}, {"parameters", parameters}});
    return;
  }
  for (const Json& name : parameters)
    if (std::ranges::find((*same)["parameters"], name) == (*same)["parameters"].end())
      (*same)["parameters"].push_back(name);
}

// The values of all ranks' optimizers together, each of which steps pieces of some parameters.
Json joined(const std::vector<std::string>& values_of_ranks) {
  Json all;
  for (const std::string& text : values_of_ranks) {
    const Json values = Json::parse(text);
    if (all.is_null()) {
      all = values;
      continue;
    }
    for (const Json& group : values.at("groups"))
      add_to_groups(all["groups"], group.at("options"), group.at("parameters"));
    all["steps"].update(values.at("steps"));
  }
  return all;
}

ItemState OptimizerPart::state() {
  const KnownOptimizer& kind = this->kind();
  ItemState state;
  Json groups = Json::array(), steps = Json::object();
  for (const OwnedParameter& parameter : parameters()) {
    add_to_groups(groups, json_of_options(kind, parameter.group->options()), {parameter.name});
    if (parameter.state() == nullptr) continue;
    const optimizers::OptimizerSlots slots = kind.slots(*parameter.state());
    if (slots.step != nullptr) steps[parameter.name] = *slots.step;
    for (const OptimizerSlot& slot : slots.tensors)
      if (slot.tensor->defined())
        std::ranges::move(slot_of(parameter, slot.name, *slot.tensor),
                          std::back_inserter(state.tensors));
  }
  state.values = {{"kind", kind.name}, {"groups", groups}, {"steps", steps}};
  if (names_.has_pieces()) state.values = joined(all_gather_bytes(ranks_, state.values.dump()));
  return state;
}

// --- loading -------------------------------------------------------------------------------------

// The saved options of each parameter.
std::map<std::string, Json> saved_options(const SavedItem& saved) {
  std::map<std::string, Json> options;
  for (const Json& group : saved.values().at("groups"))
    for (const Json& name : group.at("parameters"))
      options[name.get<std::string>()] = group.at("options");
  return options;
}

// A switch of an optimizer decides which state it keeps, so neither side's may win in silence.
void require_same_switches(const SavedItem& saved, const std::string& parameter, const Json& then,
                           const Json& now) {
  for (const auto& [name, own] : now.items()) {
    if (!own.is_boolean() || !then.contains(name) || then.at(name) == own) continue;
    refuse_item(saved,
                c10::str("the optimizer of parameter '", parameter, "' was saved with ", name, "(",
                         then.at(name).dump(), "), and this program's has ", name, "(", own.dump(),
                         "): make it with ", name, "(", then.at(name).dump(), ")"));
  }
}

// `elsewhere`: parameters that only other ranks step.
void check_options(const SavedItem& saved, const KnownOptimizer& kind,
                   const std::vector<OwnedParameter>& parameters,
                   const std::vector<std::string>& elsewhere) {
  const auto options = saved_options(saved);
  std::map<const torch::optim::OptimizerParamGroup*, const OwnedParameter*> first_of;
  std::set<std::string> known(elsewhere.begin(), elsewhere.end());
  for (const OwnedParameter& parameter : parameters) {
    known.insert(parameter.name);
    const auto found = options.find(parameter.name);
    if (found == options.end())
      refuse_item(saved, c10::str("it knows no parameter '", parameter.name,
                                  "', and this program's optimizer has it"));
    const OwnedParameter& first = *first_of.emplace(parameter.group, &parameter).first->second;
    if (options.at(first.name) != found->second) {
      refuse_item(saved, c10::str("parameters '", first.name, "' and '", parameter.name,
                                  "' have different options in it, and in this program they are "
                                  "in one group"));
    }
    const auto copy = parameter.group->options().clone();
    if (!set_options(kind, *copy, found->second))
      refuse_item(saved, c10::str("the options of parameter '", parameter.name, "', ",
                                  found->second.dump(), ", are none of ", kind.name));
    require_same_switches(saved, parameter.name, found->second,
                          json_of_options(kind, parameter.group->options()));
  }
  for (const auto& [name, ignored] : options)
    if (!known.contains(name))
      refuse_item(saved, c10::str("it has a parameter '", name,
                                  "', and this program's optimizer has none of that name"));
}

void OptimizerPart::check_slots(const SavedItem& saved,
                                const std::vector<OwnedParameter>& parameters) const {
  std::vector<std::string> names;
  const auto example = kind().make_state();
  for (const OwnedParameter& parameter : parameters) {
    for (const OptimizerSlot& slot : kind().slots(*example).tensors) {
      names.push_back(slot_name(parameter.name, slot.name));
      for (const ItemTensor& one : slot_of(parameter, slot.name, parameter.tensor))
        if (saved.find(one.name, one.held) != nullptr) saved.require(one);
    }
  }
  for (const std::string& parameter : names_.elsewhere())
    for (const OptimizerSlot& slot : kind().slots(*example).tensors)
      names.push_back(slot_name(parameter, slot.name));
  saved.require_no_other(names);
}

void OptimizerPart::check(const SavedItem& saved) {
  const KnownOptimizer& kind = this->kind();
  const auto all = parameters();
  try {
    const auto saved_kind = saved.values().at("kind").get<std::string>();
    if (saved_kind != kind.name) {
      refuse_item(saved, c10::str("it is of ", saved_kind, ", and this program's optimizer is ",
                                  kind.name));
    }
    check_options(saved, kind, all, names_.elsewhere());
    for (const auto& [name, step] : saved.values().at("steps").items()) step.get<std::int64_t>();
  } catch (const Json::exception& error) {
    refuse_item(saved, c10::str("it is no optimizer's (", error.what(), ")"));
  }
  check_slots(saved, all);
}

void OptimizerPart::load_state(const SavedItem& saved, const OwnedParameter& parameter) const {
  auto state = kind().make_state();
  bool is_there = false;
  const optimizers::OptimizerSlots slots = kind().slots(*state);
  for (const OptimizerSlot& slot : slots.tensors) {
    const at::Tensor tensor = at::empty_like(parameter.tensor.detach());
    const std::vector<ItemTensor> parts = slot_of(parameter, slot.name, tensor);
    if (saved.find(parts.front().name, parts.front().held) == nullptr) continue;
    for (const ItemTensor& one : parts) saved.read_into(one);
    *slot.tensor = tensor;
    is_there = true;
  }
  const Json& steps = saved.values().at("steps");
  if (slots.step != nullptr && steps.contains(parameter.name)) {
    *slots.step = steps.at(parameter.name).get<std::int64_t>();
    is_there = true;
  }
  if (is_there) parameter.optimizer->state()[parameter.key()] = std::move(state);
  else parameter.optimizer->state().erase(parameter.key());
}

void OptimizerPart::load(const SavedItem& saved) {
  const auto options = saved_options(saved);
  for (const OwnedParameter& parameter : parameters()) {
    set_options(kind(), parameter.group->options(), options.at(parameter.name));
    load_state(saved, parameter);
  }
}

}  // namespace

PartPtr optimizer_part(OptimizerSource optimizers, const ParameterNames& names, HowHeld how_held,
                       Communicator& ranks) {
  return std::make_unique<OptimizerPart>(std::move(optimizers), names, std::move(how_held), ranks);
}

}  // namespace paceline::checkpointing
