/* The types of one process: local, device and teststore. */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "kvstore.h"

extern const kv_type_ops local_type_ops;
extern const kv_type_ops device_type_ops;
extern const kv_type_ops teststore_type_ops;

#endif
