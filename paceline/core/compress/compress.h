// The door of compress: gradients in fewer bytes. Pure: nothing here sends anything.
//
// A codec (codec.h) turns the values of a tensor into a payload and back; each has a file with its
// factory. They are made of quantise.h (integers of buckets), sign_bits.h and selection.h, which
// those who add up payloads use too, and of random numbers by counter (counter_random.h), which all
// ranks can draw again. A payload travels in a message (message.h). Start reading at codec.h.
#pragma once

#include "paceline/core/compress/casts.h"
#include "paceline/core/compress/codec.h"
#include "paceline/core/compress/counter_random.h"
#include "paceline/core/compress/ef_sign.h"
#include "paceline/core/compress/message.h"
#include "paceline/core/compress/norms.h"
#include "paceline/core/compress/one_bit.h"
#include "paceline/core/compress/permutation.h"
#include "paceline/core/compress/qsgd.h"
#include "paceline/core/compress/quantise.h"
#include "paceline/core/compress/selection.h"
#include "paceline/core/compress/sign_bits.h"
#include "paceline/core/compress/sparse.h"
#include "paceline/core/compress/top_k.h"
