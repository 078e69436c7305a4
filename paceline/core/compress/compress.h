// The door of compress: gradients in fewer bytes. Nothing here sends anything.
//
// An averaging (averaging.h) computes one result from compressed gradients, one collective after
// the other. compression.h makes one from a user's text ("top_k:ratio=0.01") and the catalogue of
// methods, and fused.h packs several tensors into one message. state_transfer.h saves and restores
// the state that outlives a step, and saved_state.h turns it into bytes. Underneath, a codec
// (codec.h) turns the values of a tensor into a payload and back, and a payload travels in a
// message (message.h). Random numbers are counter-based (counter_random.h), so that all ranks can
// draw the same ones. Start reading at averaging.h, or at codec.h for the bytes.
#pragma once

#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/averaging/fused.h"
#include "paceline/core/compress/averaging/packed_cast.h"
#include "paceline/core/compress/codecs/casts.h"
#include "paceline/core/compress/codecs/ef_sign.h"
#include "paceline/core/compress/codecs/one_bit.h"
#include "paceline/core/compress/codecs/qsgd.h"
#include "paceline/core/compress/codecs/top_k.h"
#include "paceline/core/compress/kernels/counter_random.h"
#include "paceline/core/compress/kernels/norms.h"
#include "paceline/core/compress/kernels/permutation.h"
#include "paceline/core/compress/kernels/quantise.h"
#include "paceline/core/compress/kernels/selection.h"
#include "paceline/core/compress/kernels/sign_bits.h"
#include "paceline/core/compress/menu/ratio_choice.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/compress/payload/codec.h"
#include "paceline/core/compress/payload/message.h"
#include "paceline/core/compress/payload/sparse.h"
#include "paceline/core/compress/state/saved_state.h"
#include "paceline/core/compress/state/state_transfer.h"
