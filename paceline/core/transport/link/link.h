// One ordered lane of frames to one peer, over whatever carries it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "paceline/core/base/result.h"
#include "paceline/core/transport/frame/frame.h"
#include "paceline/core/transport/frame/frame_stream.h"
#include "paceline/core/transport/memory/segment_table.h"

namespace paceline::transport {

// A peer has own memory that it was offered, may yet come to have it, or
// it is withheld and messages carry what lies there. From the best to the worst.
enum class Offered : std::uint8_t { had, awaited, withheld };

// How far a link has come, in bytes of frames with their headers. Memory that one side reads or
// writes at the other does not count.
struct LinkProgress {
  std::uint64_t sent = 0;      // the peer's host has them
  std::uint64_t unsent = 0;    // they were given to the link, and the peer's host has them not yet
  std::uint64_t received = 0;  // from the peer
};

// The holder of the links of a process. THREAD: called by the reactor's driver only.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual MutableBytes place(int peer, const FrameHeader& header) = 0;  // as FrameReceiver::place
  virtual Result<> received(int peer, const FrameHeader& header, Bytes payload, bool placed) = 0;
  // The payload lies in the peer's memory: read it there, then call the link's release(header).
  virtual Result<> borrowed(int peer, const FrameHeader& header, Bytes payload) = 0;
  // The link has ended. Called once; nothing comes after it.
  virtual void lost(int peer, const Failure& why) = 0;
};

// THREAD: reactor's driver only. The destructor closes at once; frames not flushed are lost.
class Link {
 public:
  virtual ~Link() = default;
  virtual int peer() const = 0;

  // Frames arrive in the order of their sends. `payload` stays valid and unchanged until the
  // listener hears `cookie`; without a listener it is copied now. Data frames may travel as
  // references to shared memory.
  virtual void send(const FrameHeader& header, Bytes payload, SendListener* listener = nullptr,
                    std::uint64_t cookie = 0) = 0;

  // The peer's memory at `target`, to be written before a frame tells the peer of it; empty where
  // the link shares no memory with the peer, or there is no such place.
  virtual MutableBytes window(Remote target, std::size_t bytes) = 0;

  // A whole segment of the peer's, mapped for as long as it is held; nullptr where window() would
  // be empty.
  virtual std::shared_ptr<const SharedMemory> memory(std::uint64_t segment) = 0;

  // The caller uses memory that the peer has lent (window, memory, borrowed payloads) only between
  // these two, which may be nested. False: the peer's call has failed. Then begin_use has begun
  // nothing, and data read before end_use must be dropped; the peer will say why it failed.
  virtual bool begin_use() { return true; }
  virtual bool end_use() { return true; }

  // Ends the reading of a reference that `borrowed` told of.
  virtual void release(const FrameHeader& reference) = 0;

  // Returns where the peer finds memory of this rank; nothing when it cannot, or not yet.
  virtual std::optional<Remote> remote_of(Bytes own) const = 0;

  // Own shared memory that the peer may see from now on, or no longer; nullptr: the peer is told
  // that it will not come. Links that share none ignore both.
  virtual void offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) = 0;
  virtual void withdraw(std::uint64_t segment) = 0;
  virtual Offered offered(std::uint64_t /*segment*/) const { return Offered::withheld; }
  // Whether the peer has said that its memory of this name will not come.
  virtual bool withholds(std::uint64_t /*segment*/) const { return false; }

  // How long the peer's host has not answered what was sent to it, as when the network between is
  // cut; zero: it answers, or nobody can tell.
  virtual std::chrono::milliseconds unanswered() const { return {}; }

  // Zeros: nobody can tell. COST: looks at each frame that is not sent yet.
  virtual LinkProgress progress() const { return {}; }

  // Lets go of callers' memory: from now on none is read or written, and no listener is called;
  // frames that hold copies still go out. The peer's uses of lent memory end, or will be told that
  // they failed; what it may write must be taken back besides.
  virtual void abandon() = 0;

  // Everything queued has reached the peer, or at least its host: closing loses nothing.
  virtual bool flushed() const = 0;
};

}  // namespace paceline::transport
