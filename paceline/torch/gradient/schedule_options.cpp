#include "paceline/torch/gradient/schedule_options.h"

#include <c10/util/StringUtil.h>
#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

constexpr const char *kCollective = "collective", *kServer = "server", *kAutomatic = "automatic";

// Why servers do not average these gradients, and the remedy.
struct Hindrance {
  std::string why, remedy;
};

std::optional<Hindrance> hindrance(const Communicator& group, Job* job,
                                   const DataParallelOptions& options) {
  if (options.synchrony != "synchronous")
    return Hindrance{c10::str("averages gradients, which synchrony \"", options.synchrony,
                              "\" does not send as they are"),
                     "take \"synchronous\""};
  if (options.zero_stage != 0)
    return Hindrance{c10::str("does not go with zero_stage ", options.zero_stage,
                              ", which reduces gradients to their owners"),
                     "take zero_stage 0"};
  if (job == nullptr || job->servers() == 0)
    return Hindrance{"needs servers, and this job has none",
                     "start it by `paceline run --servers N`, make DataParallel with the job"};
  if (const int replicas = job::replicas_of(*job); replicas > 1)
    return Hindrance{c10::str("sums on one server each, and the ", replicas,
                              " replicas of this job's tables are to outlive a server"),
                     "start the job with --replicas 1"};
  if (group.size() != job->world_size() || group.rank() != job->rank())
    return Hindrance{c10::str("sums what all ", job->world_size(),
                              " workers push, and the group has ", group.size(), " ranks"),
                     "train among all workers of the job"};
  return std::nullopt;
}

}  // namespace

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

std::optional<compress::Compression> checked_compression(
    const std::string& text, std::span<const replica::Parameter> parameters, int ranks) {
  if (text == schedule::kUncompressed) return std::nullopt;
  const auto compression = compress::parse_compression(text, compress::built_in_methods());
  if (!compression) {
    throw_misuse(c10::str("DataParallelOptions::compression: ", compression.error().what, " (or ",
                          schedule::kUncompressed, ")"));
  }
  for (const replica::Parameter& parameter : parameters) {
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

std::size_t matrix_rows(const at::Tensor& tensor) {
  return tensor.dim() < 2 ? 1 : static_cast<std::size_t>(tensor.size(0));
}

WholeTensors whole_tensors_of(const compress::Compression& compression,
                              std::span<const replica::Parameter> parameters) {
  int vectors = 0, short_ones = 0;
  for (const replica::Parameter& parameter : parameters) {
    const auto elements = static_cast<std::size_t>(parameter.tensor.numel());
    const std::size_t rows = matrix_rows(parameter.tensor);
    if (elements == 0 || !compression.leaves_whole({.rows = rows, .columns = elements / rows}, 0))
      continue;
    ++(parameter.tensor.nbytes() < compression.min_compress_bytes ? short_ones : vectors);
  }
  const int whole = vectors + short_ones;
  if (whole == 0) return {};
  std::string why;
  if (short_ones > 0)
    why += c10::str(short_ones, " because they have fewer than ", compression.min_compress_bytes,
                    " bytes (lower it by ", compression.method.name, ":min_compress_bytes=N)");
  if (vectors > 0)
    why += c10::str(short_ones > 0 ? ", " : "", vectors, " because they are vectors");
  return {.text = c10::str("compression ", compression.method.name, ": ", whole, " of ",
                           parameters.size(), " tensors travel uncompressed, ", why),
          .are_all = whole == static_cast<int>(parameters.size())};
}

void require_one_type(std::string_view what, std::span<const replica::Parameter> parameters) {
  for (const replica::Parameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() == parameters.front().tensor.scalar_type()) continue;
    throw_misuse(c10::str(
        "DataParallelOptions::schedule: '", what,
        "' carries gradients of one type, and parameter '", parameter.name, "' is of ",
        parameter.tensor.scalar_type(), " where '", parameters.front().name, "' is of ",
        parameters.front().tensor.scalar_type(), ": convert the model, or use ", kBuckets));
  }
}

Job* job_with_servers(const Communicator& group, Job* job, const DataParallelOptions& options) {
  if (options.aggregate == kCollective) return nullptr;
  if (options.aggregate != kServer && options.aggregate != kAutomatic) {
    throw_misuse(c10::str("DataParallelOptions::aggregate is \"", options.aggregate,
                          "\"; there are \"", kCollective, "\", \"", kServer, "\" and \"",
                          kAutomatic, "\""));
  }
  const auto found = hindrance(group, job, options);
  if (found && options.aggregate == kServer)
    throw_misuse(c10::str("DataParallelOptions::aggregate \"", kServer, "\" ", found->why, ": ",
                          found->remedy, ", or take \"", kCollective, "\""));
  return found ? nullptr : job;
}

bool aggregates_by_forecast(const DataParallelOptions& options) {
  return options.aggregate == kAutomatic;
}

}  // namespace paceline::gradient
