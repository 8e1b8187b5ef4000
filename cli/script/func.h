/* The code of the functions in function_table, one file for each subject: func_make.c, … */
#ifndef SCRIPT_FUNC_H
#define SCRIPT_FUNC_H

#include "script/function.h"

#endif
