// The part of DataParallelOptions that a schedule follows, checked before the first step.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::gradient {

inline constexpr std::string_view kBuckets = "buckets";

// nullptr: buckets, whose caps are options too, and which take several types of gradients. THROWS
// Error (misuse): there is none called so, or static_order forbids it.
const schedule::Policy* policy_of(const DataParallelOptions& options);

// Nothing: no compression. THROWS Error (misuse): there is none of this name, its settings do not
// fit the number of ranks, or a parameter is not of f32.
std::optional<compress::Compression> checked_compression(
    const std::string& text, std::span<const replica::Parameter> parameters, int ranks);

// THROWS Error (misuse), in the name of the schedule `what`.
void require_one_type(std::string_view what, std::span<const replica::Parameter> parameters);

// The number of rows, as in schedule::Tensor.
std::size_t matrix_rows(const at::Tensor& tensor);

// The tensors that a compression leaves as they are, as a text on how many and why; empty: none.
struct WholeTensors {
  std::string text = {};
  bool are_all = false;
};
WholeTensors whole_tensors_of(const compress::Compression& compression,
                              std::span<const replica::Parameter> parameters);

// DataParallelOptions::aggregate says who averages the gradients: the job whose servers may average
// the gradients of these ranks; null: the ranks do it, also under "automatic" where servers do not
// go with the rest. THROWS Error (misuse): aggregate is none of its words, or it is "server" with
// options or ranks with which servers do not go.
Job* job_with_servers(const Communicator& group, Job* job, const DataParallelOptions& options);

// Whether forecasts decide which of both averages.
bool aggregates_by_forecast(const DataParallelOptions& options);

}  // namespace paceline::gradient
