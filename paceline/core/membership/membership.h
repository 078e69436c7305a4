// The door of membership: who is in the run, how processes find each other, and what ends them.
//
// The environment (environment/environment.h) tells a process its place, whatever launcher started
// it (launchers.h, node_list.h; variables.h holds the names; configuration.h what all ranks must
// have alike; device_transport.h and device_choices.h what it says of devices). Processes meet
// through the store (store_client.h, store_server.h, endpoint.h, and rank_device.h in it; meeting.h
// where no launcher of ours serves one), and every connection passes the handshake (handshake.h,
// secret.h; member_name.h names them for users). A wait for others that gets long is told
// (told_wait.h). Servers, which have no rank, are told of in role.h. The links of one generation,
// the memory on offer and the verdict that ends them all are held by generation/generation.h;
// generation_port.h runs machines among its members; allocation.h hands memory out, named_device.h
// tells others of a device. The room job puts these together. Start reading
// at environment/environment.h, then generation/generation.h.
#pragma once

#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/generation/allocation.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/membership/generation/generation_port.h"
