// The public header of compress: gradients in fewer bytes. Nothing here sends anything.
//
// An averaging (averaging.h) computes one result from compressed gradients, one collective after
// the other. compression.h makes one from a user's text ("top_k:ratio=0.01") and the catalogue of
// methods, and fused.h packs several tensors into one message. state_transfer.h saves and restores
// the state that outlives a step, and saved_state.h turns it into bytes. Underneath, a codec
// (codec.h) turns the values of a tensor into a payload and back, and a payload travels in a
// message (message.h). Random numbers are counter-based (counter_random.h), so that all ranks can
// draw the same ones. Start reading at averaging.h, or at codec.h for the bytes.
#pragma once

#include "paceline/core/compress/averaging.h"
#include "paceline/core/compress/cast_average.h"
#include "paceline/core/compress/casts.h"
#include "paceline/core/compress/codec.h"
#include "paceline/core/compress/compression.h"
#include "paceline/core/compress/counter_random.h"
#include "paceline/core/compress/ef_sign.h"
#include "paceline/core/compress/fused.h"
#include "paceline/core/compress/message.h"
#include "paceline/core/compress/method_catalogue.h"
#include "paceline/core/compress/norms.h"
#include "paceline/core/compress/offers.h"
#include "paceline/core/compress/one_bit.h"
#include "paceline/core/compress/permutation.h"
#include "paceline/core/compress/qsgd.h"
#include "paceline/core/compress/quantise.h"
#include "paceline/core/compress/ratio_choice.h"
#include "paceline/core/compress/reshard.h"
#include "paceline/core/compress/saved_state.h"
#include "paceline/core/compress/selection.h"
#include "paceline/core/compress/sign_bits.h"
#include "paceline/core/compress/sparse.h"
#include "paceline/core/compress/state_transfer.h"
#include "paceline/core/compress/top_k.h"
#include "paceline/core/compress/whole_average.h"
