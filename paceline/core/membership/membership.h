// The door of membership: who is in the run, how processes find each other, and what ends them.
//
// The environment (environment.h) tells a process its place, whatever launcher started it
// (launchers.h, node_list.h; variables.h holds the names). Processes meet through the store
// (store_client.h, store_server.h, meeting.h), and every connection passes the handshake
// (handshake.h, secret.h). The links of one generation, the memory on offer and the verdict that
// ends them all are held by mesh.h; allocation.h hands memory out. The room job puts these
// together. Start reading at environment.h, then mesh.h.
#pragma once

#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/generation/allocation.h"
#include "paceline/core/membership/generation/mesh.h"
