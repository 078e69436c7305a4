// The door of compress: gradients in fewer bytes. Pure: nothing here sends anything.
//
// At present what every codec stands on: random numbers by counter (counter_random.h), which all
// ranks can draw again, and the message that a tensor travels in (message.h). Start reading at
// message.h.
#pragma once

#include "paceline/core/compress/counter_random.h"
#include "paceline/core/compress/message.h"
