// How a worker waits for the servers of its job: it asks them whom they wait for when that takes
// long, tells it on stderr at the stall time, and fails with it at the deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_port.h"

namespace paceline::server {

// A wait asks its machine by these. THREAD: each is called on the one that waits.
struct Questions {
  std::function<void()> ask;           // has the servers asked, and returns at once
  std::function<bool()> are_answered;  // all that were asked; cheap, and callable from any thread
  std::function<coordination::Awaited()> awaited;
  std::function<std::uint64_t()> movement;  // its value changes whenever data of the wait moves
};

// "server 0 hears this rank no more: ..": the server's machine has said why.
std::string text_of_drop(const job::JobLinks& links, int server, const Failure& why);
// The text of the loss of a server: if that hears this rank no more, the reason that it has said.
// THREAD: not the driver.
std::string text_of_loss(const job::JobLinks& links, const membership::GenerationPort& port,
                         const Failure& loss);

// Waits in `what` (pull of table 'w') until is_over(), or the generation fails, which the caller
// looks after. THROWS Error (timed_out) at the operation timeout, which ends the generation for all
// members. THREAD: any but the driver.
void wait_for_servers(const job::JobLinks& links, const std::string& what,
                      const std::function<bool()>& is_over, const Questions& questions);

}  // namespace paceline::server
