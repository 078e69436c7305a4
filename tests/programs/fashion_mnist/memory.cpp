#include "memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include "paceline/core/base/base.h"
#include "paceline/torch/tensor/parallelize.h"

static std::string mebibytes(std::int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

void limit_memory(std::int64_t bytes) {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  // Tensors that are freed leave the address space at once.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  if (pages > 0 && ::setrlimit(RLIMIT_AS, &limit) == 0) return;
  throw paceline::Error({paceline::Fault::io,
                         std::string("--memory-limit cannot be set: ") + std::strerror(errno),
                         {}});
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         std::strstr(error.what(), "can't allocate memory") != nullptr;
}

TrainingMemory::TrainingMemory(const torch::nn::Module& model, const paceline::TensorPlan& plan,
                               int copies)
    : copies_(copies) {
  for (const auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    const std::string layer = name.substr(0, name.rfind('.'));
    const bool is_bias = name.ends_with("bias");
    bool is_split = false;
    for (const paceline::PlanEntry& entry : plan) {
      const bool is_row = entry.style == paceline::ParallelStyle::row;
      is_split |= paceline::tensor::matches(entry.path, layer) && !(is_row && is_bias);
    }
    (is_split ? split_ : whole_) += static_cast<std::int64_t>(item.value().nbytes());
  }
}

std::int64_t TrainingMemory::bytes_of_rank(int ranks) const {
  return copies_ * (split_ / ranks + whole_);
}

std::string TrainingMemory::text(int ranks, std::int64_t limit) const {
  std::string text =
      "memory ended: the parameters and gradients of this rank, and what the "
      "optimizer keeps of them, are " +
      mebibytes(bytes_of_rank(ranks));
  if (limit > 0) text += ", and --memory-limit leaves " + mebibytes(limit);
  // Data, activations and the pieces that libtorch works with need the rest.
  const auto fits = [&](int more) { return bytes_of_rank(more) <= limit * 3 / 4; };
  for (int more = 2 * ranks; limit > 0 && split_ > 0 && more <= 64; more *= 2) {
    if (!fits(more)) continue;
    return text + ". Let " + std::to_string(more) +
           " workers share the layers, with --layout tp=" + std::to_string(more) + ": a rank has " +
           mebibytes(bytes_of_rank(more)) + " then";
  }
  return text + ". Take more workers that share the model, or a smaller one";
}
