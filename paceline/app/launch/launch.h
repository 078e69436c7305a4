// The door of launch: starts the processes of a job, watches them, and stops them so that nothing
// is left behind.
//
// run() (run_job.h) is the driver: a thin loop around a Poller. Its decisions are made in
// supervisor.h, a state machine without clock, descriptor or process; root_cause.h finds which rank
// failed first, and ending.h writes the texts of the end. Below it: the launcher forks one resident
// shim for each rank (worker_process.h), which starts the worker, leads its process group and kills
// everything below itself when the launcher is gone. Output travels through pipes and
// line_prefixer.h to sinks that never block the loop (output.h, sink.h). On another host the same
// is done by an agent (agent.h), which the launcher reaches over ssh or which is that node's own
// launcher (nodes.h): to run_job.h both are a WorkerHost. Servers are started as workers are, but
// run this command itself (run_job.h). visible_devices.h names the devices of ranks. run_plan.h
// writes a run as a manifest of another system instead of starting it. This room reads no command
// line (that is cli's) and links no torch. Start reading at run_job.h and supervisor.h.
#pragma once

#include "paceline/app/launch/agent/agent.h"
#include "paceline/app/launch/emit/run_plan.h"
#include "paceline/app/launch/hosts/host_checks.h"
#include "paceline/app/launch/process/program.h"
#include "paceline/app/launch/process/visible_devices.h"
#include "paceline/app/launch/run/run_job.h"
#include "paceline/app/launch/run/run_options.h"
