// Stages that wait for exact times instead of computing, and send full messages: as on an
// accelerator, they take no processor from the threads that communicate.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/pipeline/pipeline.h"

namespace paceline::cli {

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

}  // namespace paceline::cli
