// The door of membership: who is in the job, how they found each other, and what ends it.
//
// init() (job.h) reads the environment (environment.h), meets the other ranks through the store
// (rendezvous.h, store_client.h, store_server.h; every connection passes the handshake,
// handshake.h) and gives a Job, which holds the mesh of links (mesh.h). A world of threads in one
// process, for tests and simulations: local_world.h. Start reading at job.h, then mesh.h.
#pragma once

#include "paceline/core/membership/job.h"
#include "paceline/core/membership/local_world.h"
