// LbfgsOnServers: full-batch L-BFGS whose vectors lie on the servers of a job, as a worker holds it
// (docs/strategies/sandblaster.md).
//
//   server::LbfgsOnServers lbfgs(job, {.elements = n, .samples = 60'000}, buffer_of(values));
//   const auto end = lbfgs.iterate([&](const server::PortionWork& work) { return loss; });
//
// All workers make it, with equal settings, in the order of their tables, and make equally many
// iterations, each at its own pace. Rank 0 leads them, on the driver of its job's reactor. The
// machines and what they say stand in vectors/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/job/job.h"

namespace paceline::server {

struct LbfgsSettings {
  std::string name = "sandblaster";  // unique among the tables of the job
  std::size_t elements = 0;
  Dtype dtype = Dtype::f32;  // f32 or f64
  std::int64_t samples = 0;
  std::int64_t portion = 256;  // samples of one, much less than a worker's share
  int history = 10;            // pairs that are kept
  double first_step = 1;       // that a line search tries
  int max_evaluations = 25;    // of a line search
  double tolerance = 1e-9;     // an iteration does nothing at this largest |g|
};

// The samples [begin, end), and what is computed of them.
struct PortionWork {
  std::int64_t number = 0, begin = 0, end = 0;
  ConstBuffer parameters;          // all of them
  bool has_new_parameters = true;  // others than those of the last call
  Buffer gradient;                 // to be written: a sum over the samples
};

struct LbfgsEnd {
  double loss = 0;         // the mean, where the iteration ended
  ConstBuffer parameters;  // there; they live until the next iteration
};

// THREAD: every method from one thread at a time, not the driver.
class LbfgsOnServers {
 public:
  // Those of rank 0 are the first parameters. Returns when the servers have them. THROWS Error:
  // misuse (the settings make no sense, the job has no servers or a table of this name), mismatch
  // (the workers differ), peer_lost, timed_out.
  LbfgsOnServers(Job& job, const LbfgsSettings& settings, ConstBuffer first);
  // It waits for nobody: the others go on without this worker, unless it is rank 0.
  ~LbfgsOnServers();
  LbfgsOnServers(const LbfgsOnServers&) = delete;
  LbfgsOnServers& operator=(const LbfgsOnServers&) = delete;

  // Takes part in an iteration: computes portions until it has ended, and returns the same on all
  // workers. `loss_of` returns the sum of the losses of the samples. THROWS Error: misuse, on all
  // workers and with the parameters as they were (parameters() tells them): no step satisfies the
  // strong Wolfe conditions, or the first loss is not finite, and the portion is named; peer_lost,
  // timed_out; what `loss_of` throws.
  LbfgsEnd iterate(const std::function<double(const PortionWork&)>& loss_of);
  // Those where the last iteration ended, also if it threw misuse.
  ConstBuffer parameters() const;

  std::int64_t portions() const;  // that this worker has computed in all

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::server
