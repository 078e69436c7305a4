#include "paceline/torch/checkpoint/optimizer_kinds.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "paceline/torch/checkpoint/checkpoint_fields.h"
#include "paceline/torch/optim/optim.h"

namespace paceline::checkpointing {
namespace {

namespace optim = torch::optim;
using Json = JsonReader::Json;

// --- which options there are, told once for both ways ----------------------------------

template <typename Visit>
void visit_options(optim::SGDOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("dampening", o.dampening());
  visit("weight_decay", o.weight_decay());
  visit("nesterov", o.nesterov());
}

template <typename AdamLike, typename Visit>
void visit_adam(AdamLike& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("beta1", std::get<0>(o.betas()));
  visit("beta2", std::get<1>(o.betas()));
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
}
template <typename Visit>
void visit_options(optim::AdamOptions& o, Visit&& visit) {
  visit_adam(o, visit);
  visit("amsgrad", o.amsgrad());
}
template <typename Visit>
void visit_options(optim::AdamWOptions& o, Visit&& visit) {
  visit_adam(o, visit);
  visit("amsgrad", o.amsgrad());
}
template <typename Visit>
void visit_options(optimizers::LAMBOptions& o, Visit&& visit) {
  visit_adam(o, visit);
  visit("adapt_vectors", o.adapt_vectors());
}

template <typename Visit>
void visit_options(optimizers::LARSOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("weight_decay", o.weight_decay());
  visit("trust_coefficient", o.trust_coefficient());
  visit("eps", o.eps());
  visit("adapt_vectors", o.adapt_vectors());
}

template <typename Visit>
void visit_options(optimizers::SVRGOptions& o, Visit&& visit) {
  visit("lr", o.lr());
}

template <typename Visit>
void visit_options(optim::RMSpropOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("alpha", o.alpha());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("momentum", o.momentum());
  visit("centered", o.centered());
}

template <typename Visit>
void visit_options(optim::AdagradOptions& o, Visit&& visit) {
  visit("lr", o.lr());
  visit("lr_decay", o.lr_decay());
  visit("weight_decay", o.weight_decay());
  visit("initial_accumulator_value", o.initial_accumulator_value());
  visit("eps", o.eps());
}

// --- the table -----------------------------------------------------------------------------------

template <typename Options>
OptimizerKind kind(std::string_view name) {
  const auto states = parallel::optimizer_state_kinds();
  return {.state = *std::ranges::find(states, name, &parallel::OptimizerStateKind::name),
          .options =
              [](const optim::OptimizerOptions& options) {
                Options copy = static_cast<const Options&>(options);
                Json json = Json::object();
                visit_options(
                    copy, [&](const char* key, auto& value) { json[key] = json_of_field(value); });
                return json;
              },
          .set_options =
              [](optim::OptimizerOptions& options, const Json& json) {
                bool fits = json.is_object();
                std::size_t known = 0;
                visit_options(static_cast<Options&>(options), [&](const char* key, auto& value) {
                  ++known;
                  fits = fits && json.contains(key) && read_field(json.at(key), value);
                });
                return fits && json.size() == known;
              }};
}

const std::array<OptimizerKind, 8>& kinds() {
  static const std::array<OptimizerKind, 8> all = {
      kind<optim::SGDOptions>("SGD"),         kind<optim::AdamOptions>("Adam"),
      kind<optim::AdamWOptions>("AdamW"),     kind<optim::RMSpropOptions>("RMSprop"),
      kind<optim::AdagradOptions>("Adagrad"), kind<optimizers::LARSOptions>("LARS"),
      kind<optimizers::LAMBOptions>("LAMB"),  kind<optimizers::SVRGOptions>("SVRG")};
  return all;
}

}  // namespace

const OptimizerKind* kind_of(const optim::Optimizer& optimizer) {
  const auto found = std::ranges::find_if(
      kinds(), [&](const OptimizerKind& one) { return one.state.is(optimizer); });
  return found == kinds().end() ? nullptr : &*found;
}

}  // namespace paceline::checkpointing
