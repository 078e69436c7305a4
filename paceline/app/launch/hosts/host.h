// The facts and resources that the launcher asks its host for.
#pragma once

#include <string>

#include "paceline/core/transport/socket/socket.h"

namespace paceline::launch {

int usable_cores();  // processors that this process may run on
// On 127.0.0.1, free a moment ago; 0 when there is none.
int free_port(transport::PortRange ports = {});
std::string random_job_id();  // 16 hexadecimal digits. THROWS Error (io)

}  // namespace paceline::launch
