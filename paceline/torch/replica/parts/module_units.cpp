#include "paceline/torch/replica/parts/module_units.h"

#include <torch/torch.h>

#include <set>

namespace paceline::parallel {
namespace {

// The units in which each tensor stands; the empty name stands for none.
using UnitsOfTensors = std::map<const void*, std::set<std::string>>;

bool is_list(const torch::nn::Module& module) {
  return module.as<torch::nn::SequentialImpl>() != nullptr ||
         module.as<torch::nn::ModuleListImpl>() != nullptr;
}

void walk(const torch::nn::Module& module, const std::string& path, bool is_element,
          const std::string& unit, UnitsOfTensors& units) {
  const bool list = is_list(module);
  const std::string& own = unit.empty() && is_element && !list ? path : unit;
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    units[item.value().unsafeGetTensorImpl()].insert(own);
  for (const auto& child : module.named_children()) {
    const std::string below = path.empty() ? child.key() : path + "." + child.key();
    walk(*child.value(), below, list, own, units);
  }
}

}  // namespace

std::map<std::string, std::string> units_of(const torch::nn::Module& model) {
  UnitsOfTensors of_tensors;
  walk(model, "", false, "", of_tensors);
  std::map<std::string, std::string> units;
  for (const auto& item : model.named_parameters()) {
    const auto& found = of_tensors[item.value().unsafeGetTensorImpl()];
    if (found.size() == 1 && !found.begin()->empty()) units[item.key()] = *found.begin();
  }
  return units;
}

}  // namespace paceline::parallel
