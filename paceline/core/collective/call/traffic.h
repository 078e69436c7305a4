// The work that a communicator has done, and the work that an operation of it would take.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

// The work that a communicator has done so far, on this rank. Messages and bytes are those of
// programs: an engine (engine.h) does not tell its own.
struct Traffic {
  std::uint64_t operations = 0;     // collectives and point-to-point operations that ended
  std::uint64_t messages_sent = 0;  // data messages, announcements not counted
  std::uint64_t announcements = 0;  // frames that tell others what this rank has called
  // Their payload, whether it was copied to a wire or read by the peer.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_reduced = 0;          // bytes of results of two-operand reductions
  std::chrono::nanoseconds in_flight = {};  // time in which at least one operation was in flight
  std::chrono::nanoseconds waited = {};     // time that callers spent in Work::wait

  Traffic& operator+=(const Traffic& other) {
    operations += other.operations;
    messages_sent += other.messages_sent;
    announcements += other.announcements;
    bytes_sent += other.bytes_sent;
    bytes_reduced += other.bytes_reduced;
    in_flight += other.in_flight;
    waited += other.waited;
    return *this;
  }
};

// The time that a way to carry a call would take (collective/price/cost.h).
struct Forecast {
  std::string_view carrier;     // an algorithm, or a name that Communicator::carrier gives
  std::size_t piece_bytes = 0;  // of each chunk in one segment
  double seconds = 0;
};

}  // namespace paceline
