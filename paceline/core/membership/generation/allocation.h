// Host memory that peers reach without copies where they share this rank's host.
#pragma once

#include <cstddef>
#include <memory>

#include "paceline/core/base/bytes.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline {

class Allocation;

namespace membership {

class Generation;

// The memory of Job::allocate and Communicator::allocate. THROWS Error (io) that names the limit
// and the remedy when there is not enough memory.
Allocation allocate(const std::shared_ptr<transport::Reactor>& reactor,
                    const std::shared_ptr<Generation>& generation, std::size_t bytes);

}  // namespace membership

// Host memory that ranks on the same host can read and write directly, so that collectives on it
// need no copies; where none shares memory with this one, in huge pages if the system has them.
// Page-aligned, zeroed, committed (running out of memory is an error at `allocate`, never later).
// Move-only; must end before its Job.
class Allocation {
 public:
  Allocation();  // empty
  Allocation(Allocation&&) noexcept;
  Allocation& operator=(Allocation&&) noexcept;
  ~Allocation();

  MutableBytes bytes() const;
  std::byte* data() const { return bytes().data(); }
  std::size_t size() const { return bytes().size(); }

 private:
  friend Allocation membership::allocate(const std::shared_ptr<transport::Reactor>&,
                                         const std::shared_ptr<membership::Generation>&,
                                         std::size_t);
  class Impl;
  explicit Allocation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
