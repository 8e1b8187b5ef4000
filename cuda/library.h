/* Libraries that are opened at run time, and their functions by name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The first of n files that opens, or NULL. It stays open. */
void *library_open(const char *const *names, size_t n);

/* Puts a function's address where a pointer to it is; NULL and false: it has none of that name. */
bool library_find(void *library, const char *name, void *out);
