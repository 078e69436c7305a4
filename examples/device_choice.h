// The option --device of programs, as fashion_mnist and tiny_gpt have it.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>

#include "paceline/train.h"

inline std::string complaint_about_device(const std::string& text) {
  if (text == "auto") return {};
  try {
    const at::Device device(text);
    if (device.is_cpu() || device.is_cuda()) return {};
  } catch (const c10::Error&) {  // the text is no device
  }
  return "'" + text + "' is no device: give cpu, cuda:N, or auto";
}

inline void add_device(CLI::App& app, std::string& device) {
  app.add_option("--device", device,
                 "Where the model lies: cpu, cuda:N, or auto, which is a GPU for each rank if "
                 "there are some")
      ->check(CLI::Validator(complaint_about_device, "cpu|cuda:N|auto"))
      ->capture_default_str();
}

// The device of this rank. `of_the_host`: an option that was given and works in host memory alone;
// empty: none was. THROWS paceline::Error (misuse): that option beside another device than the CPU;
// a device that is not there.
inline at::Device chosen_device(const std::string& text, const paceline::Job& job,
                                const std::string& of_the_host) {
  const auto refuse = [](const std::string& why) {
    throw paceline::Error({paceline::Fault::misuse, why, {}});
  };
  const at::Device device = text == "auto" ? paceline::device_of(job) : at::Device(text);
  if (device.is_cpu()) return device;
  if (!of_the_host.empty())
    refuse("--device " + text + " does not go with " + of_the_host +
           ", which works in host memory alone at present: take --device cpu");
  const int devices =
      torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
  if (std::max<int>(device.index(), 0) >= devices)
    refuse("--device " + text + ": libtorch sees " + std::to_string(devices) +
           " CUDA devices in this program: take --device cpu, or auto; a build with "
           "-DPACELINE_WITH_CUDA=ON sees those that nvidia-smi lists");
  return device;
}
