// StagedCall: one call whose buffers lie in a device's memory: its input goes to the host, where a
// carrier takes it to the other ranks, and its output comes back.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/staging/staging_area.h"

namespace paceline::collective {

// The buffers of a call as its caller knows them, in a device's memory.
struct DeviceBuffers {
  ConstBuffer input;
  Buffer output;
  bool brings_input = true;    // else the input's elements mean nothing on this rank
  bool takes_output = true;    // else the output is left as it is
  bool must_be_apart = false;  // on the host, also where they are the same on the device
};

class StagedCall {
 public:
  // Gives the device's stream the copy of the input, behind what the buffers' streams were given
  // until now. THREAD: any. THROWS Error: misuse, the buffers are not in the device's memory; io,
  // the device or the host's memory fails.
  StagedCall(std::shared_ptr<StagingArea> area, const DeviceBuffers& buffers);
  // Waits as settle() does, where a call was refused.
  ~StagedCall();

  // On the host.
  ConstBuffer input() const { return input_; }
  Buffer output() const { return output_; }
  std::string device() const { return area_->device().name(); }

  // THREAD: reactor's driver, as all that follows.
  // Whether the input is on the host.
  Result<bool> look_for_input();
  bool is_here() const { return is_here_; }  // as it was seen last
  // Gives the device's stream the copy of the output.
  Result<> begin_return();
  Result<bool> has_returned();
  // Waits until the device neither reads the input nor writes the output, or a second: one that
  // hangs must not keep the verdict back. For a call that failed.
  void settle();

 private:
  void place_buffers();
  void check_memory() const;
  Result<> begin_copies();

  const std::shared_ptr<StagingArea> area_;
  const DeviceBuffers buffers_;
  std::unique_ptr<StagingArea::Place> place_;
  ConstBuffer input_;
  Buffer output_;
  bool is_here_ = false;
};

}  // namespace paceline::collective
