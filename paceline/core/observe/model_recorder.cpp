#include "paceline/core/observe/model_recorder.h"

#include <exception>
#include <utility>

#include "paceline/core/base/durable_file.h"
#include "paceline/core/schedule/order/buckets.h"
#include "paceline/core/schedule/replay/model_file.h"

namespace paceline::observe {
namespace {

constexpr const char* kWhat = "file of the recorded model";

}  // namespace

ModelRecorder::ModelRecorder(std::string file, std::vector<schedule::Tensor> tensors)
    : file_(std::move(file)), tensors_(std::move(tensors)) {
  const DurableFile can_be_written(kWhat, file_);
}

ModelRecorder::~ModelRecorder() {
  try {
    write();
  } catch (const std::exception&) {  // its reader reports that the file is missing
  }
}

void ModelRecorder::add(const schedule::ObservedStep& step, int batch) {
  if (is_written_ || step.arrived.empty()) return;
  batch_ = batch;
  if (!first_) {
    first_ = step;
    return;
  }
  steps_.push_back(step);
  if (steps_.size() == kSteps) write();
}

void ModelRecorder::write() {
  if (is_written_ || !first_) return;
  is_written_ = true;
  if (steps_.empty()) steps_.push_back(*first_);
  const std::vector<int> order =
      schedule::completed_order(steps_.back().arrived, static_cast<int>(tensors_.size()));
  schedule::Model model = schedule::observed_model(tensors_, order, steps_);
  model.batch = batch_;
  DurableFile(kWhat, file_).commit(json_of(model));
}

}  // namespace paceline::observe
