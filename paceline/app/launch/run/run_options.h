// The request to `paceline run`, checked and complete.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/agent/nodes.h"
#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/output/log_files.h"
#include "paceline/app/launch/process/environment.h"
#include "paceline/core/base/deadline.h"

namespace paceline::launch {

struct RunOptions {
  int processes = 1;
  int servers = 0;          // processes of this command that keep tables for the job
  int replicas = 1;         // servers that keep each range of a table
  int server_restarts = 3;  // servers that are started in the place of others, where it is above 1
  std::string program;      // the file to execute
  std::vector<std::string> command;  // argv, the program's name as the user wrote it first

  Clock::duration grace = std::chrono::seconds(1);  // time for survivors to end by themselves
  Clock::duration server_grace = std::chrono::seconds(10);  // the same of servers, after all ranks
  std::optional<Clock::duration> timeout = {};              // limit of the whole run
  Clock::time_point asked = Clock::now();                   // the timeout counts from here
  // Time to join the first that has joined.
  Clock::duration start_timeout = std::chrono::minutes(5);
  Clock::duration stall = std::chrono::seconds(5);  // a wait of this length is told
  // Time for the workers to save and end after Ctrl-C, SIGTERM, SIGHUP, or the timeout.
  Clock::duration stop_grace = std::chrono::seconds(30);
  // More than 1 where a batch system has started this launcher again.
  int first_generation = 1;
  // Failures in a row without a new checkpoint, after each of which the job is started again.
  int max_restarts = 0;

  // Settings in the workers' environment; empty: the launcher's own environment decides, else the
  // workers' default.
  std::string transport = {};
  std::string device_transport = {};
  std::string determinism = {};
  std::string operation_timeout = {};

  // The CUDA devices of each host's ranks (visible_devices.h); empty: all that a host shows.
  std::vector<std::string> devices = {};
  int ranks_per_device = 0;  // neighbours that share one; 0: ranks take the devices in turn

  std::string port_range = {};  // "20000:20100", checked; empty: as the system gives

  std::string store_host = "127.0.0.1";
  int store_port = 0;       // 0: any free one
  bool prefix = true;       // "[rank] " before each line
  bool timestamps = false;  // each line begins with the time at which it came
  bool bind = true;         // workers to processors of their own
  LogOptions logs = {};

  // The ranks of each host; empty: all ranks are on this host. The other hosts are reached by
  // `ssh`.
  std::vector<HostShare> hosts = {};
  // The hosts of servers, which take them in turn; empty: the workers' hosts do.
  std::vector<HostSlots> server_hosts = {};
  std::vector<std::string> ssh = {"ssh", "-T",
                                  "-o",  "BatchMode=yes",
                                  "-o",  "ServerAliveInterval=2",
                                  "-o",  "ServerAliveCountMax=3"};
  Environment passed = {};  // "NAME=value"; set on other hosts too
  NodeOptions nodes = {};   // --nnodes: one launcher on each node
};

}  // namespace paceline::launch
