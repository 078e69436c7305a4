// Sends a signal only to those that have a handler for it.
#pragma once

namespace paceline::launch {

// To each process of the caller's process group that catches the signal. One that does not, such as
// a shell around a program, would be ended by it.
void signal_processes_with_handler(int signal);

}  // namespace paceline::launch
