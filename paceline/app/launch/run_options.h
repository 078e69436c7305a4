// What `paceline run` was asked for, checked and complete.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"

namespace paceline::launch {

struct RunOptions {
  int processes = 1;
  std::string program;               // the file to execute
  std::vector<std::string> command;  // argv, the program's name as the user wrote it first

  Clock::duration grace = std::chrono::seconds(1);  // what survivors have to end by themselves
  std::optional<Clock::duration> timeout = {};      // of the whole run

  // What the workers' environment says; empty: what the launcher's own environment says, else the
  // workers' default.
  std::string transport = {};
  std::string determinism = {};
  std::string operation_timeout = {};

  std::string store_host = "127.0.0.1";
  int store_port = 0;  // 0: any free one
  bool prefix = true;  // "[rank] " before each line
};

}  // namespace paceline::launch
