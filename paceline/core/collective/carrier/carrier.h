// Carrier: takes the data of a collective to its end on this rank. A group picks one for each
// operation by its route (call/route.h): programs, a board, frames over links, or an engine.
//
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/collective/agreement/call_record.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/transport/frame/frame.h"

namespace paceline::collective {

enum class CallProgress : std::uint8_t {
  waiting,
  soon,  // a rank that works on the same operation is soon through with its piece: look again
  moved,
  done,
  by_messages,  // it cannot be carried out like this, and all ranks see so: programs carry it
};

// How the payload of a frame has come: it lies in the frame, in its place, or in the peer.
enum class Delivery : std::uint8_t { payload, placed, borrowed };

// The ranks that an operation waits for.
struct AwaitedRanks {
  std::vector<int> ranks = {};
  bool to_take = false;  // they have still to take what was sent to them
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  // This rank calls. `request` outlives the operation, or give_up.
  virtual Result<> begin(std::uint64_t sequence, Request& request) = 0;
  // Gives a frame that comes to this rank its place; empty: it has none yet.
  virtual MutableBytes place(int /*peer*/, const transport::FrameHeader& /*header*/) { return {}; }
  // Takes a frame; advance() is called after it.
  virtual Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                            Delivery delivery) = 0;
  // Goes on as far as it can now.
  virtual Result<CallProgress> advance() = 0;
  virtual AwaitedRanks awaited() const = 0;
  // The operation has failed, and the links were abandoned: once this has returned no other rank
  // writes to the memory of the call.
  virtual void give_up() = 0;
};

// Multiplies the input of a weighted average by this rank's weight. Once, when every rank has
// called: it writes the output.
void scale_input(Request& request, const CallRecord& record, int rank);

// A frame that the carrier does not expect, in which `why` is wrong.
Failure unexpected(const Members& members, int peer, const transport::FrameHeader& header,
                   std::string_view why);

// The failure of this rank's device, for all: it names the rank, the device and the call.
Failure failed_device(const Members& members, const Request& request, const Failure& why);

// A carrier to which ranks post their calls, the input with them or within reach, in place of a
// call frame and a program: on a board in shared memory (board_carrier.h) or over links
// (link_carrier.h). It carries the operations of a group one after the other.
//
// A rank that comes to such a call posts it by begin(); only the first post of an operation counts.
// A rank that does not (it called something else, or cannot post) sends its call to all, as for
// every other operation; ranks that wait for it then leave and do the same. So mismatches are named
// as for other calls, and no rank waits in vain. Once all have posted the same, none can leave: no
// call was sent.
class PostingCarrier : public Carrier {
 public:
  enum class Stand : std::uint8_t {
    ready,
    awaited,  // this rank cannot post, but others may: they must be told of its call
    over,     // no rank posts
  };
  virtual Stand stand() const = 0;
  virtual bool has_posted(int rank, std::uint64_t sequence) const = 0;
  // The peer has sent its call, or data. If it has posted, too, all leave the operation alike
  // (by_messages), and later calls are posted again; else no call is posted from now on.
  virtual void leave(int peer) = 0;
  // While it still sends posted input, the input's operation must not end.
  virtual bool is_sending() const { return false; }
};

}  // namespace paceline::collective
