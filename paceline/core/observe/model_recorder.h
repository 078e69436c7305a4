// Watches the steps of a training, and writes the model that they show to a file
// (schedule/replay/model_file.h), which `paceline bench schedule` replays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/schedule/adapt/observed_model.h"

namespace paceline::observe {

class ModelRecorder {
 public:
  // The number of steps recorded: enough that one of them is undisturbed. The first step, which
  // allocates, does not count.
  static constexpr int kSteps = 20;

  // `tensors`: by gradient, without times. THROWS Error (io): the file cannot be written.
  ModelRecorder(std::string file, std::vector<schedule::Tensor> tensors);
  // Writes the steps recorded so far if the training was too short for add() to do so.
  ~ModelRecorder();
  ModelRecorder(const ModelRecorder&) = delete;
  ModelRecorder& operator=(const ModelRecorder&) = delete;

  // Adds a step's gradients and their number of samples. The last of kSteps writes the file, as a
  // whole or not at all; later steps are ignored. THROWS Error (io).
  void add(const schedule::ObservedStep& step, int batch);

 private:
  void write();

  const std::string file_;
  const std::vector<schedule::Tensor> tensors_;
  std::optional<schedule::ObservedStep> first_;
  std::vector<schedule::ObservedStep> steps_;
  int batch_ = 1;
  bool is_written_ = false;
};

}  // namespace paceline::observe
