// Decides which carrier takes a call (call/route.h), for all calls in one place. The answer is the
// same on all ranks whose calls match, because all that it follows from is. But buffers may lie on a
// device on one rank and on the host on another one: such calls end as programs.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/collective/group/device_carrier.h"

namespace paceline::collective {

// A group, as far as routes depend on it.
struct RouteFacts {
  int ranks = 1;
  bool shares_memory = false;  // all ranks do, on one host
  // The bytes of the longest input that ranks send to each other over links, and that their assent
  // carries.
  std::size_t longest_posted = 0, longest_gathered = 0;
  std::optional<EngineTraits> engine = {};
  DeviceCarrier devices = DeviceCarrier::staged;  // what carries buffers on devices
  bool makes_offers = false;  // of calls with such buffers, to the library of a late engine

  static RouteFacts of(const Members& members, const EngineLibrary* engine);
};

// The seconds that the model gives the board, and the cheapest program with its assent.
struct RoutePrices {
  double board = 0, program = 0;
};

// Whether ranks have a board for the call, or will have one after their first call.
bool has_board(const RouteFacts& facts, const Call& call);
// Whether ranks may offer a call with buffers on devices to the library that takes those: where
// some of them do not, because their buffers lie on the host, a program can carry it. The library
// may still refuse it; request.call.offer tells choose_route() whether it was offered.
bool may_be_offered(const RouteFacts& facts, const Request& request, std::string_view algorithm);

struct ChosenRoute {
  Route route = Route::programs;
  bool is_staged = false;  // the buffers lie on a device, and the route wants them on the host
};

// `algorithm`: that the caller named, or nothing. `prices` is asked where the answer depends on it.
// THROWS Error (misuse): the board is named for a call that it cannot take; a buffer lies in device
// memory, which nothing here can carry, or only one of the two does. THREAD: any.
ChosenRoute choose_route(const RouteFacts& facts, const Request& request,
                         std::string_view algorithm, const std::function<RoutePrices()>& prices);

}  // namespace paceline::collective
