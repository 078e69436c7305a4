// StagedCall: one call whose buffers lie in a device's memory. Staged, its input goes to the host,
// where a carrier takes it to the other ranks, and its output comes back. Where ranks reach each
// other's device memory it is not staged (carrier/device_reduction.h), unless that fails.
#pragma once

#include <cstdint>
#include <memory>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/staging/staged_pieces.h"
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
  // A moment for which a call waits (staged_calls.h).
  enum class Moment : std::uint8_t {
    called,  // the callers' streams have done all that they had been given before the call
    input,   // all of the input is on the host
    sum,     // this rank's kernel is done (carrier/device_reduction.h)
    output,  // the output is on the device
  };

  // Marks the moment of the call in the buffers' streams. THREAD: any. THROWS Error: misuse, the
  // buffers are not in the device's memory; io, the device or the host's memory fails.
  StagedCall(std::shared_ptr<StagingArea> area, const DeviceBuffers& buffers);
  // Waits as settle() does, where a call was refused.
  ~StagedCall();

  // Gives the buffers their places on the host. `apart`: input and output have places of their own
  // there, also where they are the same on the device, since other ranks may write to the output
  // before the input has come. THREAD: as the constructor, or the reactor's driver later. THROWS as
  // the constructor.
  void place_buffers(bool apart = false);
  // Gives the device's stream the copy of the input to its place, piece by piece; no pieces: all at
  // once. REQUIRES: is_staged(). THREAD, THROWS: as place_buffers().
  void bring(std::vector<StagedPiece> pieces = {});
  void stage(bool apart = false) {
    place_buffers(apart);
    bring();
  }
  bool is_staged() const { return host_ != nullptr; }
  // On the host. REQUIRES: is_staged().
  ConstBuffer input() const { return input_; }
  Buffer output() const { return output_; }
  const DeviceBuffers& buffers() const { return buffers_; }
  device::Device& device() const { return area_->device(); }
  // Nothing of it waits for what callers do.
  device::Stream own_stream() const { return area_->sums(); }

  // All that `stream` is given from now on begins when release() was called. THREAD: any, one at a
  // time.
  Result<> order(device::Stream stream);
  // The call has ended. THREAD: any.
  void release();

  // THREAD: reactor's driver, as all that follows.
  Result<bool> has_passed(Moment moment);
  // The input, as it was seen last: all of it, its first piece, a part of it.
  bool is_here() const { return arrived_ == arrivals_; }
  bool has_begun_to_come() const { return arrived_ > 0; }
  bool is_here(ElementRange part) const {
    return is_here() || arrived_ >= pieces_.needed_for(part);
  }
  std::size_t arrived() const { return arrived_; }  // pieces
  bool has_pieces() const { return pieces_.count() > 1; }
  // Gives the reduction to the device, beside all streams of callers.
  Result<> begin_sum(const device::Reduction& reduction);
  // This part of the output will not change any more: the device's stream is given the copy of what
  // has become a whole piece with it. Told once of each element, where has_pieces().
  Result<> output_is_final(ElementRange part);
  // Gives the device's stream the copy of the output, but for what it was given before.
  Result<> begin_return();
  // Waits until the device neither reads the input nor writes the output, or a second: one that
  // hangs must not keep the verdict back. For a call that failed.
  void settle();

 private:
  void check_memory() const;
  void mark_call();
  Result<> copy_input();
  Result<> copy_down(const StagedPiece& piece);
  Result<> copy_up(const StagedPiece& piece);
  Result<> give_back(const std::vector<std::size_t>& pieces);
  Result<> hold_behind_call(device::Stream stream) const;
  device::Event& arrival(std::size_t piece) const;

  const std::shared_ptr<StagingArea> area_;
  const DeviceBuffers buffers_;
  std::unique_ptr<StagingArea::Place> place_;  // whose events and whose word are used
  std::unique_ptr<StagingArea::Place> host_;   // the buffers' places; null: it is not staged
  std::uint32_t value_ = 0;                    // of the word, when the call has ended
  std::size_t marks_ = 0, ordered_ = 0;        // streams: of the buffers, and behind the call
  ConstBuffer input_;
  Buffer output_;
  StagedPieces pieces_;
  std::size_t arrivals_ = 1, arrived_ = 0;  // events of the input; those that have passed
  bool up_is_held_ = false;  // copies back wait for what streams were given before the call
};

// Work::order of the work lets streams wait for the call.
void let_order(Work::State& work, std::shared_ptr<StagedCall> call);

}  // namespace paceline::collective
