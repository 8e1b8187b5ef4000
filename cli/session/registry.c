/* The registry is the one variable of the tool that all its rooms share. */
#include "session/registry.h"

struct registry registry;
