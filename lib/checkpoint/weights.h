/* The keys' values of a store's file, without what a store keeps about itself (store_file.h). */
#ifndef CHECKPOINT_WEIGHTS_H
#define CHECKPOINT_WEIGHTS_H

#include "checkpoint/checkpoint_build.h"

/* Does nothing unless a file is a store's, which has a text "kvstore.format". Otherwise drops the
 * tensors under __state__/ and __residual__/ and the texts under kvstore., and gives keys that
 * stand behind __key__/ their own names. A row_sparse key stays what it is in the file, the two
 * tensors __rows__/KEY/row_ids and __rows__/KEY/data: as one tensor it would have all its rows. */
void weights_only(checkpoint *c);

#endif
