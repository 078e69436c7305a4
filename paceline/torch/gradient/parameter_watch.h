// Were parameters or gradients touched between backward() and the end of the step? Then the
// replicas would drift apart, or a gradient in flight would be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::parallel {

class ParameterWatch {
 public:
  // `parameters` outlives this.
  explicit ParameterWatch(const std::vector<Parameter>& parameters)
      : parameters_(parameters), seen_(parameters.size()) {}

  // The parameter and its grad are from now on to stay as they are.
  void gradient_made(std::size_t i);
  // Its grad is a tensor now that nobody can read, with right.
  void gradient_hidden(std::size_t i);
  void forget() { seen_.assign(parameters_.size(), {}); }

  // The name of a parameter that changed; empty: none did.
  std::string changed_parameter() const;
  // A text on the parameters that were touched; empty if none was.
  std::string complaint() const;

 private:
  void see_gradient(std::size_t i);

  struct Seen {
    bool made = false;
    std::uint32_t parameter_version = 0;
    std::uint64_t parameter_probe = 0;
    const void* gradient = nullptr;  // which tensor grad was, and at which version
    std::uint32_t gradient_version = 0;
    std::uint64_t gradient_probe = 0;
    bool is_hidden = false;  // it has no values to look at
  };

  const std::vector<Parameter>& parameters_;
  std::vector<Seen> seen_;
};

}  // namespace paceline::parallel
