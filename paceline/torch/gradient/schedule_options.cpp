#include "paceline/torch/gradient/schedule_options.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {

const schedule::Policy* policy_of(const DataParallelOptions& options) {
  const schedule::Policy* policy = nullptr;
  try {
    policy = &schedule::policy(options.schedule);
  } catch (const Error& error) {
    throw_misuse(c10::str("DataParallelOptions::schedule: ", error.failure().what));
  }
  if (policy->name == kBuckets) return nullptr;
  if (policy->is_measured && options.static_order) {
    throw_misuse(c10::str("DataParallelOptions::schedule '", options.schedule,
                          "' is planned from measurements of the first steps, which static_order "
                          "turns off: leave one of them out"));
  }
  return policy;
}

std::optional<compress::Compression> checked_compression(const std::string& text,
                                                         std::span<const Parameter> parameters,
                                                         int ranks) {
  if (text == schedule::kUncompressed) return std::nullopt;
  const auto compression = compress::parse_compression(text, compress::built_in_methods());
  if (!compression) {
    throw_misuse(c10::str("DataParallelOptions::compression: ", compression.error().what, " (or ",
                          schedule::kUncompressed, ")"));
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() != at::kFloat) {
      throw_misuse(c10::str("DataParallelOptions::compression: '", text,
                            "' compresses gradients of float32, and parameter '", parameter.name,
                            "' is of ", parameter.tensor.scalar_type(),
                            ": convert the model with model.to(torch::kFloat), or leave the "
                            "compression out"));
    }
  }
  for (int offer = 0; offer < compression.value().offers(); ++offer)
    (void)compression.value().averaging({.rows = 2, .columns = 1 << 20, .ranks = ranks}, offer);
  return compression.value();
}

void require_one_type(std::string_view what, std::span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() == parameters.front().tensor.scalar_type()) continue;
    throw_misuse(c10::str(
        "DataParallelOptions::schedule: '", what,
        "' carries gradients of one type, and parameter '", parameter.name, "' is of ",
        parameter.tensor.scalar_type(), " where '", parameters.front().name, "' is of ",
        parameters.front().tensor.scalar_type(), ": convert the model, or use ", kBuckets));
  }
}

}  // namespace paceline::parallel
