// A way by which processes of another launcher can tell each other one small value.
//
// With it rank 0 tells where its store listens (meeting.h). The value is public: the secret never
// goes this way.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline::membership {

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::string own_host() = 0;  // this process's address that the others reach
  virtual Result<> tell(const std::string& value, Deadline deadline) = 0;  // rank 0
  virtual Result<std::string> hear(Deadline deadline) = 0;  // the others; waits for it
};

// Through the store of torchrun's agent at `address`, under `key`. It speaks the wire of
// c10d::TCPStore (torch 2.11 to 2.15) itself: core knows no torch.
Result<std::unique_ptr<Exchange>> torchrun_store(const std::string& address, const std::string& key,
                                                 Deadline deadline);

// Through the key-value space of a process manager that speaks PMI-1 (MPICH's Hydra) on the
// inherited descriptor `fd`.
std::unique_ptr<Exchange> pmi_space(int fd);
// The name of that space, which no other job has. A process that has asked for it must go on to
// tell() or hear().
Result<std::string> pmi_space_name(int fd);

}  // namespace paceline::membership
