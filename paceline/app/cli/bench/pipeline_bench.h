// The parts of `paceline bench pipeline`: stages that take exact times, and a measured step beside
// the simulated one.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "paceline/app/cli/pipeline/pipeline_report.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/pipeline/pipeline.h"

namespace paceline::cli {

// Stages that wait instead of computing, and send full messages: as on an accelerator, they take no
// processor from the threads that communicate.
class WaitingStages final : public pipeline::StageWork {
 public:
  // `costs` has the times of all stages, and the bytes of a message at each cut. Both outlive it.
  WaitingStages(const Communicator& group, const pipeline::Order& order,
                const pipeline::PipelineCosts& costs);

  std::vector<Buffer> room(const pipeline::Transfer& transfer) override;
  void compute(const pipeline::Operation& operation) override;
  std::vector<ConstBuffer> message(const pipeline::Transfer& transfer) override;
  void sent(const pipeline::Transfer& transfer) override;

  int errors() const { return errors_; }  // messages that arrived with other values

 private:
  std::span<float> take(std::map<pipeline::Transfer, Allocation>& to,
                        const pipeline::Transfer& transfer);
  void check(const pipeline::Operation& operation);

  const Communicator& group_;
  const pipeline::Order& order_;
  const pipeline::PipelineCosts& costs_;
  std::map<pipeline::Transfer, Allocation> received_, sending_;
  std::vector<Allocation> free_;
  int errors_ = 0;
};

// The result of `paceline bench pipeline`: a measured step beside the simulated one.
struct PipelineMeasurement {
  std::vector<pipeline::TimedOrder> steps;  // at least one, in their order
  pipeline::TimedOrder simulated;
  std::string transport;
  int errors = 0;  // messages that arrived with other values

  const pipeline::TimedOrder& median() const;  // the step whose makespan is in the middle
};

std::string pipeline_bench_text(const PipelineCase& one, const PipelineMeasurement& measured);
// pipeline_json of the median step, with "transport", "errors", "steps_ms": [of each step], and
// "simulated": {"makespan_ms", "idle_share"}.
std::string pipeline_bench_json(const PipelineCase& one, const PipelineMeasurement& measured);

}  // namespace paceline::cli
